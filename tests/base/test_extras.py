"""What is said where another library does not load, as it stands in a program of somebody's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from procrustean.base import ConfigError, optional_libraries
from procrustean.nets.build import check_net, model_by_name

MISFIT = "RuntimeError('operator torchvision::nms does not exist')"
WRAPPED = f"ModuleNotFoundError(\"Could not import module 'Trainer'.\") from {MISFIT}"


def said_by_import(module: str, library: str, failure: str, folder: Path) -> str:
    """The last line of an import of ours, where the library it needs raises that."""
    (folder / f"{library}.py").write_text(f"raise {failure}")
    code = f"import sys; sys.path.insert(0, '.'); import {module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("module", "library", "failure", "called"),
    [
        ("procrustean.balance.lightning", "lightning", MISFIT, "Lightning"),
        ("procrustean.balance.transformers", "transformers", WRAPPED, "transformers"),
    ],
)
def test_a_torchvision_that_does_not_fit(module: str, library: str, failure: str, called: str, tmp_path: Path) -> None:
    said = said_by_import(module, library, failure, tmp_path)
    assert (
        f"ConfigError: {called} cannot be imported (operator torchvision::nms does not exist); torchvision has" in said
    )
    assert "pip install --force-reinstall torch==" in said


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (
            RuntimeError("Numpy is not available"),
            r"timm cannot be imported \(Numpy is not available\); install it again",
        ),
        (
            RuntimeError("operator torchvision::nms does not exist"),
            "torchvision has to be built for the torch there is",
        ),
    ],
)
@pytest.mark.parametrize("ask", [model_by_name, check_net])
def test_a_timm_that_does_not_load(
    ask: Callable[[str], object], failure: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> ModuleType:
        raise failure

    monkeypatch.setattr(optional_libraries, "import_module", fail)
    with pytest.raises(ConfigError, match=told):
        ask("timm:resnet18")


@pytest.mark.parametrize("library", ["lightning", "transformers"])
def test_other_failures_are_told(library: str, tmp_path: Path) -> None:
    said = said_by_import(f"procrustean.balance.{library}", library, "RuntimeError('no room')", tmp_path)
    assert "cannot be imported (no room); install it again" in said


HIDING = """
import sys

class Hiding:
    def find_spec(self, name, *more):
        if name in ("lightning", "pytorch_lightning", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hiding())
"""


@pytest.mark.parametrize("library", ["lightning", "transformers"])
def test_a_library_that_is_not_there(library: str) -> None:
    code = f"{HIDING}import procrustean.balance.{library}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    told = f"; install it in the clone of this project: pip install -c constraints.txt -e '.[{library}]"
    assert told in done.stderr.splitlines()[-1]

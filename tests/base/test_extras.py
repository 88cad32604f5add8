"""What is said where another library does not load."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from procrustean.base import ConfigError, optional_libraries
from procrustean.nets.build import check_net, model_by_name

MISFIT = "RuntimeError('operator torchvision::nms does not exist')"
WRAPPED = f"ModuleNotFoundError(\"Could not import module 'Trainer'.\") from {MISFIT}"


@pytest.fixture
def said_by_import(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """`said_by_import("lightning")`: what an import of our part for that library says, as if it were the first."""

    def said(library: str) -> str:
        ours = f"procrustean.balance.{library}"
        for name in list(sys.modules):
            if name == ours or name.partition(".")[0] in (library, f"pytorch_{library}"):
                monkeypatch.delitem(sys.modules, name)
        with pytest.raises(ConfigError) as refused:
            import_module(ours)
        return str(refused.value)

    return said


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """`broken(library, failure)` lets the next import of a library raise that."""

    def breaks(library: str, failure: str) -> None:
        (tmp_path / f"{library}.py").write_text(f"raise {failure}")
        monkeypatch.syspath_prepend(tmp_path)

    return breaks


@pytest.mark.parametrize(
    ("library", "failure", "called"),
    [("lightning", MISFIT, "Lightning"), ("transformers", WRAPPED, "transformers")],
)
def test_a_torchvision_that_does_not_fit(
    library: str,
    failure: str,
    called: str,
    broken: Callable[[str, str], None],
    said_by_import: Callable[[str], str],
) -> None:
    broken(library, failure)
    said = said_by_import(library)
    assert said.startswith(f"{called} cannot be imported (operator torchvision::nms does not exist); torchvision has")
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
def test_other_failures_are_told(
    library: str, broken: Callable[[str, str], None], said_by_import: Callable[[str], str]
) -> None:
    broken(library, "RuntimeError('no room')")
    assert "cannot be imported (no room); install it again" in said_by_import(library)


class Hiding:
    """Finds none of the libraries."""

    def find_spec(self, name: str, *more: object) -> None:
        if name in ("lightning", "pytorch_lightning", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("library", ["lightning", "transformers"])
def test_a_library_that_is_not_there(
    library: str, said_by_import: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [Hiding(), *sys.meta_path])
    told = f"; install it in the clone of this project: pip install -c constraints.txt -e '.[{library}]"
    assert told in said_by_import(library)

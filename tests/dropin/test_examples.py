"""Every example runs, and is short enough to be read at a glance."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
import traceback
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ARGUMENTS = {
    "own_loop": ["--epochs", "2"],
    "lightning_callback": ["--epochs", "2"],
    "huggingface_trainer": ["--epochs", "1", "--output", "out"],
    "timm_finetuning": ["--epochs", "1"],
    "lightning_sampler": ["--epochs", "2"],
    "huggingface_sampler": ["--epochs", "1", "--output", "out"],
    "accelerate_sampler": ["--epochs", "2"],
}
DISTRIBUTED = "balanced_ddp"  # test_distributed.py runs it


def forget(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the package be looked for again when it is imported, until the test is over."""
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_example(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In this process: beside a PyTorch without CUDA, torchvision can be imported here only.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *ARGUMENTS[name]])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert re.search(r"accuracy\W+\d", shown), shown


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("lightning_callback", "lightning", "lightning"),
        ("huggingface_trainer", "datasets", "tables"),
        ("huggingface_trainer", "transformers", "transformers"),
        ("timm_finetuning", "timm", "nets"),
        ("lightning_sampler", "lightning", "lightning"),
        ("huggingface_sampler", "transformers", "transformers"),
        ("accelerate_sampler", "accelerate", "transformers"),
    ],
)
def test_a_missing_package_is_shown_with_what_to_install(
    name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget(package, monkeypatch)
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(ModuleNotFoundError) as missing:
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
    shown = "".join(traceback.format_exception(missing.value))
    assert re.search(rf"-e '\.\[(\w+,)*{extra}(,\w+)*\]'", shown), shown
    extras = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(requirement.startswith(package) for requirement in extras[extra])


def test_a_torchvision_that_does_not_load_is_told_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As beside a PyTorch that it was not built for; timm imports it."""
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    forget("timm", monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(EXAMPLES / "timm_finetuning.py"))
    assert isinstance(end.value.code, str)  # Python prints it to stderr, without a traceback, and exits with 1
    assert "operator torchvision::nms does not exist" in end.value.code
    assert "procrustean doctor" in end.value.code


def test_several_processes_are_started_by_torchrun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr(sys, "argv", [f"{DISTRIBUTED}.py"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(EXAMPLES / f"{DISTRIBUTED}.py"), run_name="__main__")
    assert end.value.code == 2
    assert "start it with: torchrun --nproc-per-node 2" in capsys.readouterr().err


def test_there_are_eight_of_at_most_sixty_lines() -> None:
    files = {path.stem: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert set(files) == {*ARGUMENTS, DISTRIBUTED}
    assert max(files.values()) <= 60

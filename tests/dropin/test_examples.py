"""Every example runs, and is short enough to be read at a glance."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ARGUMENTS = {
    "own_loop": ["--epochs", "2"],
    "lightning_callback": ["--epochs", "2"],
    "huggingface_trainer": ["--epochs", "1", "--output", "out"],
    "timm_finetuning": ["--epochs", "1"],
}
DISTRIBUTED = "balanced_ddp"  # test_distributed.py runs it


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
    ],
)
def test_a_missing_package_is_shown_with_what_to_install(name: str, package: str, extra: str) -> None:
    code = f"import runpy, sys; sys.modules[{package!r}] = None; runpy.run_path({str(EXAMPLES / f'{name}.py')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert re.search(rf"-e '\.\[(\w+,)*{extra}(,\w+)*\]'", done.stderr), done.stderr
    extras = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(requirement.startswith(package) for requirement in extras[extra])


def test_a_torchvision_that_does_not_load_is_told_without_a_traceback(tmp_path: Path) -> None:
    """As beside a PyTorch that it was not built for; timm imports it."""
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    code = f"import runpy, sys; sys.path.insert(0, '.'); runpy.run_path({str(EXAMPLES / 'timm_finetuning.py')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "operator torchvision::nms does not exist" in done.stderr
    assert "procrustean doctor" in done.stderr


def test_several_processes_are_started_by_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    command = [sys.executable, EXAMPLES / f"{DISTRIBUTED}.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "start it with: torchrun --nproc-per-node 2" in done.stderr


def test_there_are_five_of_at_most_sixty_lines() -> None:
    files = {path.stem: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert set(files) == {*ARGUMENTS, DISTRIBUTED}
    assert max(files.values()) <= 60

"""Every example runs, and is short enough to be read at a glance."""

from __future__ import annotations

import re
import runpy
import sys
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


def test_there_are_five_of_at_most_sixty_lines() -> None:
    files = {path.stem: len(path.read_text().splitlines()) for path in EXAMPLES.glob("*.py")}
    assert set(files) == {*ARGUMENTS, DISTRIBUTED}
    assert max(files.values()) <= 60

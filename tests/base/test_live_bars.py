from __future__ import annotations

import io

import pytest
from rich.console import Console

from procrustean.base.console import RichReporter

RECORD = {
    "loss": 0.836,
    "images_per_second": 11872.0,
    "test": {"headline": "balanced_accuracy", "balanced_accuracy": 0.48},
}


def shown(name: str, width: int) -> str:
    """The line of a run in the middle of its epochs."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)
    reporter = RichReporter(console)
    reporter.run_started(name, 300, 0)
    for epoch in range(20):
        reporter.epoch_done(name, epoch, RECORD)
    assert reporter._progress is not None
    picture = Console(file=io.StringIO(), width=width, color_system=None)
    with picture.capture() as line:
        picture.print(reporter._progress.get_renderable())
    reporter.close()
    return line.get().rstrip("\n")


@pytest.mark.parametrize(
    ("width", "numbers"),
    [
        (40, ""),
        (60, ""),
        (80, "test balanced accuracy 48.0 %"),
        (100, "loss 0.836, test balanced accuracy 48.0 %"),
        (140, "loss 0.836, test balanced accuracy 48.0 %, 11,872 images/s"),
    ],
)
@pytest.mark.parametrize("name", ["MFW w/ DRW, step 20, seed 0", "MFW" * 50], ids=["usual", "long"])
def test_a_narrow_terminal_keeps_epochs_and_time_left(name: str, width: int, numbers: str) -> None:
    line = shown(name, width)
    assert "\n" not in line
    assert len(line) <= width
    assert " 20/300 " in line
    assert line[-7:].count(":") == 2, "the time left"
    if name.startswith("MFW "):
        assert line.startswith(name[: 15 if width == 40 else None])
        assert f" 20/300 {numbers}".rstrip() == line[line.index(" 20/300") : -7].rstrip()

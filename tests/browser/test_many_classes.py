"""A report with more classes than fit side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from procrustean.balance.metrics import metrics_from_confusion
from procrustean.base.json_files import to_plain
from procrustean.report import write_report

if TYPE_CHECKING:
    from .conftest import Browser

CLASSES = 120


@pytest.fixture
def wide(runs: list[Path], tmp_path: Path) -> Path:
    """A real record stretched to many classes."""
    record: dict[str, Any] = json.loads((runs[0] / "result.json").read_text())
    counts = [int(500 * 0.01 ** (index / (CLASSES - 1))) for index in range(CLASSES)]
    random = np.random.RandomState(0)
    confusion = random.randint(0, 3, (CLASSES, CLASSES)) + 100 * np.eye(CLASSES, dtype=int)
    confusion[7, 3] = 90
    record["data"] |= {"classes": [f"kind of thing {index}" for index in range(CLASSES)], "counts": counts}
    for selection in record["selections"].values():
        selection["metrics"] = metrics_from_confusion(confusion, counts, top5_correct=int(confusion.sum()))
    for name in ("test_recall", "train_recall"):
        record["curves"][name] = random.rand(4, CLASSES).tolist()
    (tmp_path / "run.json").write_text(json.dumps(to_plain(record)))
    write_report([tmp_path / "run.json"], tmp_path / "report.html")
    return tmp_path / "report.html"


@pytest.mark.parametrize("width", [1280, 390])
def test_a_few_classes_are_picked_and_others_found_by_name(browser: Browser, wide: Path, width: int) -> None:
    browser.open(wide.as_uri(), width=width)
    assert len(browser.all("#class-curves .line")) == 9
    assert browser.all("svg.matrix") == []
    assert browser.one(".confusions li").text.startswith("kind of thing 7 → kind of thing 3")
    assert "The trained network is not beside the result" in browser.one("#confusion").text
    browser.one("#class-filter").send_keys("thing 11")
    assert browser.run("return document.activeElement.id") == "class-filter"
    assert browser.one("#class-filter").get_attribute("value") == "thing 11"
    assert len(browser.all(".picker .chip")) == 11  # 11 and 110 to 119
    browser.click("#class-11")
    assert len(browser.all("#class-curves .line")) == 10
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.console() == []

"""A report of more runs than there are colours: each line, mark and sample differs from all others in what is drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from procrustean import fit
from procrustean.balance.metrics import metrics_from_confusion
from procrustean.base.json_files import to_plain
from procrustean.report import write_report

if TYPE_CHECKING:
    from .conftest import Browser

RUNS = 40
MANY_CLASSES = 80  # more than get marks

#: Red, green and blue of a colour of the page, 0 to 255, as the browser shows it.
SHOWN = """
const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
const shown = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const drawn = (paths) => [...paths].map((path) => {
    const style = getComputedStyle(path);
    return [shown(style.stroke === "none" ? style.fill : style.stroke), path.getAttribute("stroke-dasharray") ?? ""];
});
"""


@pytest.fixture
def make(runs: list[Path], tmp_path: Path) -> Any:
    """A report of so many methods: real records under other names, with the classes of the first or many."""

    def written(number: int, classes: int | None = None, base: Path = runs[0]) -> str:
        files = []
        for index in range(number):
            record: dict[str, Any] = json.loads((base / "result.json").read_text())
            record["label"] = f"Method {index}"
            record["config"]["options"] = {"number": index}
            if classes is not None:
                _widen(record, classes)
            files.append(tmp_path / f"run-{index}.json")
            files[-1].write_text(json.dumps(to_plain(record)))
        write_report(files, tmp_path / "report.html")
        return (tmp_path / "report.html").as_uri()

    return written


def _widen(record: dict[str, Any], classes: int) -> None:
    counts = [5 * (classes - index) for index in range(classes)]
    record["data"] |= {"classes": [f"kind {index}" for index in range(classes)], "counts": counts}
    confusion = 10 * np.eye(classes, dtype=int)
    for selection in record["selections"].values():
        selection["metrics"] = metrics_from_confusion(confusion, counts, top5_correct=int(confusion.sum()))
    for name in ("test_recall", "train_recall"):
        record["curves"][name] = np.ones((4, classes)).tolist()


def luminance(colour: list[int]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in colour)]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_two_runs_look_alike(browser: Browser, make: Any, scheme: str) -> None:
    browser.open(make(RUNS), scheme=scheme)
    lines = browser.run(SHOWN + 'return drawn(document.querySelectorAll("#epochs .line"))')
    assert len(lines) == RUNS
    assert len({json.dumps(line) for line in lines}) == RUNS
    assert len({json.dumps(line) for line in lines[:16]}) == len({json.dumps(colour) for colour, _ in lines[:16]}) == 16
    samples = browser.run(SHOWN + 'return drawn(document.querySelectorAll("#epochs .legend .swatch line"))')
    assert samples == lines
    marks = browser.run(
        SHOWN
        + """return [...document.querySelectorAll(".toolbar .chip .swatch path")]
            .map((path) => [shown(getComputedStyle(path).fill), path.getAttribute("d")])"""
    )
    assert len({json.dumps(mark) for mark in marks}) == RUNS
    paper = luminance(browser.run(SHOWN + "return shown(getComputedStyle(document.body).backgroundColor)"))
    for colour, _ in lines:
        low, high = sorted((luminance(colour), paper))
        assert (high + 0.05) / (low + 0.05) >= 3, colour
    assert browser.console() == []


def test_names_stand_beside_few_lines_and_not_over_the_legend_of_many(browser: Browser, make: Any) -> None:
    browser.open(make(9))
    assert len(browser.all("#epochs .end-labels text")) == 9
    browser.open(make(RUNS))
    assert browser.all("#epochs .end-labels text") == []
    assert len(browser.all("#epochs .legend li")) == RUNS


def test_lines_without_marks_have_dashes(browser: Browser, make: Any) -> None:
    browser.open(make(18, MANY_CLASSES))
    lines = browser.run(SHOWN + 'return drawn(document.querySelectorAll("#classes .line"))')
    assert len({json.dumps(line) for line in lines}) == 18
    assert browser.run(SHOWN + 'return drawn(document.querySelectorAll("#classes .legend .swatch line"))') == lines


def test_two_quantities_of_many_methods_differ(browser: Browser, make: Any, tmp_path: Path) -> None:
    probed = tmp_path / "probed"
    fit("digits", imbalance="step", rho=20, epochs=2, probe_every=1, method="mfw", run_dir=probed, device="cpu")
    browser.open(make(18, base=probed))
    browser.run(
        "const list = document.getElementById('quantity'); list.value = 'Gradient norm';"
        "list.dispatchEvent(new Event('change'));"
    )
    browser.click("#layout-1")  # one panel per class, with mixing and without
    panel = "#class-curves .panels .panel:first-child .line"
    lines = browser.run(SHOWN + "return drawn(document.querySelectorAll(arguments[0]))", panel)
    assert len(lines) == len({json.dumps(line) for line in lines}) == 36

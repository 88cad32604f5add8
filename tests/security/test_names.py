"""Names of classes and files come from users' data. In tables, figures and messages they are text and nothing else."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from procrustean.api import fit
from procrustean.cli import main
from procrustean.console import PlainReporter, printable
from procrustean.data.imageset import ImageSet, Splits
from procrustean.report.figures import training_progress
from procrustean.report.results import load_result

HOSTILE = (
    "=cmd|' /C calc'!A1",
    "@SUM(1+1)*cmd",
    "+1+cmd|' /C calc'!A1",
    "-2+3",
    "</script><script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "| a | b |",
    "\\input{/etc/passwd}",
    "\x1b]0;title\x07\x1b[31m",
    "two\nlines",
    "$\\frac$",
    "b\udcffd",
    "x" * 500,
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose classes are called so."""
    labels = np.arange(2 * len(HOSTILE)) % len(HOSTILE)
    images = np.random.RandomState(0).randint(0, 256, (len(labels), 8, 8, 1)).astype(np.uint8)
    data = ImageSet(images, labels.astype(np.int64), HOSTILE)
    folder = tmp_path_factory.mktemp("names")
    settings = {
        "net": "small",
        "epochs": 1,
        "method": "erm",
        "device": "cpu",
        "precision": "fp32",
        "track_training": True,
    }
    return fit(Splits("hostile", data, data), **settings, run_dir=folder / "run").path


def table(run: Path, form: str, tmp_path: Path) -> str:
    path = tmp_path / "table"
    assert main(["compare", str(run), "--per-class", "--format", form, "--output", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def test_csv_holds_no_formulas(run: Path, tmp_path: Path) -> None:
    rows = list(csv.reader(io.StringIO(table(run, "csv", tmp_path))))
    cells = [cell for row in rows[1:] for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "@", "+", "-", "\t", "\r"))]
    assert "'=cmd|' /C calc'!A1" in cells


def test_csv_leaves_numbers_and_plain_names_alone() -> None:
    from procrustean.report.formats import _spreadsheet

    for text in ("-1.5", "+3", "cat", "'quoted'", "1e-3", ""):
        assert _spreadsheet(text) == text


@pytest.mark.parametrize("form", ["markdown", "latex", "csv"])
def test_tables_hold_nothing_a_terminal_or_a_page_would_carry_out(form: str, run: Path, tmp_path: Path) -> None:
    text = table(run, form, tmp_path)
    assert "\x1b" not in text or form == "csv"
    if form == "markdown":
        assert "<script>" not in text
        assert "[x](javascript" not in text
        assert len({line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("|")}) == 1
    if form == "latex":
        assert "\\input" not in text


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_figure_shows_them_as_they_are(run: Path, tmp_path: Path) -> None:
    for path in training_progress([load_result(run)], tmp_path / "figure"):
        assert path.stat().st_size > 1000
    picture = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert "<script>" not in picture


def test_messages_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b/0.png").write_bytes(b"no image")
    (tmp_path / "a" / "\x1b]0;title\x07.png").write_bytes(b"no image")
    assert main(["train", str(tmp_path), "--epochs", "1"]) == 2
    answer = capsys.readouterr().err
    assert "\x1b" not in answer
    assert "\x07" not in answer
    assert "]0;title" in answer


def test_progress_cannot_drive_the_terminal() -> None:
    stream = io.StringIO()
    PlainReporter(stream).say("classes \x1b[2J, \x9b31m and b\udcffd\nsecond line")
    assert stream.getvalue() == "classes \ufffd[2J, \ufffd31m and b\ufffdd\nsecond line\n"
    assert printable("Gürteltier 猫 ±") == "Gürteltier 猫 ±"


def test_a_page_of_results_holds_them_as_text(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    assert main(["report", str(run), "--output", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    assert "</script><script>alert(1)" not in text
    assert "<script>alert(1)" not in text

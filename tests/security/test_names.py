"""Names of classes and files come from users' data. In tables, figures and messages they are text and nothing else."""

from __future__ import annotations

import csv
import io
import json
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from procrustean.base.console import notify, write_result
from procrustean.base.escaping import printable, spreadsheet
from procrustean.base.progress import PlainReporter, RichReporter
from procrustean.cli import main
from procrustean.data import ImageSet, Splits
from procrustean.deploy import export
from procrustean.records import load_result
from procrustean.report import draw_figure
from procrustean.runs import fit

HOSTILE = (
    "=cmd|' /C calc'!A1",
    "@SUM(1+1)*cmd",
    "+1+cmd|' /C calc'!A1",
    "-2+3",
    "</script><script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "![p](http://example.org/p.png)",
    "**bold**",
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
    labels = np.arange(3 * len(HOSTILE)) % len(HOSTILE)
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
        "hold_out": 1,
    }
    return fit(Splits("hostile", data, data), **settings, run_dir=folder / "run").path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images, and of files that are none, which are called so."""
    root, random = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    for name in HOSTILE:
        if "/" not in name and len(name) < 200:
            (root / name).mkdir()
            for place in range(4):
                pixels = random.integers(0, 256, (8, 8), np.uint8)
                Image.fromarray(pixels).save(root / name / f"{name}{place}.png")
            (root / name / f"{name}.png").write_bytes(b"no image")
    return root


def harmless(text: str) -> bool:
    """Whether a terminal shows the text and does nothing else."""
    return text == printable(text)


def formulas(text: str) -> list[str]:
    """The cells of a CSV file that a spreadsheet would compute."""
    cells = [cell for row in list(csv.reader(io.StringIO(text)))[1:] for cell in row]
    return [cell for cell in cells if cell.startswith(("=", "@", "+", "-", "\t", "\r"))]


def table(run: Path, form: str, tmp_path: Path) -> str:
    path = tmp_path / "table"
    assert main(["compare", str(run), "--per-class", "--format", form, "--output", str(path)]) == 0
    return path.read_text(encoding="utf-8")


def test_csv_holds_no_formulas(run: Path, tmp_path: Path) -> None:
    text = table(run, "csv", tmp_path)
    assert not formulas(text)
    assert "'=cmd|' /C calc'!A1" in text


def test_csv_leaves_numbers_and_plain_names_alone() -> None:
    for text in ("-1.5", "+3", "cat", "'quoted'", "1e-3", ""):
        assert spreadsheet(text) == text


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
    for path in draw_figure("classes", [load_result(run)], tmp_path):
        assert path.stat().st_size > 1000
    picture = (tmp_path / "classes.svg").read_text(encoding="utf-8")
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


def test_live_bars_cannot_drive_the_terminal() -> None:
    stream = io.StringIO()
    reporter = RichReporter(Console(file=stream, force_terminal=False))
    reporter.run_started("a \x1b]0;title", 1, 0)
    reporter.run_finished("a \x1b]0;title", "done \x1b]0;title")
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("\ufffd]0;title") >= 2


def test_results_and_notices_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    write_result("\n".join(HOSTILE))
    notify("\n".join(HOSTILE))
    seen = capsys.readouterr()
    assert seen.out.count("]0;title") == seen.err.count("]0;title") == 1
    assert harmless(seen.out + seen.err)


def test_results_cannot_drive_a_terminal_that_is_drawn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    write_result("class \x1b]0;title\x07")
    assert "\x1b]" not in terminal.getvalue()
    assert "\ufffd]0;title\ufffd" in terminal.getvalue()


def test_predictions_hold_no_formulas_and_cannot_drive_the_terminal(
    run: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pictures)
    folders = sorted(path.name for path in pictures.iterdir() if not path.name.startswith("-"))
    command = ["predict", str(run), *folders, "--top", str(len(HOSTILE)), "--device", "cpu"]
    assert main(command) == 1  # some are no images
    seen = capsys.readouterr()
    assert seen.out.count("]0;title") > 5
    assert harmless(seen.out + seen.err)
    assert main([*command, "--output", str(tmp_path / "p.csv")]) == 1
    text = (tmp_path / "p.csv").read_text(encoding="utf-8")
    for found in (seen.out, text):
        assert not formulas(found)
        assert "'=cmd|" in found
        assert "'@SUM(1+1)*cmd/" in found  # the name of a file


def test_a_prediction_that_cannot_be_read_is_named_as_text(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "\x1b]0;title\x07.png").write_bytes(b"no image")
    assert main(["predict", str(run), str(tmp_path), "--device", "cpu"]) == 1
    seen = capsys.readouterr()
    assert "]0;title" in seen.err
    assert harmless(seen.out + seen.err)


def test_thresholds_cannot_drive_the_terminal(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["thresholds", str(run), "--recall", "0.5"]) == 0
    seen = capsys.readouterr()
    assert "]0;title" in seen.out
    assert harmless(seen.out + seen.err)


def test_a_description_cannot_drive_the_terminal(pictures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "describe", str(pictures), "--on-bad-image", "skip"]) == 0
    seen = capsys.readouterr()
    assert seen.out.count("]0;title") > 1
    assert harmless(seen.out + seen.err)


def test_a_model_card_shows_them_and_carries_out_none(run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    record = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**record, "why": list(HOSTILE)}))
    prior = tmp_path / "[x](javascript:prior).json"
    prior.write_text(json.dumps(dict.fromkeys(HOSTILE, 1.0)))
    compared = [{"name": name, "held_out_balanced_accuracy": 0.5} for name in HOSTILE]
    settings = record["config"]
    comparison = {"format": 1, "asked": settings, "config": settings, "chosen": "run", "compared": compared}
    (tmp_path / "auto.json").write_text(json.dumps(comparison))
    assert main(["export", str(tmp_path), "--output", str(tmp_path / "out"), "--prior", str(prior)]) == 0
    card = (tmp_path / "out/README.md").read_text(encoding="utf-8")
    assert harmless(card)
    for live in ("[x](", "![p](", "**bold**", "<script>", "| a | b |"):
        assert live not in card, live
    assert card.count("javascript:alert") > 4  # class, reason, method, limits
    assert "javascript:prior" in card
    tables = [part.splitlines() for part in card.split("\n\n") if part.startswith("| ")]
    assert len(tables) == 2
    for heading, *rows in tables:
        assert {row.replace("\\|", "").count("|") for row in rows} == {heading.count("|")}


def test_the_program_of_an_export_shows_them_as_text(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = export(run, output=tmp_path / "out").folder / "load.py"
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "image.png")
    monkeypatch.setattr(sys, "argv", ["load.py", str(tmp_path / "image.png")])
    runpy.run_path(str(program), run_name="__main__")
    seen = capsys.readouterr().out
    assert "]0;title" in seen
    assert harmless(seen)
    assert len(seen.splitlines()) == len(HOSTILE)


def test_a_page_of_results_holds_them_as_text(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    assert main(["report", str(run), "--output", str(output)]) == 0
    text = output.read_text(encoding="utf-8")
    assert "</script><script>alert(1)" not in text
    assert "<script>alert(1)" not in text

"""What every figure in the table has to do, whatever it shows."""

from __future__ import annotations

import inspect
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from procrustean.base import RunError
from procrustean.cli import main
from procrustean.records import Result, load_result
from procrustean.report import FIGURES, draw_figure, options_of
from procrustean.runs import fit


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """Two methods, the first with two seeds, trained with all that a figure may need."""
    folder = tmp_path_factory.mktemp("runs")
    setting: dict[str, Any] = {
        "classes": ("0", "1", "2", "3"), "imbalance": "step", "rho": 10, "net": "small-2d", "epochs": 2,
        "probes": True, "track_training": True, "device": "cpu", "precision": "fp32",
    }  # fmt: skip
    for method, seed, options in (("erm", 0, {}), ("erm", 1, {}), ("mfw", 0, {"alpha": 1.0, "beta": 1.0})):
        fit("digits", **setting, method=method, seed=seed, options=options, run_dir=folder / f"{method}-{seed}")
    return [load_result(path) for path in sorted(folder.iterdir())]


@pytest.fixture(params=FIGURES)
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    return request.param


def function_of(name: str) -> Any:
    return getattr(import_module(f"{FIGURES[name].folder}.{FIGURES[name].file}"), name)


def test_it_is_written_as_a_picture_and_as_a_drawing(name: str, runs: list[Result], tmp_path: Path) -> None:
    options: dict[str, Any] = {"over": "alpha"} if "over" in options_of(name) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files = draw_figure(name, runs, tmp_path / "figures", stem="mine", **options)
    assert [path.suffix for path in files] == [".png", ".svg"] * (len(files) // 2)
    assert len(files) == (2 * len(runs) if FIGURES[name].each_run else 2)
    assert all(path.name.startswith("mine") for path in files)
    for picture, drawing in zip(files[::2], files[1::2], strict=True):
        with Image.open(picture) as image:
            colours = image.convert("RGB").getcolors(maxcolors=image.width * image.height)
            assert image.width > 500
        assert colours is not None
        assert len(colours) > 20
        assert ET.parse(drawing).getroot().tag.endswith("svg")


def test_it_says_what_it_shows(name: str) -> None:
    assert inspect.getdoc(function_of(name))
    assert FIGURES[name].shows[0].islower() or FIGURES[name].shows.startswith(("t-SNE", "MFW"))
    assert not FIGURES[name].shows.endswith(".")


def test_its_options_are_flags_of_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["figures", "--help"])
    flags = re.findall(r"--([a-z-]+) ", capsys.readouterr().out)
    assert options_of(name) <= {flag.replace("-", "_") for flag in flags}


def test_it_is_drawn_from_at_least_one_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no results to draw"):
        draw_figure(name, [], tmp_path)

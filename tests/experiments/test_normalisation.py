"""The study of normalisation, on digits: trained, tested, stopped, continued, made into a page."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from procrustean.base import RunError
from procrustean.runs import expand

from .scripts import PROJECT, script

GRID = """
base: {source: digits, imbalance: step, rho: 20, epochs: 2, average: both, batch_size: 128}
runs:
  - {net: small, method: mfw}
  - {net: convnet-ln, method: erm}
grid: {seed: [0, 1]}
"""


@pytest.fixture(scope="module")
def study() -> ModuleType:
    return script("normalisation")


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return script("normalisation_page")


@pytest.fixture(scope="module")
def results(study: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the whole small study, made in two calls, the first of which has no time."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "grid.yaml").write_text(GRID)
    settings = {"grid": folder / "grid.yaml", "runs": folder / "runs", "results": folder / "results", "quiet": True}
    assert study.main(study.Study(**settings, minutes=1e-9)) == 3
    assert not list((folder / "results").iterdir())
    assert study.main(study.Study(**settings)) == 0
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert study.main(study.Study(**settings)) == 0
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}  # nothing is repeated
    return folder / "results"


def records(results: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(results.glob("*.json"))]


def test_one_file_per_run_with_every_test(results: Path) -> None:
    found = records(results)
    assert sorted((r["label"], r["recipe"]["net"], r["config"]["seed"]) for r in found) == [
        ("ERM", "convnet-ln", 0), ("ERM", "convnet-ln", 1), ("MFW", "small", 0), ("MFW", "small", 1)
    ]  # fmt: skip
    for record in found:
        statistics = ["kept", "mixed", "clean"] if record["label"] == "MFW" else ["kept"]
        assert {weights: list(tests) for weights, tests in record["tests"].items()} == dict.fromkeys(
            ("last", "ema", "swa"), statistics
        )
        assert [change["layer"] for change in record["clean_against_mixed"]] == (
            [f"backbone.group{n}.norm" for n in (1, 2, 3)] if record["label"] == "MFW" else []
        )
        assert len(record["tests"]["last"]["kept"]["recall"]) == 10


def test_kept_statistics_are_those_of_the_run(results: Path) -> None:
    for path in results.glob("*.json"):
        result = json.loads((results.parent / "runs" / path.stem / "result.json").read_text())
        kept = json.loads(path.read_text())["tests"]["last"]["kept"]
        assert kept["recall"] == result["selections"]["last"]["metrics"]["recall"]


def test_the_page(results: Path, page: ModuleType, tmp_path: Path) -> None:
    text = "# Title\n\n<!-- results: begin -->\nold\n<!-- results: end -->\n\nThe end.\n"
    (tmp_path / "page.md").write_text(text)
    settings = page.Page(results=results, page=tmp_path / "page.md", figures=tmp_path / "figures")
    assert page.main(settings) == 0
    made = (tmp_path / "page.md").read_text()
    assert made.startswith("# Title\n\n<!-- results: begin -->")
    assert made.endswith("<!-- results: end -->\n\nThe end.\n")
    assert "old" not in made
    found = [r for r in records(results) if r["label"] == "MFW"]
    values = [100 * r["tests"]["last"]["clean"]["accuracy"] for r in found]
    spread = abs(values[0] - values[1]) / 2**0.5
    assert f"{sum(values) / 2:.1f} ± {spread:.1f}" in made
    assert "| ConvNet, LayerNorm | step | ERM | 2 |" in made
    for name in ("accuracy", "statistics"):
        assert (tmp_path / "figures" / f"normalisation-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert page.main(settings) == 0
    assert (tmp_path / "page.md").read_text() == made


def test_a_page_without_both_marks_is_left_alone(page: ModuleType, tmp_path: Path) -> None:
    written = tmp_path / "page.md"
    written.write_text(f"Before.\n{page.BEGIN}\nAfter.\n")
    with pytest.raises(RunError, match="no place for the table"):
        page.main(page.Page(results=tmp_path, page=written, figures=tmp_path))
    assert written.read_text() == f"Before.\n{page.BEGIN}\nAfter.\n"


def test_the_page_of_the_repository_shows_its_results(page: ModuleType) -> None:
    """Whoever adds results has to run experiments/normalisation_page.py."""
    cells = list(page.cells_of(records(PROJECT / "results" / "normalisation")))
    text = (PROJECT / "docs" / "mfw-and-normalisation.md").read_text()
    assert f"{page.BEGIN}\n\n{page.section(cells)}\n{page.END}" in text
    if not cells:
        assert "Not measured yet" in page.section(cells)


def test_the_grid_of_the_study(study: ModuleType) -> None:
    from procrustean.base.yaml_files import read_yaml

    configs = expand(read_yaml(study.Study().grid), Path("runs"))
    images = {"step": 25_250, "long_tailed": 12_406}
    assert len(configs) == 45
    assert round(sum(150 * images[config.imbalance] for config in configs) / 1e6) == 136
    assert {(c.source, c.rho, c.epochs, c.average) for c in configs} == {("cifar10", 100.0, 150, "both")}
    # The files of what was trained are those of the grid: where swa began is part of what names a run.
    kept = {path.name for path in (PROJECT / "results" / "normalisation").glob("*.json")}
    assert {f"{config.slug}.json" for config in configs} == kept
    kinds = {(c.imbalance, c.net, c.method, c.drw) for c in configs}
    assert len(kinds) == 15
    assert ("long_tailed", "convnet-ln", "mfw", False) not in kinds

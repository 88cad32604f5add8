"""The summary of every method on CIFAR-10: from made-up runs, and the one that is in the repository."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_records import written
from procrustean.balance.metrics import metrics_from_confusion
from procrustean.base import ConfigError, RunError
from procrustean.records import RunSpec
from procrustean.runs.preparing import recipe_of

from .scripts import PROJECT, script

pages = script("methods_page")

GRID = """
base: {source: cifar10, imbalance: long_tailed, rho: 100, recipe: own, evaluate_every: 4, seed: 0}
runs:
  - {method: erm}
  - {method: ldam, drw: true}
  - {method: cdt}
  - {method: class_balanced, options: {form: focal}}
  - {method: vs}
  - {method: seql}
  - {method: cmo}
"""
REFERENCES = """
sources: {here: {title: One, place: one.example}, there: {title: Two, place: two.example}}
rows:
  - {method: ldam, drw: true, paper: [cifar, LDAM-DRW], reruns: {here: 77.7, there: 74.95}, note: elsewhere}
  - {method: cdt, paper: [cifar, CDT]}
  - {method: class_balanced, options: {form: focal}, reruns: {there: 75.2}}
"""
COSTS = {
    "methods": [
        {"method": name, "parts": [{"stage": "train", "phase": 0, "microseconds_per_image": time}]}
        for name, time in (("erm", 10), ("cdt", 15))
    ]
}
ERM, LDAM, CDT, VS, SEQL = (
    RunSpec("cifar10", "long_tailed", 100, method=name, drw=name == "ldam", recipe="own", evaluate_every=4)
    for name in ("erm", "ldam", "cdt", "vs", "seql")
)


def record(config: RunSpec, last: float, oracle: float) -> dict[str, Any]:
    def selected(accuracy: float) -> dict[str, Any]:
        right = round(1000 * accuracy)  # of the thousand test images of either class
        confusion = [[right, 1000 - right], [1000 - right, right]]
        return {"epoch": 3, "metrics": metrics_from_confusion(confusion, [2, 1])}

    return {
        "command": "procrustean fleet small.yaml",
        "label": config.method,
        "config": config.to_json(),
        "recipe": recipe_of(config).to_json(),
        "data": {"source": "cifar10", "classes": ["a", "b"], "counts": [2, 1]},
        "selections": {"last": selected(last), "oracle": selected(oracle)},
        "environment": {"machine": "abacus", "precision": "float32", "torch": "2.0", "python": "3.12"},
    }


@pytest.fixture
def page(tmp_path: Path) -> Any:
    """A grid of seven rows without any run."""
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "references.yaml").write_text(REFERENCES)
    (tmp_path / "costs.json").write_text(json.dumps(COSTS))
    (tmp_path / "results" / "grid").mkdir(parents=True)
    (tmp_path / "page.md").write_text(f"# Title\n\n{pages.BEGIN}\nold\n{pages.END}\n\nThe end.\n")
    return pages.Page(
        grid=tmp_path / "grid.yaml", references=tmp_path / "references.yaml", results=tmp_path / "results" / "grid",
        every=tmp_path / "results", costs=tmp_path / "costs.json", summary=tmp_path / "summary.json",
        page=tmp_path / "page.md",
    )  # fmt: skip


def keep(page: Any, config: RunSpec, last: float, oracle: float, folder: str = "grid") -> None:
    written(record(config, last, oracle), page.every / folder / f"{config.slug}.json")


def rows(page: Any) -> dict[str, dict[str, Any]]:
    return {row["settings"]: row for row in pages.summary_of(page)["rows"]}


def lines(page: Any) -> dict[str, list[str]]:
    """Cells of the rows of the table in the page, by the settings that they show."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.page.read_text().splitlines()
        if line.startswith("|")
    ]
    return {row[1].strip("`"): row for row in cells[2:]}


def test_several_seeds_missing_and_failing_rows(page: Any) -> None:
    keep(page, ERM, 0.70, 0.71)
    for seed, last in enumerate((0.75, 0.77, 0.76)):
        keep(page, replace(LDAM, seed=seed), last, last + 0.005)
    keep(page, CDT, 0.75, 0.76)  # the paper has 79.4
    keep(page, SEQL, 0.69, 0.699)  # without a reference: 1.1 points below ERM
    keep(page, VS, 0.69, 0.70)  # 1.0 is not more than 1
    assert pages.main(page) == 0
    summary = json.loads(page.summary.read_text())
    found = {row["settings"]: row for row in summary["rows"]}
    assert list(found) == ["erm", "ldam --drw", "cdt", "class_balanced --options form=focal", "vs", "seql", "cmo"]
    assert summary["missing"] == ["class_balanced --options form=focal", "cmo"]
    assert summary["marked"] == ["cdt", "seql"]
    assert summary["left_out"] == []
    assert (found["cdt"]["below"], found["seql"]["below"], found["vs"]["below"]) == (3.4, 1.1, 1.0)
    assert found["ldam --drw"]["last"] == {"mean": 0.76, "sd": 0.01, "n": 3}
    assert found["ldam --drw"]["seeds"] == [0, 1, 2]
    assert (summary["format"], summary["command"]) == (1, "python experiments/methods_page.py")
    assert summary["runs"]["commands"] == ["procrustean fleet small.yaml"]
    (environment,) = summary["runs"]["environments"]
    assert (environment["machine"], environment["torch"], environment["runs"]) == ("abacus", "2.0", 7)

    shown = lines(page)
    assert shown["ldam --drw"] == [
        "LDAM-DRW", "`ldam --drw`", "200", "3", "76.0 ± 1.0", "76.5 ± 1.0", "77.0", "77.7 [1], 74.95 [2] (elsewhere)",
        "", "",
    ]  # fmt: skip
    assert shown["cdt"][4:] == ["75.0", "76.0", "79.4", "", "1.50", "**3.4 below**"]
    assert shown["seql"][-1] == "**1.1 below ERM**"
    assert shown["class_balanced --options form=focal"][3:8] == ["0", "*missing*", "*missing*", "", "75.2 [2]"]
    assert list(shown)[-2:] == summary["missing"]
    text = page.page.read_text()
    assert "5 of the 7 rows of the grid have been run, 7 runs on abacus in float32." in text
    assert "Marked: CDT, SEQL." in text
    assert text.startswith("# Title\n\n")
    assert text.endswith("\n\nThe end.\n")
    assert "old" not in text
    assert pages.main(page) == 0
    assert page.page.read_text() == text


@pytest.mark.parametrize(("oracle", "marked"), [(0.719, True), (0.72, False), (0.76, False)])
def test_one_reference_within_three_points_is_enough(page: Any, oracle: float, marked: bool) -> None:
    keep(page, LDAM, oracle, oracle)  # 77.0 in the paper, 77.7 and 74.95 elsewhere
    assert (rows(page)["ldam --drw"]["mark"] == "more than 3 points below every reference") is marked


def test_further_seeds_in_other_folders_count(page: Any) -> None:
    keep(page, ERM, 0.70, 0.71)
    keep(page, replace(ERM, seed=1), 0.72, 0.73, folder="elsewhere")
    keep(page, replace(VS, data_seed=1), 0.5, 0.5, folder="elsewhere")  # no run of the grid, and not in its folder
    summary = pages.summary_of(page)
    (row,) = [row for row in summary["rows"] if row["settings"] == "erm"]
    assert (row["seeds"], row["last"]["mean"], summary["left_out"]) == ([0, 1], 0.71, [])
    assert row["files"][1].startswith("elsewhere/")


def test_every_row_of_the_page_has_a_name_of_its_own() -> None:
    labels = [pages.label_of(config) for config in pages.rows_of(pages.Page().grid)]
    assert sorted(set(labels)) == sorted(labels)


def test_nothing_is_said_without_erm(page: Any) -> None:
    keep(page, VS, 0.1, 0.1)
    row = rows(page)["vs"]
    assert (row["mark"], row["below"], row["compared_with"]) == (None, None, None)
    assert "Not judged, for want of ERM: VS." in pages.section(pages.summary_of(page))


def test_no_run_at_all(page: Any) -> None:
    assert pages.main(page) == 0
    assert len(json.loads(page.summary.read_text())["missing"]) == 7
    assert "0 of the 7 rows of the grid have been run" in page.page.read_text()


def test_files_that_are_no_runs_of_the_grid_are_named(page: Any) -> None:
    keep(page, replace(ERM, epochs=3), 0.5, 0.5)
    keep(page, replace(VS, data_seed=1), 0.5, 0.5)
    (page.results / "note.json").write_text("{}")
    summary = pages.summary_of(page)
    assert len(summary["missing"]) == 7
    assert len(summary["left_out"]) == 3
    assert "`note.json`" in pages.section(summary)


def test_references_have_to_fit(page: Any) -> None:
    page.references.write_text(REFERENCES + "  - {method: focal, reruns: {here: 70.0}}\n")
    with pytest.raises(ConfigError, match="no row of the grid"):
        pages.summary_of(page)
    page.references.write_text(REFERENCES + "  - {method: vs, reruns: {nowhere: 70.0}}\n")
    with pytest.raises(ConfigError, match="no source"):
        pages.summary_of(page)
    page.references.write_text(REFERENCES + "  - {method: vs, paper: [cifar, VS]}\n")
    with pytest.raises(ConfigError, match="the paper has no number"):
        pages.summary_of(page)


@pytest.mark.parametrize("text", ["nothing", f"{pages.END} {pages.BEGIN}", f"{pages.BEGIN} {pages.BEGIN} {pages.END}"])
def test_a_page_without_its_marks_is_left_alone(page: Any, text: str) -> None:
    page.page.write_text(text)
    with pytest.raises(RunError, match="no place for the table"):
        pages.main(page)
    assert page.page.read_text() == text
    assert not page.summary.exists()


def test_the_repository_shows_its_results() -> None:
    """Whoever adds results has to run experiments/methods_page.py."""
    page = pages.Page()
    said: list[str] = []
    summary = pages.summary_of(page, said.append)
    assert said == []
    assert summary["left_out"] == []
    assert len(summary["rows"]) == 36
    assert json.loads(page.summary.read_text()) == json.loads(json.dumps(summary))
    text = (PROJECT / "docs" / "methods.md").read_text()
    assert pages.with_section(text, summary) == text
    for row in summary["rows"]:  # the labels are those of the runs
        for name in row["files"]:
            label = json.loads((page.every / name).read_text())["label"]
            assert row["label"] in (label, f"plain {label}")


def test_costs_follow_the_stages_of_today(page: pages.Page) -> None:
    times = {"features": 10, "memory": 20}
    parts = [{"stage": stage, "phase": 0, "microseconds_per_image": time} for stage, time in times.items()]
    rows = [*COSTS["methods"], {"method": "oltr", "parts": parts}]
    page.costs.write_text(json.dumps({"methods": rows}))
    assert pages.cost_by_method(page.costs)["oltr"] == round((200 * 1 + 60 * 2) / 260, 3)

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from made_records import with_changes
from procrustean.base.table_formats import to_csv, to_latex
from procrustean.records import group_results
from procrustean.records.run_record import Result
from procrustean.report import comparison
from procrustean.report.class_tables import by_class_size, per_class
from procrustean.report.page_data import page_data

Make = Callable[..., Result]


@pytest.fixture
def results(result: Make) -> list[Result]:
    return [
        result(label=label, method=label.lower(), seed=seed, recall=[0.9] * 5 + [minor + 0.02 * seed] * 5)
        for label, minor in (("ERM", 0.3), ("MFW", 0.5))
        for seed in range(2)
    ]


def test_runs_are_grouped_and_selections_kept_apart(results: list[Result]) -> None:
    data = page_data(results)
    (setting,) = data["settings"]
    assert data["title"] == "ERM and MFW on digits"
    assert data["runs"] == 4
    assert setting["name"] == "digits, step ρ=50"
    assert (setting["train"], setting["test"]) == (5100, 1000)
    assert setting["sizes"] == ["many"] * 5 + ["medium"] * 5
    erm = setting["methods"][0]
    assert (erm["label"], erm["seeds"]) == ("ERM", [0, 1])
    last = erm["selections"]["last"]
    assert last["mean"] == 60.5
    assert [run["value"] for run in last["runs"]] == [60.0, 61.0]
    assert last["runs"][0]["epoch"] == 20, "readers count from 1"
    assert erm["selections"]["held_out"] is None
    assert erm["selections"]["oracle"]["mean"] > last["mean"]
    assert last["recall"][9] == 31.0
    assert erm["worst"]["last"][0] == {"true": 5, "predicted": 0, "images": 138, "of": 200}
    assert erm["examples"] is None
    assert erm["verdicts"] == []


def test_tables_are_those_of_the_library(results: list[Result]) -> None:
    (setting,) = page_data(results)["settings"]
    groups = group_results(results)
    for shown, table in (
        (setting["tables"]["comparison"], comparison(groups)),
        (setting["tables"]["sizes"]["oracle"], by_class_size(groups, "oracle")),
        (setting["tables"]["classes"]["last"], per_class(groups)),
    ):
        assert shown["csv"] == to_csv(table)
        assert shown["latex"] == to_latex(table)
        assert shown["title"] == table.title
    headings = [column["heading"] for column in setting["tables"]["comparison"]["columns"]]
    assert "held-out selected" not in headings


def test_one_run_on_few_classes_has_its_precision_and_its_calibration(result: Make) -> None:
    run = result(counts=[100, 20, 5])
    errors = {"ece_before": 0.123, "ece_default": 0.045, "ece": 0.0321}
    found = {"temperature": 1.0, "tau": 0.0, "counts": [100, 20, 5], "images": 9, "test": errors}
    run = with_changes(run, calibration=found)
    (setting,) = page_data([run])["settings"]
    tables = setting["tables"]
    headings = [column["heading"] for column in tables["classes"]["last"]["columns"]]
    assert headings == ["class", "training images", "test images", "recall", "precision"]
    assert setting["unfolded"]
    assert tables["precision"] is None
    (row,) = tables["calibration"]["rows"]
    assert [cell["text"] for cell in row] == ["ERM", "12.3", "4.5", "3.2"]


def test_several_methods_have_a_table_of_each_and_many_classes_are_folded(results: list[Result], result: Make) -> None:
    (setting,) = page_data(results)["settings"]
    assert "Test precision per class" in setting["tables"]["precision"]["last"]["title"]
    assert setting["tables"]["calibration"] is None  # nothing was held out
    many = [result(label=label, counts=[50] * 21) for label in ("ERM", "MFW")]
    (setting,) = page_data(many)["settings"]
    assert not setting["unfolded"]
    assert setting["tables"]["precision"] is None


def test_every_data_setting_has_its_part(result: Make) -> None:
    data = page_data([result(), result(kind="long_tailed"), result(label="MFW")])
    assert [setting["name"] for setting in data["settings"]] == ["digits, step ρ=50", "digits, long-tailed ρ=50"]
    assert [len(setting["methods"]) for setting in data["settings"]] == [2, 1]


def test_the_title_counts_what_is_shown(result: Make) -> None:
    def title(*runs: Result) -> str:
        return str(page_data(runs)["title"])

    four = [result(label=label) for label in ("ERM", "MFW", "LDAM", "Focal")]
    others = [result(label="MFW", method="mfw", options={"alpha": alpha}) for alpha in (0.5, 2.0)]
    assert title(*four) == "4 methods on digits"
    assert title(*four, *others) == "6 settings of 4 methods on digits"
    assert title(*others) == "2 settings of MFW on digits"
    # On other data the same methods are the same curves of another part.
    elsewhere = [result(label=label, source="cifar10") for label in ("ERM", "MFW", "LDAM", "Focal")]
    assert title(*four, *elsewhere) == "4 methods on digits, cifar10"


def test_probes_are_handed_on(result: Make) -> None:
    names = ("train_recall", "test_recall", "classification_ratio", "gradient_norm", "feature_deviation")
    probes = {"epochs": [0, 1], **{name: [[0.1] * 10, [0.2] * 10] for name in names}}
    run = with_changes(result(seed=4), probes=probes)
    ((method,),) = [setting["methods"] for setting in page_data([run])["settings"]]
    assert [verdict["seeds"] for verdict in method["verdicts"]] == [[4]]
    assert method["perClass"]["feature_deviation"]["mean"][1] == [0.2] * 10
    keys = {part["key"] for quantity in page_data([run])["quantities"] for part in quantity["parts"]}
    assert keys >= set(method["perClass"])


def test_a_large_matrix_is_left_out(result: Make) -> None:
    counts = list(range(100, 60, -1))
    ((method,),) = [setting["methods"] for setting in page_data([result(counts=counts)])["settings"]]
    assert method["confusion"]["last"] is None
    assert len(method["worst"]["last"]) == 12


def test_settings_that_differ_and_provenance(results: list[Result]) -> None:
    results[2] = with_changes(
        results[2],
        environment__machine="a fast one",
        environment__precision="bf16",
        seconds={"total": 200.0},
        images_per_second=1234.5,
        command="procrustean fleet grid.yaml",
    )
    results[3] = with_changes(results[3], environment__precision="bf16")
    (setting,) = page_data(results)["settings"]
    rows = {(row["part"], row["name"]): row["values"] for row in setting["configuration"]}
    assert rows["method", "name"] == ["erm", "mfw"]
    assert rows["recipe", "batch size"] == ["128", "128"]
    assert ("run", "epochs") not in rows, "the recipe has the value used"
    run = setting["provenance"][2]
    assert run["machine"] == "a fast one"
    assert run["time"] == "3 min 20 s"
    assert run["images/s"] == "1,234"
    assert run["command"] == "procrustean fleet grid.yaml"


def test_everything_is_plain_json(results: list[Result]) -> None:
    text = json.dumps(page_data(results), allow_nan=False)
    assert json.loads(text)["settings"]

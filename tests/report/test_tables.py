from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from scipy import stats

from made_records import with_changes
from procrustean.base import RunError
from procrustean.base.escaping import markdown
from procrustean.base.json_files import typed_json
from procrustean.base.table_formats import Cell, Column, Statistic, Table, to_csv, to_latex, to_rich
from procrustean.records import RunSpec, group_results, load_result
from procrustean.records.groups import Group
from procrustean.records.run_labels import data_text
from procrustean.records.run_record import Result
from procrustean.records.several_runs import Compared, Comparison
from procrustean.report import comparison, to_markdown
from procrustean.report.class_tables import by_class, by_class_size, per_class

Make = Callable[..., Result]
NASTY = "a|b*c_d`e<f>[g]{h}$i&j#k%l~m^n\\o\np\x1b[31mq"


@pytest.fixture
def groups(result: Make) -> list[Group]:
    runs = [
        result(label=label, method=label, seed=seed, recall=[0.9] * 5 + [minor + 0.02 * seed] * 5)
        for label, minor in (("ERM", 0.30), ("MFW", 0.50), ("MFW-DRW", 0.40))
        for seed in range(3)
    ]
    return group_results(runs)


def headings(table: Table) -> list[str]:
    return [column.heading for column in table.columns if not column.csv_only]


def column(table: Table, name: str) -> list[Cell]:
    index = [column.name for column in table.columns].index(name)
    return [row[index] for row in table.rows]


def drawn(table: Table, width: int) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=True, color_system=None, legacy_windows=False)
    console.print(to_rich(table, width=width))
    return stream.getvalue().splitlines()


def test_comparison_has_the_columns_of_the_three_selections(groups: list[Group]) -> None:
    table = comparison(groups)
    assert headings(table) == ["method", "last epoch", "oracle", "major", "minor", "macro-F1"]
    assert table.title == "Test accuracy in %: digits, step ρ=50, small, paper recipe, 20 epochs"
    assert [cell.text for cell in column(table, "last")] == ["61.0 ± 1.0", "71.0 ± 1.0", "66.0 ± 1.0"]
    assert [cell.text for cell in column(table, "oracle")] == ["66.0 ± 1.0", "76.0 ± 1.0", "71.0 ± 1.0"]
    assert ("seeds", "3") in table.shared
    assert "n=3 runs. No images were held out" in table.note


@pytest.mark.parametrize("write", [to_markdown, to_latex, lambda table: " ".join(drawn(table, 100_000))])
def test_below_the_table_stands_whether_the_best_is_told_apart(result: Make, write: Callable[[Table], str]) -> None:
    minor = {"ERM": (0.30, 0.31, 0.32), "MFW": (0.50, 0.51, 0.52), "MFW-DRW": (0.40, 0.48, 0.56)}
    runs = [
        result(label=label, method=label, seed=seed, recall=[0.9] * 5 + [recall] * 5)
        for label, recalls in minor.items()
        for seed, recall in enumerate(recalls)
    ]
    table = comparison(group_results(runs))
    text = write(table)
    assert "Bold: the best mean of its column. Last epoch: best is MFW, 70.5. Not told apart from it by these" in text
    assert "seeds: MFW-DRW (-1.5, p=0.58). Two means are told apart where Welch's t-test" in text
    assert text.count("Welch") == 1
    assert "Welch" not in to_csv(table)


def test_a_csv_file_has_p_against_the_best_row_on_the_same_images(result: Make) -> None:
    minor = {"ERM": (0.30, 0.31, 0.32), "MFW": (0.50, 0.51, 0.52), "LDAM": (0.48, 0.52), "Focal": (0.9,)}
    runs = [
        result(label=label, method=label, seed=seed, recall=[0.9] * 5 + [recall] * 5)
        for label, recalls in minor.items()
        for seed, recall in enumerate(recalls)
    ]
    other = [result(label="CB", seed=seed, data_seed=seed, recall=0.99) for seed in range(2)]
    rows = list(csv.DictReader(io.StringIO(to_csv(comparison(group_results([*runs, *other]))))))
    found = {row["method"]: row["p_against_best"] for row in rows}
    for label in ("ERM", "LDAM"):
        expected = stats.ttest_ind(minor["MFW"], minor[label], equal_var=False).pvalue
        assert float(found.pop(label)) == pytest.approx(expected)
    assert found == {"MFW": "", "Focal": "", "CB": ""}  # the best itself, a single run, other images
    assert "p" not in headings(comparison(group_results(runs)))


def test_single_runs_and_single_methods_are_not_ranked(result: Make) -> None:
    runs = [result(label=label, method=label, recall=[r] * 10) for label, r in (("ERM", 0.7), ("MFW", 0.8))]
    assert "Bold: the best mean of its column. Single runs do not rank." in comparison(group_results(runs)).note
    assert "told apart" not in comparison(group_results(runs)).note
    repeats = [result(recall=[0.7 + seed / 100] * 10, seed=seed) for seed in range(2)]
    assert "Bold" not in comparison(group_results(repeats)).note


def test_rows_that_differ_by_a_column_are_told_apart_by_their_settings(result: Make) -> None:
    runs = [
        result(label="ERM", epochs=epochs, seed=seed, recall=[epochs / 100 + seed / 100] * 10)
        for epochs in (20, 30)
        for seed in range(2)
    ]
    assert "Last epoch: best is ERM (epochs=30), 30.5. Told apart" in comparison(group_results(runs)).note


def test_what_differs_gets_a_column(result: Make) -> None:
    runs = [
        result(label="ERM", recipe="own", held_out_recall=0.4),
        result(label="MFW", epochs=30),
        result(label="MFW", epochs=30, seed=1),
    ]
    table = comparison(group_results(runs))
    assert headings(table)[:6] == ["method", "recipe", "epochs", "seeds", "last epoch", "held-out selected"]
    assert table.title == "Test accuracy in %: digits, step ρ=50, small"
    assert [cell.text for cell in column(table, "held_out")] == ["40.0", "—"]
    assert [cell.text for cell in column(table, "epochs")] == ["20", "30"]
    assert "held out" not in table.note


def test_options_that_no_row_names_are_in_the_note(result: Make) -> None:
    erm, changed = result(), result(label="MFW", method="mfw", options={"alpha": 0.1, "draw": "batch"})
    table = comparison(group_results([erm, changed]))
    assert [cell.text for cell in column(table, "method")] == ["ERM", "MFW"]
    assert table.note.endswith("Options given: MFW with alpha=0.1, draw=batch.")
    assert [row["options"] for row in csv.DictReader(to_csv(table).splitlines())] == ["", "alpha=0.1, draw=batch"]
    other = result(label="MFW", method="mfw", options={"alpha": 2.0, "draw": "batch"})
    table = comparison(group_results([erm, changed, other]))
    assert [cell.text for cell in column(table, "method")] == ["ERM", "MFW (alpha=0.1)", "MFW (alpha=2.0)"]
    assert table.note.endswith("MFW (alpha=0.1) with draw=batch; MFW (alpha=2.0) with draw=batch.")
    assert "Options" not in comparison(group_results([erm])).note


def trained(make: Make, given: dict[str, Any], **more: Any) -> Result:
    """A run whose recipe was changed by settings that it was given."""
    changes = {"padding": 0, "flip": False} if given.get("augment") == "none" else {}
    return with_changes(
        make(**more, **given), **{f"recipe__{name}": value for name, value in {**given, **changes}.items()}
    )


def test_settings_that_differ_between_methods_are_in_the_note_and_in_csv(result: Make) -> None:
    changes = {"lr": 0.2, "weight_decay": 0.01, "batch_size": 16, "augment": "none"}
    runs = [trained(result, {}), trained(result, changes, label="LDAM-DRW", method="ldam")]
    table = comparison(group_results(runs))
    assert [cell.text for cell in column(table, "method")] == ["ERM", "LDAM-DRW"]
    told = "Settings that differ: LDAM-DRW with batch_size=16, lr=0.2, weight_decay=0.01, augment=none."
    assert table.note.endswith(told)
    rows = list(csv.DictReader(to_csv(table).splitlines()))
    assert [[row[name] for name in changes] for row in rows] == [
        ["0.1", "0.0002", "128", "pad_crop_flip"],
        ["0.2", "0.01", "16", "none"],
    ]
    for other in (per_class, by_class_size):
        assert told in other(group_results(runs)).note


def test_settings_that_all_rows_were_given_are_in_the_title(result: Make) -> None:
    runs = [trained(result, {"lr": 0.2}, label=label, average="ema") for label in ("ERM", "MFW")]
    table = comparison(group_results(runs))
    assert table.title.endswith("paper recipe, 20 epochs, lr=0.2, average=ema")
    assert "Settings" not in table.note
    assert [row["lr"] for row in csv.DictReader(to_csv(table).splitlines())] == ["0.2", "0.2"]
    assert comparison(group_results(runs[:1])).title.endswith("paper recipe, 20 epochs")


def test_a_setting_that_comes_to_what_the_recipe_has_is_no_difference(result: Make) -> None:
    table = comparison(group_results([trained(result, {}), trained(result, {"lr": 0.1}, label="MFW")]))
    assert "Settings" not in table.note
    assert table.title.endswith("paper recipe, 20 epochs")


def test_rows_that_name_their_settings_are_not_named_again(result: Make) -> None:
    runs = [trained(result, {}), trained(result, {"lr": 0.2}), trained(result, {"lr": 0.2}, label="MFW")]
    table = comparison(group_results(runs))
    assert [cell.text for cell in column(table, "method")] == ["ERM (lr=0.1)", "ERM (lr=0.2)", "MFW"]
    assert table.note.endswith("Settings that differ: MFW with lr=0.2.")


def test_rows_of_one_label_are_told_apart_by_their_data_in_the_note(result: Make) -> None:
    runs = [trained(result, {}), trained(result, {"lr": 0.2}, source="cifar10"), trained(result, {}, label="MFW")]
    table = comparison(group_results(runs))
    assert table.note.endswith("Settings that differ: ERM (cifar10, step ρ=50) with lr=0.2.")


def test_another_precision_and_what_is_no_part_of_the_recipe_are_named(result: Make) -> None:
    half, whole = result(label="MFW", evaluate_every=5, hold_out=3, hold_out_from="source"), result(hold_out=3)
    half = with_changes(half, environment__precision="bf16")
    table = comparison(group_results([whole, half]))
    named = "ERM with precision=fp32; MFW with precision=bf16, hold_out_from=source, evaluate_every=5."
    assert table.note.endswith(f"Settings that differ: {named}")


def test_the_best_of_a_column_is_marked_unless_all_are_equal(groups: list[Group]) -> None:
    table = comparison(groups)
    assert [cell.best for cell in column(table, "last")] == [False, True, False]
    assert [cell.best for cell in column(table, "minor")] == [False, True, False]
    assert [cell.best for cell in column(table, "major")] == [False] * 3
    assert [cell.best for cell in column(table, "held_out")] == [False] * 3
    assert not any(cell.best for row in comparison(groups[:1]).rows for cell in row)


def test_means_that_read_the_same_are_both_best(result: Make) -> None:
    recalls = {"A": [0.5] * 10, "B": [0.5] * 9 + [0.501], "C": [0.1] * 10}
    table = comparison(
        group_results(result(label=label, recall=recall, test_counts=[1000] * 10) for label, recall in recalls.items())
    )
    assert [cell.text for cell in column(table, "last")] == ["50.0", "50.0", "10.0"]
    assert [cell.best for cell in column(table, "last")] == [True, True, False]


def test_one_run_has_no_spread(result: Make) -> None:
    table = comparison(group_results([result(recall=0.5)]))
    assert column(table, "last")[0].text == "50.0"
    assert "n=1" in table.note


def test_a_different_number_of_runs_is_shown_in_the_cell(result: Make) -> None:
    runs = [result(seed=0, hold_out=3, held_out_recall=0.4), result(seed=1, hold_out=3)]
    table = comparison(group_results(runs))
    assert column(table, "held_out")[0].text == "40.0 (n=1)"
    assert "3 images of each class held out" in table.title


def test_different_data_become_a_column_and_are_not_ranked_against_each_other(result: Make) -> None:
    runs = [
        result(label="ERM", recall=0.9),
        result(label="ERM", recall=0.3, kind="long_tailed", net="resnet20"),
        result(label="MFW", recall=0.8),
        result(label="MFW", recall=0.4, kind="long_tailed", net="resnet20"),
    ]
    table = comparison(group_results(runs))
    assert table.title == "Test accuracy in %: digits, ρ=50, paper recipe, 20 epochs"
    assert headings(table)[:4] == ["data", "method", "network", "last epoch"]
    assert [cell.text for cell in column(table, "data")] == ["step"] * 2 + ["long-tailed"] * 2
    in_csv = [row["data"] for row in csv.DictReader(io.StringIO(to_csv(table)))]
    assert in_csv == ["digits, step ρ=50"] * 2 + ["digits, long-tailed ρ=50"] * 2
    assert [cell.text for cell in column(table, "method")] == ["ERM", "MFW", "ERM", "MFW"]
    assert [cell.best for cell in column(table, "last")] == [True, False, False, True]


def test_chosen_classes_are_named(result: Make) -> None:
    whole = result()
    some = result(classes=["cat", "dog"], counts=[1000, 20])
    some = with_changes(some, config__classes=["cat", "dog"])
    table = comparison(group_results([whole, some]))
    assert [cell.text for cell in column(table, "data")] == ["digits", "digits (2 classes: cat, dog)"]
    names = [f"class {i}" for i in range(10)]
    whole = with_changes(whole, config__classes=names)
    (group,) = group_results([whole])
    assert "digits (10 classes: class 0, class 1, class 2, class 3, class 4, class 5 and 4 more)" in data_text(group)


def test_data_seeds_are_named_and_ranked_among_those_on_the_same_images(result: Make) -> None:
    seeds = [(0, 0), (1, 0), (0, 1)]
    runs = [result(label="MFW", seed=seed, data_seed=other, recall=0.6 + 0.1 * other) for seed, other in seeds]
    table = comparison(group_results([result(label="ERM"), *runs]))
    assert [cell.text for cell in column(table, "method")] == ["ERM", "MFW", "MFW"]
    assert [cell.text for cell in column(table, "data_seeds")] == ["0", "0", "1"]
    assert [cell.best for cell in column(table, "last")] == [False, True, False]
    assert "Other data seeds are other images" in table.note
    shared = comparison(group_results([result(data_seed=1), result(seed=1, data_seed=2)]))
    assert shared.title.endswith("20 epochs, data seeds 1, 2")
    assert "data seed" not in shared.note


def test_bold_says_that_only_rows_on_the_same_images_are_compared(result: Make) -> None:
    near = [result(label="ERM", seed=seed, data_seed=0, recall=0.5 + 0.01 * seed) for seed in range(3)]
    far = [result(label="MFW", seed=seed, data_seed=0, recall=0.9 + 0.01 * seed) for seed in range(3)]
    other = [result(label="LDAM", seed=seed, data_seed=seed, recall=0.95) for seed in range(2)]
    note = comparison(group_results([*near, *far, *other])).note
    assert "Bold: the best mean of its column among rows on the same images. Last epoch, digits, step" in note
    assert ", data seed 0: best is MFW, 91.0. Told apart from all others on the same images" in note
    alone = comparison(group_results([*near, *far])).note
    assert "Bold: the best mean of its column. Last epoch: best is MFW, 91.0. Told apart from all others" in alone
    assert "same images" not in alone


def test_tables_of_classes_name_the_images_among_which_they_mark(result: Make) -> None:
    """The third was trained on other images: it is higher in all classes, and no rival."""
    runs = [
        result(label="ERM", recall=0.5),
        result(label="MFW", recall=0.6),
        *(result(label="LDAM", seed=seed, data_seed=seed, recall=0.7) for seed in range(2)),
    ]
    groups = group_results(runs)
    names = ["ERM, data seed 0", "MFW, data seed 0", "LDAM, data seeds 0, 1"]
    table = per_class(groups)
    assert headings(table)[3:] == names
    assert [cell.best for cell in table.rows[0]][3:] == [False, True, False]
    assert "compare columns that share them. Bold: the best mean of its row." in table.note
    sizes = by_class_size(groups)
    assert [cell.text for cell in column(sizes, "method")] == names
    assert "compare rows that share them." in sizes.note
    assert "Bold: the best mean of its column." in sizes.note
    plain = per_class(groups[:2])
    assert headings(plain)[3:] == ["ERM", "MFW"]
    assert plain.note == "One run each (n=1), so no spread is known. Bold: the best mean of its row."
    assert "Bold" not in per_class(groups[:1]).note


def test_data_of_the_same_name_but_other_content_are_told_apart(result: Make) -> None:
    table = comparison(group_results([result(source_hash="a" * 64), result(source_hash="b" * 64)]))
    assert [cell.text.rsplit(" ", 1)[1] for cell in column(table, "data")] == ["aaaaaaaa", "bbbbbbbb"]


def test_balanced_accuracy_is_used_where_any_test_set_is_skewed(result: Make) -> None:
    skewed = result(test_counts=[100] * 9 + [50], recall=[0.5] * 9 + [1.0], source="flowers")
    table = comparison(group_results([skewed, result(recall=0.5)]))
    assert table.title.startswith("Test balanced accuracy in %")
    assert [cell.text for cell in column(table, "last")] == ["55.0", "50.0"]


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ([5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50], []),
        ([500] * 20 + [50] * 20 + [5] * 20, ["many", "medium", "few"]),
        ([500] * 20 + [50] * 20, ["many", "medium"]),
        ([500] * 40, []),
    ],
)
def test_many_medium_few_only_where_they_matter(result: Make, counts: list[int], shown: list[str]) -> None:
    found = headings(comparison(group_results([result(counts=counts)])))
    assert [name for name in found if name in ("many", "medium", "few")] == shown


def test_per_class_marks_the_best_method_of_each_class(groups: list[Group]) -> None:
    table = per_class(groups)
    assert headings(table) == [
        "class",
        "training images",
        "test images",
        "ERM",
        "MFW",
        "MFW-DRW",
    ]  # one name beside LDAM-DRW, whatever the record says
    assert len(table.rows) == 10
    assert [cell.text for cell in table.rows[9]] == [
        "class 9",
        "20",
        "100",
        "32.0 ± 2.0",
        "52.0 ± 2.0",
        "42.0 ± 2.0",
    ]
    assert [cell.best for cell in table.rows[9]] == [False, False, False, False, True, False]
    assert not any(cell.best for cell in table.rows[0])
    assert "oracle" in per_class(groups, "oracle").title


def test_recall_and_precision_of_one_setting(result: Make) -> None:
    """Images that are not found are taken for the first class."""
    counts, recall, tested = [500, 100, 10], [1.0, 0.9, 0.5], [100, 50, 20]
    (group,) = group_results([result(counts=counts, recall=recall, test_counts=tested)])
    table = by_class(group)
    assert headings(table) == ["class", "training images", "test images", "recall", "precision"]
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["class 0", "500", "100", "100.0", "87.0"],
        ["class 1", "100", "50", "90.0", "100.0"],
        ["class 2", "10", "20", "50.0", "100.0"],
    ]
    assert [cell.text for cell in by_class(group, "held_out").rows[0]] == ["class 0", "500", "—", "—", "—"]
    twice = group_results(result(counts=counts, recall=[1.0, 0.9, share], seed=n) for n, share in enumerate((0.4, 0.6)))
    assert by_class(twice[0]).rows[2][3].text == "50.0 ± 14.1"
    assert "over n=2 runs" in by_class(twice[0]).note
    assert per_class(twice, metric="precision").title.startswith("Test precision per class")


def test_what_held_out_images_have_chosen_is_not_ranked_by_test_results(saved: Callable[..., Path]) -> None:
    runs = [saved(f"all/{name}", label=name, method=name, recall=recall) for name, recall in (("A", 0.4), ("B", 0.6))]
    tables = (comparison, per_class, by_class_size)

    def marked() -> list[bool]:
        groups = group_results(map(load_result, runs))
        return [any(cell.best for row in table(groups).rows for cell in row) for table in tables]

    assert marked() == [True] * 3
    asked = RunSpec("digits", method="auto")
    compared = [Compared(name=name, held_out_balanced_accuracy=0.5) for name in "AB"]
    kept = Comparison(asked=asked, config=asked, chosen="A", compared=compared)
    (runs[0].parent / "auto.json").write_bytes(typed_json(kept))
    assert marked() == [False] * 3
    groups = group_results(map(load_result, runs))
    assert "Bold" not in comparison(groups).note
    assert not any(cell.text for cell in column(comparison(groups), "p_against_best"))
    for table in (per_class, by_class_size):
        assert "The best are not marked" in table(groups).note
        assert "textbf" not in to_latex(table(groups))


def test_recall_by_class_size(result: Make) -> None:
    counts = [500, 101, 100, 20, 19, 1]
    recall = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    runs = [
        result(label=label, counts=counts, recall=[share + up for share in recall])
        for label, up in (("ERM", 0.0), ("MFW", 0.05))
    ]
    table = by_class_size(group_results(runs))
    assert headings(table) == ["method", "many", "medium", "few", "major", "minor"]
    assert [cell.text for cell in table.rows[0]] == ["ERM", "85.0", "65.0", "45.0", "80.0", "50.0"]
    assert [cell.best for cell in table.rows[1]] == [False] + [True] * 5
    assert "few: fewer than 20 (2 classes)" in table.note
    assert "minor: the rest (3 classes)" in table.note
    assert [cell.text for cell in by_class_size(group_results(runs), "oracle").rows[0]][1] == "90.0"


def test_a_class_size_without_classes_is_said_to_have_none(result: Make) -> None:
    table = by_class_size(group_results([result()]))
    assert column(table, "few")[0].text == "—"
    assert "few: fewer than 20 (0 classes)" in table.note


@pytest.mark.parametrize("table", [per_class, by_class_size])
def test_tables_of_classes_need_the_same_data(result: Make, table: Callable[[list[Group]], Table]) -> None:
    with pytest.raises(RunError, match=r"same data.*long-tailed.*step"):
        table(group_results([result(), result(kind="long_tailed")]))


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(RunError, match="no results"):
        comparison([])
    with pytest.raises(RunError, match="no results"):
        per_class([])


def test_markdown(result: Make) -> None:
    text = to_markdown(comparison(group_results([result(label="A", recall=0.5), result(label="B", recall=0.25)])))
    lines = text.splitlines()
    assert lines[0] == "**Test accuracy in %: digits, step ρ=50, small, paper recipe, 20 epochs**"
    assert re.fullmatch(r"\|-+\|(-+:\|)+", lines[3])
    assert len({len(line) for line in lines[2:6]}) == 1
    assert "| **50.0** |" in lines[4]
    assert "|     25.0 |" in lines[5]


def test_csv_has_raw_numbers(groups: list[Group]) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(comparison(groups)))))
    expected = groups[1].statistic("headline")
    assert expected is not None
    assert rows[1]["method"] == "MFW"
    assert rows[1]["data"] == "digits, step ρ=50"
    assert rows[1]["network"] == "small"
    assert float(rows[1]["last_mean"]) == expected.mean
    assert float(rows[1]["last_sd"]) == expected.sd
    assert rows[1]["last_n"] == "3"
    assert (rows[1]["held_out_mean"], rows[1]["held_out_sd"], rows[1]["held_out_n"]) == ("", "", "")


def test_latex_uses_booktabs_and_escapes(groups: list[Group]) -> None:
    text = to_latex(comparison(groups))
    assert r"\begin{tabular}{lrrrrr}" in text
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")
    assert r"\textbf{71.0 $\pm$ 1.0}" in text
    assert r"Test accuracy in \%: digits, step $\rho$=50, small, paper recipe, 20 epochs." in text
    assert text.isascii()


def nasty_table() -> Table:
    return Table(
        title=NASTY,
        columns=(Column("class", NASTY, numeric=False), Column("value", "value", measured=True)),
        rows=((Cell(NASTY), Cell("50.0 ± 1.0", statistic=Statistic(0.5, 0.01, 2))),),
        note=NASTY,
    )


def test_names_cannot_break_markdown() -> None:
    lines = to_markdown(nasty_table()).splitlines()
    assert len(lines) == 7
    row = lines[4]
    assert len(re.findall(r"(?<!\\)\|", row)) == 3
    assert not re.search(r"(?<!\\)[*`<\[$]", row)
    assert "c_d" in row  # within a word it is only itself
    assert r"\\o p" in row
    assert "\x1b" not in row


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("max_margin=50.0", "max_margin=50.0"),
        ("MFW & co_1, a&b", "MFW & co_1, a&b"),
        ("_a_ b_ __c__ d__e", r"\_a\_ b\_ \_\_c\_\_ d\_\_e"),
        ("&lt;b&gt; &#60; &amp", r"\&lt;b\&gt; \&#60; &amp"),
    ],
)
def test_markdown_escapes_only_what_it_would_read_as_more(text: str, written: str) -> None:
    assert markdown(text).replace(r"\#", "#") == written


def test_wide_letters_stand_in_columns() -> None:
    columns = (Column("class", "class", numeric=False), Column("images", "画像"))
    table = Table(title="", columns=columns, rows=((Cell("日本"), Cell("12")), (Cell("plain"), Cell("3"))))
    assert to_markdown(table).splitlines()[2:] == [
        "| class | 画像 |",
        "|-------|-----:|",
        "| 日本  |   12 |",
        "| plain |    3 |",
    ]


def test_names_cannot_break_latex() -> None:
    text = to_latex(nasty_table())
    row = next(line for line in text.splitlines() if "50.0" in line)
    assert row == (
        r"    a\textbar{}b{*}c\_d\textasciigrave{}e\textless{}f\textgreater{}{[}g]\{h\}\$i\&j\#k\%l"
        r"\textasciitilde{}m\textasciicircum{}n\textbackslash{}o p {[}31mq & 50.0 $\pm$ 1.0 \\"
    )


def test_names_cannot_break_csv() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(nasty_table()))))
    assert rows == [["class", "value_mean", "value_sd", "value_n"], [NASTY, "0.5", "0.01", "2"]]


def test_names_cannot_drive_the_terminal() -> None:
    table = Table("[bold]t[/bold]", (Column("c", "[red]c", numeric=False),), ((Cell("[/nope] \x1b[31m:smile:"),),))
    text = "\n".join(drawn(table, 80))
    for kept in ("[bold]t[/bold]", "[red]c", "[/nope]", ":smile:"):
        assert kept in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_number_is_lost_on_a_narrow_terminal(result: Make, width: int) -> None:
    counts = [500] * 20 + [50] * 20 + [5] * 20
    runs = [
        result(label=label, seed=seed, counts=counts, recall=recall + 0.01 * seed)
        for label, recall in (("ERM", 0.41), ("MFW-DRW", 0.62))
        for seed in range(2)
    ]
    table = comparison(group_results(runs))
    lines = drawn(table, width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for row in table.rows:
        for cell, column_ in zip(row, table.columns, strict=True):
            if column_.csv_only:
                continue
            for word in cell.text.replace("± ", "±").split():
                assert word in words
    for heading in headings(table):
        assert set(heading.split()) <= set(words)


def test_a_row_of_the_usual_comparison_fits_a_line_of_a_hundred_characters(result: Make) -> None:
    settings = [
        {"label": label, "kind": kind, "epochs": epochs, "seed": seed, "recall": 0.5 + 0.01 * seed}
        for kind in ("step", "long_tailed")
        for label, epochs, seeds in (("ERM", 200, 2), ("MFW", 300, 3), ("MFW-DRW", 300, 3))
        for seed in range(seeds)
    ]
    lines = drawn(comparison(group_results(result(rho=100.0, **setting) for setting in settings)), 100)
    rows = [line for line in lines if line.startswith(("step", "long-tailed"))]
    assert len(rows) == 6
    assert all(row.count("±") == 5 for row in rows)


def test_a_wide_terminal_keeps_each_row_on_a_line(groups: list[Group]) -> None:
    lines = drawn(comparison(groups), 200)
    assert [line.split()[0] for line in lines if "±1.0" in line] == ["ERM", "MFW", "MFW-DRW"]


def test_rows_of_the_same_method_show_their_differing_options(result: Make) -> None:
    fields: list[dict[str, Any]] = [{"options": {"alpha": 1.0}}, {"options": {"alpha": 5.0}}]
    table = comparison(group_results(result(label="MFW", **f) for f in fields))
    assert [cell.text for cell in column(table, "method")] == ["MFW (alpha=1.0)", "MFW (alpha=5.0)"]


def test_classes_without_test_images_are_named_below(result: Make) -> None:
    run = result(seed=0)
    recall = [*run.record.selections.last.metrics.recall]
    recall[3] = None
    for name in ("last", "oracle"):
        run = with_changes(run, **{f"selections__{name}__metrics__recall": recall})
    note = comparison(group_results([run])).note
    untested = run.record.data.classes[3]
    assert f" No test images of {untested}: balanced accuracy, macro-F1 and groups are of the other classes." in note
    assert "No test images" not in comparison(group_results([result(seed=0)])).note


def test_differences_have_a_minus_in_latex() -> None:
    table = Table("t", (Column("d", "difference"),), ((Cell("-1.4"),), (Cell("+0.2"),), (Cell("mfw-drw"),)))
    assert re.findall(r"    (\S+) \\\\", to_latex(table)) == ["difference", "$-1.4$", "$+0.2$", "mfw-drw"]

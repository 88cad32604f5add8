from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from procrustean.base.escaping import latex
from procrustean.base.table_formats import Statistic, measured_cell, to_markdown
from procrustean.base.yaml_files import read_yaml
from procrustean.paper import (
    Beside,
    Cell,
    Definitions,
    PaperNumber,
    Store,
    advice_page,
    beside,
    by_hand,
    finished_tables,
    judge,
    listing,
    paper_definitions,
    rankings,
    read_definitions,
    reproduction_page,
    write_tables,
)
from procrustean.paper.cell_tables import column_table, each_text_once, held_out_note, measured_columns
from procrustean.paper.comparison import SIGNS, STAND_IN, HeldOutRuns
from procrustean.paper.which_method import Entry
from procrustean.records import RunSpec, load_result
from procrustean.records.best_of_many import RULE

PROJECT = Path(__file__).resolve().parents[2]
Write = Callable[..., Path]
OpenStore = Callable[..., Store]

TAIL: dict[str, Any] = {"source": "cifar10", "imbalance": "long_tailed", "rho": 100, "evaluate_every": 4}


def run(method: str, **more: Any) -> RunSpec:
    return RunSpec.from_json({**TAIL, "method": method, **more})


def compared(paper: float | None, mean: float, sd: float | None = None, n: int = 1) -> Beside:
    number = None if paper is None else PaperNumber("t", "r", "c", "top1", paper, "ran", "")
    ours = Statistic(mean, sd, n)
    return Beside(Cell("t", "r", "c", {}), "top1", number, ours, ours, None, HeldOutRuns(), "200")


@pytest.mark.parametrize(
    ("paper", "ours", "mark"),
    [
        (78.5, (0.785,), "reproduced"),
        (78.5, (0.795,), "reproduced"),
        (78.5, (0.7746,), "reproduced"),  # shown as -1.0
        (78.5, (0.774,), "lower once"),
        (78.5, (0.80,), "higher once"),
        (78.5, (0.80, 0.005, 2), "higher"),
        (78.5, (0.76, 0.012, 3), "lower"),  # 2.5 points, more than two standard deviations
        (78.5, (0.76, 0.013, 3), "within noise"),
        (78.5, (0.81, 0.02, 2), "within noise"),
        (None, (0.8,), "ours alone"),
    ],
)
def test_marks(paper: float | None, ours: tuple[Any, ...], mark: str) -> None:
    assert compared(paper, *ours).mark == mark


def test_every_mark_has_a_picture_of_its_own_in_latex() -> None:
    drawn = [latex(sign) for sign in (*SIGNS.values(), STAND_IN)]
    assert all(text.isascii() for text in drawn)
    assert len(set(drawn)) == len(drawn)


def test_a_cell_is_the_mean_over_its_seeds(open_store: OpenStore, write: Write) -> None:
    write(run("mfw", seed=0), 0.70, 0.72)
    write(run("mfw", seed=1), 0.74, 0.78)
    write(run("mfw", seed=0, data_seed=1), 0.1, 0.1)
    write(run("mfw", seed=0, hold_out=50, hold_out_from="source"), 0.69, 0.71, held_out=0.70)
    spec = paper_definitions().tables["cifar"]
    (cell,) = spec.cells(["MFW"], ["cifar10-lt100"])
    found = beside(spec, cell, open_store())
    assert found.last is not None
    assert found.oracle is not None
    assert found.held_out is not None
    assert (found.last.mean, found.last.n) == (pytest.approx(0.72), 2)
    assert found.oracle.mean == pytest.approx(0.75)
    assert (found.held_out.mean, found.held_out.n) == (pytest.approx(0.70), 1)
    note = held_out_note([found])
    assert note == (
        "Images that the runs of the held-out column do not train on, to choose by them: 50 images per class of the "
        "source before it is made imbalanced (MFW)."
    )
    assert found.difference == pytest.approx(75.0 - 78.5)
    assert found.mark == "within noise"
    assert beside(spec, cell, open_store(), data_seed=1).seeds == 1


def test_a_run_that_was_measured_on_its_way_counts_unless_there_is_one_that_was_not(
    open_store: OpenStore, write: Write
) -> None:
    spec = paper_definitions().tables["cifar"]
    (cell,) = spec.cells(["MFW"], ["cifar10-lt100"])
    measured = {"probe_every": 4, "features_at": [200], "keep_weights_every": 50, "track_training": True}
    write(run("mfw", seed=0, **measured), 0.70, 0.72)
    write(run("mfw", seed=1, **measured), 0.90, 0.92)
    write(run("mfw", seed=1), 0.74, 0.78)
    last = beside(spec, cell, open_store()).last
    assert last is not None
    assert (last.mean, last.n) == (pytest.approx(0.72), 2)
    # Who asks for measurements gets runs that have them.
    assert open_store().find(run("mfw", seed=1, probe_every=2)) is None
    assert open_store().find(run("mfw", seed=1, **measured)) is not None


def test_the_note_tells_the_images_of_tau_norm_from_those_of_the_other_runs(
    open_store: OpenStore, write: Write
) -> None:
    write(run("mfw"), 0.70, 0.72)
    write(run("mfw", hold_out=50, hold_out_from="source"), 0.69, 0.71, held_out=0.70)
    write(run("tau_norm", recipe="own", hold_out=3), 0.75, 0.75, held_out=0.75)
    spec = paper_definitions().tables["cifar"]
    cells = [beside(spec, cell, open_store()) for cell in spec.cells(["MFW", "tau-norm"], ["cifar10-lt100"])]
    assert held_out_note(cells).endswith(
        "3 images per class of the imbalanced set, in all columns (tau-norm); 50 images per class of the source "
        "before it is made imbalanced (MFW)."
    )


def test_runs_that_hold_out_more_stand_in_for_those_of_the_held_out_column(open_store: OpenStore, write: Write) -> None:
    spec = paper_definitions().tables["cifar"]
    (cell,) = spec.cells(["MFW"], ["cifar10-lt100"])

    def shown() -> tuple[str, str]:
        found = beside(spec, cell, open_store())
        table = column_table(spec, "cifar10-lt100", [found])
        column = [column.name for column in table.columns].index("held_out")
        return table.rows[0][column].text, held_out_note([found])

    write(run("mfw"), 0.70, 0.72)
    write(run("mfw", hold_out=3), 0.61, 0.63, held_out=0.62)  # of the imbalanced set: the small classes lose the most
    write(run("mfw", hold_out=500, hold_out_from="source", options={"draw": "batch"}), 0.59, 0.6, held_out=0.59)
    write(run("mfw", hold_out=500, hold_out_from="source", data_seed=1), 0.57, 0.58, held_out=0.57)
    assert shown() == ("—", "")
    write(run("mfw", hold_out=1000, hold_out_from="source"), 0.62, 0.64, held_out=0.63)
    write(run("mfw", hold_out=500, hold_out_from="source"), 0.67, 0.69, held_out=0.68)
    text, note = shown()
    assert text == "68.0 †"
    assert note.endswith(
        "500 images per class of the source before it is made imbalanced † (MFW). †: runs of other tables, which hold "
        "out more than the column's own would."
    )
    write(run("mfw", hold_out=50, hold_out_from="source"), 0.69, 0.71, held_out=0.70)
    text, note = shown()
    assert text == "70.0"
    assert note.endswith("50 images per class of the source before it is made imbalanced (MFW).")


def test_the_note_tells_of_a_share_that_was_held_out(open_store: OpenStore, write: Write) -> None:
    write(run("erm", hold_out=0.2), 0.75, 0.75, held_out=0.75)
    table = {"base": TAIL, "columns": {"tail": {"rho": 100}}, "rows": {"ERM": {"method": "erm", "hold_out": 0.2}}}
    spec = read_definitions({"tables": {"mine": table}}, origin="the test").tables["mine"]
    note = held_out_note([beside(spec, cell, open_store()) for cell in spec.cells()])
    assert note.endswith("20 % of each class of the imbalanced set, in all columns (ERM).")


def test_a_column_in_full(open_store: OpenStore, write: Write) -> None:
    write(run("erm"), 0.69, 0.704)
    write(run("mfw", seed=0), 0.70, 0.72)
    write(run("mfw", seed=1), 0.74, 0.78)
    spec, store = paper_definitions().tables["cifar"], open_store()
    cells = [beside(spec, cell, store) for cell in spec.cells()]
    (column,) = measured_columns(spec, cells).items()
    text = to_markdown(column_table(spec, *column))
    lines = [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    table = {line[0]: line[1:] for line in lines}
    assert table["ERM"] == ["200", "1", "69.0", "—", "70.4", "71.1", "ran", "-0.7", "✓"]
    assert table["MFW"] == ["300", "2", "72.0 ± 2.8", "—", "75.0 ± 4.2", "78.5", "ran", "-3.5", "≈"]
    assert table["BBN"] == ["—", "—", "—", "—", "—", "79.8", "?", "—", ""]


def test_a_table_that_is_only_called_like_one_of_the_paper_s_has_none_of_its_numbers(
    open_store: OpenStore, write: Write
) -> None:
    write(run("mfw", net="resnet20"), 0.69, 0.704)
    table = {"base": {"net": "resnet20"}, "columns": {"cifar10-lt100": TAIL}, "rows": {"MFW": {"method": "mfw"}}}
    spec = read_definitions({"tables": {"cifar": table}}, origin="the test").tables["cifar"]
    (cell,) = spec.cells()
    assert beside(spec, cell, open_store()).mark == "ours alone"
    shown = finished_tables(spec, open_store())
    assert "paper" not in to_markdown(shown[0])


def test_a_table_of_one_s_own_says_once_what_its_bold_is_worth(open_store: OpenStore, write: Write) -> None:
    for seed, (erm, mfw) in enumerate([(0.69, 0.70), (0.70, 0.74), (0.71, 0.72)]):
        for rho in (50, 100):
            write(run("erm", rho=rho, seed=seed), erm, erm)
            write(run("mfw", rho=rho, seed=seed), mfw, mfw)
    rows = {"ERM": {"method": "erm"}, "MFW": {"method": "mfw"}}
    table = {"base": TAIL, "columns": {f"lt{rho}": {"rho": rho} for rho in (50, 100)}, "rows": rows}
    spec = read_definitions({"tables": {"mine": table}}, origin="the test").tables["mine"]
    pieces = finished_tables(spec, open_store())
    notes = [piece.note for piece in pieces if not isinstance(piece, str)]
    said = "Last: best is MFW, 72.0. Not told apart from it by these seeds: ERM (-2.0, p=0.22)."
    assert notes == [f"Bold: the best mean of its column. {said}"] * 2
    assert pieces.count(RULE) == 1


def test_finished_tables_are_written(open_store: OpenStore, write: Write, tmp_path: Path) -> None:
    write(run("erm"), 0.69, 0.704)
    specs = [paper_definitions().tables[name] for name in ("cifar", "toy")]
    written = write_tables(specs, open_store(), tmp_path / "out")
    assert [path.name for path in written] == ["cifar.md"]
    assert "70.4 |  71.1 | ran" in written[0].read_text()


def test_a_table_of_which_nothing_is_measured_is_empty(open_store: OpenStore) -> None:
    assert finished_tables(paper_definitions().tables["densenet"], open_store()) == []


def test_the_list_counts_measured_cells(open_store: OpenStore, write: Write) -> None:
    write(run("erm"), 0.69, 0.704)
    rows = {row[0].text: row[1].text for row in listing(paper_definitions(), open_store()).rows}
    assert (rows["cifar"], rows["layer"], rows["toy"]) == ("1 of 124", "1 of 24", "0 of 2")
    # ERM at ratio 100 is in the tables of layers and of label mixing, which are both parts of the ablations
    assert (rows["rho100"], rows["ablations"], rows["cifar10-ratios"]) == ("1 of 18", "2 of 42", "0 of 16")


def test_what_holds_for_several_tables_is_said_once(open_store: OpenStore, write: Write) -> None:
    write(run("mfw"), 0.7, 0.71)
    tables = paper_definitions().tables
    pieces = [piece for name in ("cifar", "layer") for piece in finished_tables(tables[name], open_store())]
    texts = [piece for piece in each_text_once(pieces) if isinstance(piece, str)]
    assert len([text for text in texts if text.startswith("Accuracies in %")]) == 1
    assert [piece for piece in each_text_once(pieces) if not isinstance(piece, str)] == [
        piece for piece in pieces if not isinstance(piece, str)
    ]
    assert len(texts) < len([piece for piece in pieces if isinstance(piece, str)])


def test_a_target_without_a_row_has_the_rows_of_the_same_names() -> None:
    layers = paper_definitions().tables["fidelity-layer"]
    numbers = [layers.paper(row, "cifar10-step100") for row in layers.row_names]
    assert [number and number.value for number in numbers] == [72.4, 80.1, 69.8]


class TestReadings:
    """Chosen on held-out images, whatever the test set says."""

    def judged(self, write: Write, values: dict[str, list[float]]) -> None:
        options: dict[str, dict[str, Any]] = {
            "geometric": {},
            "arithmetic": {"std": "arithmetic"},
            "batch": {"draw": "batch"},
        }
        for name, accuracies in values.items():
            for seed, accuracy in enumerate(accuracies):
                config = RunSpec(
                    "cifar10",
                    "long_tailed",
                    100,
                    method="mfw",
                    options=options[name],
                    hold_out=500,
                    hold_out_from="source",
                    seed=seed,
                )
                # On test images the order is the reverse.
                write(config, 1 - accuracy, 1 - accuracy, held_out=0.5, judged=accuracy)

    def text(self, definitions: Definitions, store: Store) -> str:
        table, text, rule = finished_tables(definitions.tables["readings"], store)
        assert rule == RULE
        assert not isinstance(table, str)
        assert isinstance(text, str)
        assert "judged on 5000 held-out images" in table.title
        selections = [column.name for column in table.columns if column.measured]
        assert selections == ["judged", "last", "held_out", "oracle"]
        chosen = [column.name for column in table.columns].index("held_out")
        assert {row[chosen].text.split(" ")[0] for row in table.rows} == {"50.0"}
        self.best = [row[0].text for row in table.rows if row[2].best]
        return text

    def test_clearly(self, definitions: Definitions, open_store: OpenStore, write: Write) -> None:
        self.judged(write, {"geometric": [0.70, 0.71, 0.72], "arithmetic": [0.60, 0.61, 0.62], "batch": [0.65, 0.66]})
        text = self.text(definitions, open_store())
        assert self.best == ["geometric"]
        assert text == (
            "tail: best is geometric, 71.0. Behind by more than the seeds explain: batch (-5.5); arithmetic (-10.0)."
        )

    def test_within_the_seeds(self, definitions: Definitions, open_store: OpenStore, write: Write) -> None:
        self.judged(write, {"geometric": [0.70, 0.74], "batch": [0.69, 0.76]})
        assert self.text(definitions, open_store()).endswith(
            "Not told apart from it by these seeds: geometric (-0.5, p=0.92)."
        )
        assert self.best == ["batch"]

    def test_from_single_runs(self, definitions: Definitions, open_store: OpenStore, write: Write) -> None:
        self.judged(write, {"geometric": [0.70], "batch": [0.60]})
        text = self.text(definitions, open_store())
        assert text.endswith("70.0. A single seed does not say whether it is really ahead of any other.")

    def test_a_single_run_above_those_that_were_repeated(
        self, definitions: Definitions, open_store: OpenStore, write: Write
    ) -> None:
        self.judged(write, {"geometric": [0.70], "arithmetic": [0.50], "batch": [0.60, 0.61]})
        assert self.text(definitions, open_store()) == (
            "tail: best is batch, 60.5. Above it by a single run: geometric (+9.5). Too few seeds to say whether it is "
            "really ahead of: arithmetic (-10.5)."
        )
        assert self.best == ["batch"]

    def test_of_several_some_with_a_single_run(
        self, definitions: Definitions, open_store: OpenStore, write: Write
    ) -> None:
        self.judged(write, {"geometric": [0.70, 0.71], "arithmetic": [0.65], "batch": [0.60, 0.61]})
        assert self.text(definitions, open_store()) == (
            "tail: best is geometric, 70.5. Too few seeds to say whether it is really ahead of: arithmetic (-5.5). "
            "Behind by more than the seeds explain: batch (-10.0)."
        )

    def test_over_several_settings(self, definitions: Definitions, open_store: OpenStore, write: Write) -> None:
        """Together they may tell apart what no setting does, and readings of one setting alone are left out."""
        settings: list[tuple[Literal["long_tailed", "step"], dict[str, Any], list[float]]] = [
            ("long_tailed", {}, [0.60, 0.62]),
            ("long_tailed", {"std": "arithmetic"}, [0.70, 0.72]),
            ("long_tailed", {"draw": "batch"}, [0.575, 0.595]),
            ("step", {}, [0.80, 0.82]),
            ("step", {"draw": "batch"}, [0.775, 0.795]),
        ]
        for imbalance, options, accuracies in settings:
            for seed, accuracy in enumerate(accuracies):
                config = RunSpec("cifar10", imbalance, 100, method="mfw", options=options, seed=seed)
                config = replace(config, hold_out=500, hold_out_from="source")
                write(config, 0.5, 0.5, held_out=0.5, judged=accuracy)
        *_, tail, _, step, together, _ = finished_tables(definitions.tables["readings"], open_store())
        assert "arithmetic, 71.0" in str(tail)
        assert "Not told apart from it by these seeds: batch (-2.5, p=0.22)" in str(step)
        assert together == (
            "Mean over these 2 settings: best is arithmetic, 76.0. Behind by more than the seeds explain: geometric "
            "(-5.0); batch (-7.5)."
        )
        by_column = replace(definitions.tables["readings"], by_column=True)
        assert not any("Mean over" in str(piece) for piece in finished_tables(by_column, open_store()))

    def test_readings_that_come_to_the_same_runs(
        self, definitions: Definitions, open_store: OpenStore, write: Write
    ) -> None:
        config = RunSpec("cifar10", "step", 100, method="mfw", hold_out=500, hold_out_from="source")
        write(config, 0.6, 0.6, held_out=0.6, judged=0.6)
        table, text = finished_tables(definitions.tables["readings"], open_store())
        assert not isinstance(table, str)
        assert [row[0].text for row in table.rows] == ["geometric", "arithmetic (the same runs as geometric)"]
        assert text == "step: only one reading has been measured."


def test_methods_are_ranked_with_their_doubts(definitions: Definitions, open_store: OpenStore, write: Write) -> None:
    for seed, accuracy in enumerate((0.70, 0.71, 0.72)):
        write(run("mfw", seed=seed), accuracy, accuracy)
        write(run("erm", seed=seed), accuracy - 0.05, accuracy)
        write(run("erm", seed=seed, epochs=300), accuracy - 0.004, accuracy)
    (ranking,) = rankings(definitions, open_store())
    assert [entry.name for entry in ranking.entries] == ["MFW", "long", "ERM"]
    page = " ".join(advice_page(definitions, open_store()).split())
    assert "Not told apart from it by these seeds: long (-0.4, p=0.65). MFW against ERM: +5.0." in page
    assert "First: MFW, 71.0. Not told apart" in page
    assert "| long | 300 | 1.5 | 3 |" in page


def test_a_single_run_is_not_called_the_first(definitions: Definitions, open_store: OpenStore, write: Write) -> None:
    write(run("mfw"), 0.80, 0.80)
    for seed, accuracy in enumerate((0.70, 0.71, 0.72)):
        write(run("erm", seed=seed), accuracy, accuracy)
    write(run("erm", epochs=300), 0.60, 0.60)
    (ranking,) = rankings(definitions, open_store())
    assert ranking.first.name == "ERM"
    page = " ".join(advice_page(definitions, open_store()).split())
    assert "First: ERM, 71.0. Above it by a single run: MFW (+9.0). MFW against ERM: +9.0." in page
    assert "**71.0 ± 1.0**" in page


def test_of_single_runs_alone_none_is_the_first(definitions: Definitions, open_store: OpenStore, write: Write) -> None:
    write(run("mfw"), 0.80, 0.80)
    write(run("erm"), 0.70, 0.70)
    page = " ".join(advice_page(definitions, open_store()).split())
    assert "Highest: MFW, 80.0. A single seed does not say whether it is really ahead of any other." in page
    assert "**80.0**" not in page


def test_networks_are_ranked_apart(tables: dict[str, Any], open_store: OpenStore, write: Write) -> None:
    tables["tables"]["deep"] = {**tables["tables"]["small"], "base": {"evaluate_every": 4, "net": "densenet121-s1"}}
    for net in ("resnet32", "densenet121-s1"):
        write(run("mfw", net=net), 0.80, 0.80)
        write(run("erm", net=net), 0.70, 0.70)
    found = rankings(read_definitions(tables, origin="tables"), open_store())
    assert [(ranking.column, ranking.entries[0].group.net, len(ranking.entries)) for ranking in found] == [
        ("tail", "resnet32", 2),
        ("tail", "densenet121-s1", 2),
    ]


def test_a_schedule_that_is_not_as_long_as_published_is_not_passed_off_as_such(
    open_store: OpenStore, write: Write
) -> None:
    write(run("mixup", drw=True, recipe="own", epochs=200), 0.8, 0.8)
    write(run("mixup", drw=True, recipe="own"), 0.8, 0.8)
    spec = paper_definitions().tables["beyond"]
    cells = spec.cells(["mixup-DRW", "mixup-DRW (400 epochs)"], ["cifar10-lt100"])
    lengths = [beside(spec, cell, open_store()).length for cell in cells]
    assert lengths == ["200 (own, other length)", "400 (own)"]


def test_what_has_not_been_measured_is_named_whoever_s_table_it_is_in(open_store: OpenStore, write: Write) -> None:
    write(run("mfw"), 0.7, 0.7)
    page = reproduction_page(paper_definitions(), open_store())
    missing = " ".join(page[page.index("## Not measured yet") :].split())
    assert "- `cifar`: 123 of 124 cells:" in missing
    assert "- `matched-budget`: 23 of 24 cells: cifar10-lt100 (5), cifar10-step100 (6)," in missing
    assert "- `fidelity-mixing`: 16 of 16 cells: cifar10-lt100 (4)," in missing
    for name, spec in paper_definitions().tables.items():
        assert (f"- `{name}`: " in missing) == (not spec.aside)


def test_other_settings_beside_a_number_of_the_paper_are_not_counted_as_a_table_of_its_own(
    open_store: OpenStore, write: Write
) -> None:
    write(run("mfw", rho=10, options={"alpha": 0.1}), 0.88, 0.885)
    page = reproduction_page(paper_definitions(), open_store())
    counted = page[page.index("**Cells of the paper's tables**") : page.index("## Discussion")]
    assert "| cifar " in counted
    assert "chosen-alpha" not in counted
    assert "| MFW, alpha=0.1 |    300 |     1 | 88.0 |        — |   88.5 |  89.8 | ran |       -1.3 | ▽   |" in page


def test_a_table_of_ones_own_may_be_called_like_the_main_one(open_store: OpenStore, write: Write) -> None:
    write(run("mfw"), 0.7, 0.7)
    tail = {"source": "cifar10", "imbalance": "long_tailed", "rho": 100, "evaluate_every": 4}
    own = read_definitions(
        {"tables": {"cifar": {"columns": {"mine": tail}, "rows": {"MFW": {"method": "mfw"}}}}}, origin="mine.yaml"
    )
    assert "| MFW    |    300 |     1 | 70.0 |" in " ".join(reproduction_page(own, open_store()).splitlines())


def test_a_page_keeps_what_people_wrote(open_store: OpenStore, write: Write) -> None:
    page = reproduction_page(paper_definitions(), open_store())
    assert "Nothing has been written here yet." in page
    written = page.replace("Nothing has been written here yet.", "It depends.\n\nReally.")
    write(run("erm"), 0.69, 0.704)
    again = reproduction_page(paper_definitions(), open_store(), written)
    assert "<!-- by hand: discussion -->\n\nIt depends.\n\nReally.\n\n<!-- end of discussion -->" in again
    assert "70.4 / 71.1 ✓" in again
    assert reproduction_page(paper_definitions(), open_store(), again) == again


def test_parts_by_hand_are_told_apart() -> None:
    both = by_hand("", "one", "1") + by_hand("", "two", "2")
    assert by_hand(both, "two", "") == by_hand("", "two", "2")


@pytest.fixture(scope="module")
def published() -> Store:
    """The results of the repository, six hundred files: read once, and only read."""
    return Store(PROJECT / "results", None)


@pytest.mark.parametrize(("name", "make"), [("reproduction.md", reproduction_page), ("which-method.md", advice_page)])
def test_the_pages_are_what_the_command_makes_of_the_results(
    name: str, make: Callable[..., str], published: Store
) -> None:
    """After new results: procrustean paper reproduce --pages docs."""
    page = (PROJECT / "docs" / name).read_text()
    assert make(paper_definitions(), published, page) == page


def test_every_method_that_was_measured_on_cifar10_is_ranked(published: Store) -> None:
    measured = {(s.config.imbalance, s.config.method) for s in published.kept.values() if s.config.source == "cifar10"}
    ranked = {
        (str(entry.group.data.kind), str(entry.group.results[0].record.method.name))
        for ranking in rankings(paper_definitions(), published)
        if ranking.column.startswith("cifar10-")
        for entry in ranking.entries
    }
    assert measured <= ranked


def test_what_is_said_of_deferred_re_weighting_is_all_that_was_measured(published: Store) -> None:
    """Each pair of a method with and without it, on every set, its difference to a tenth of a point."""
    page = (PROJECT / "docs" / "which-method.md").read_text()
    said = " ".join(page[page.index("**First of all, DRW.**") : page.index("- **Long-tailed photographs")].split())

    def schedule(entry: Entry) -> tuple[str, int]:
        recipe = entry.group.results[0].record.recipe
        return recipe.schedule, recipe.epochs

    def balanced_accuracy(path: Path) -> float:
        return load_result(path).record.selections.last.metrics.balanced_accuracy

    for ranking in rankings(paper_definitions(), published):
        for name in ("ERM", "LDAM", "MFW", "mixup", "Remix", "MAMix", "CMO"):
            for with_ in filter(None, map(ranking.named, (f"{name}-DRW", f"{name}-DRW (400 epochs)"))):
                plain = (name, f"{name} (own schedule)", f"{name} (400 epochs)")
                for without in filter(None, map(ranking.named, plain)):
                    if schedule(without) == schedule(with_):
                        assert f"{with_.points - without.points:.1f}" in said, (ranking.column, name)
    for cut in ("as-it-is", "cut"):
        for name in ("erm", "mfw"):
            without_, with__ = (
                round(
                    100
                    * sum(load_result(p).record.selections.last.metrics.balanced_accuracy for p in paths)
                    / len(paths),
                    1,
                )
                for kind in ("", "-drw")
                if (paths := sorted((PROJECT / "results" / "own-images").glob(f"{cut}-seed?-{name}{kind}.json")))
            )
            assert f"{with__ - without_:+.1f}" in said, (cut, name)


@pytest.mark.parametrize(
    ("page", "begin", "end", "table"),
    [
        ("which-method.md", "saved a short training", ";", "strengths"),
        ("mfw.md", "in a short training", ";", "strengths"),
        ("which-method.md", "On 500 held-out images", "three seeds each", "fidelity-schedule"),
        ("which-method.md", "**With DRW keep the cosine**", ". Take steps", "fidelity-schedule-drw"),
    ],
)
def test_a_sentence_has_the_accuracies_of_the_images_it_names(
    page: str, begin: str, end: str, table: str, published: Store
) -> None:
    """Of held-out images where it says so, else of the test images, as all on which-method.md."""
    strengths = PROJECT / "experiments" / "strengths.yaml"
    tables = paper_definitions().tables | read_definitions(read_yaml(strengths), origin=str(strengths)).tables
    readings = [reading for judgement in judge(tables[table], published) for reading in judgement.readings]
    text = " ".join((PROJECT / "docs" / page).read_text().split())
    sentence = text[text.index(begin) :].partition(end)[0]
    found = [reading.judged if "held-out images" in sentence else reading.test.last for reading in readings]
    said = set(re.findall(r"\d+\.\d ± \d+\.\d", sentence))
    assert len(said) > 2
    assert said <= {measured_cell(statistic, runs=statistic.n).text for statistic in found if statistic}

"""Tables of our numbers beside the paper's, and what is said below them about held-out images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from procrustean.base.table_formats import NOTHING, Cell, Column, Table, measured_cell
from procrustean.paper.comparison import SIGNS, STAND_IN, Beside, HeldOutRuns
from procrustean.paper.definitions import TableSpec
from procrustean.records.best_of_many import Mean, about_bold
from procrustean.records.run_spec import RunSpec
from procrustean.report.comparison_table import best_marks
from procrustean.runs.training_sizes import training_counts

_OURS = (
    "Accuracies in % (balanced accuracies where the test set is not balanced), mean ± standard deviation over the "
    "training seeds, all on {images}; runs on other choices of the images are not among them. Last: the last epoch, "
    "the headline.{held_out} Oracle: the best of the tested epochs on the test set; no fair estimate"
)
_HELD_OUT = " Held-out: the epoch chosen on held-out images, by runs that train without them."
_BESIDE_THE_PAPER = (
    ", but what the codes behind published numbers report, so the difference is oracle minus paper. ✓ within 1 point "
    "of the paper; ≈ further off, but no more than two standard deviations of our runs; ▲ higher; ▼ lower; △ ▽ higher "
    "and lower by a single run, which has none; · the paper has no number. By: whether the authors ran the method "
    "(ran), took the number over (copied), or do not say (?)"
)
_METRICS = {"top1": "top-1", "top5": "top-5"}


def legend(data_seed: int = 0, *, paper: bool = True, held_out: bool = True) -> str:
    """How to read the tables of the runs with one data seed.

    Args:
        data_seed: which images of a class were kept.
        paper: whether the tables have the paper's numbers; those of one's own have not.
        held_out: whether they have a held-out column.
    """
    published = "the published sets (data seed 0)" if paper else "the sets of data seed 0"
    images = published if data_seed == 0 else f"the sets of data seed {data_seed}"
    return _OURS.format(images=images, held_out=_HELD_OUT * held_out) + (_BESIDE_THE_PAPER if paper else "") + "."


def column_table(
    spec: TableSpec, column: str, cells: Sequence[Beside], *, paper: bool = True, held_out: bool = True
) -> Table:
    """One column of a table in full: a line per row that has been measured or that the paper has.

    Args:
        spec: the table.
        column: which of its columns.
        cells: those of the column.
        paper: whether to show the paper's numbers and what they say about ours. Without them our best are marked, which
            beside the paper's would be taken for a verdict on the methods, and the note says what that is worth.
        held_out: whether to show a column for epochs chosen on held-out images.
    """
    metric = cells[0].metric
    columns: tuple[Column, ...] = (
        Column("row", "method", numeric=False),
        Column("epochs", "epochs"),
        Column("seeds", "seeds"),
        Column("last", "last", measured=True),
        Column("held_out", "held-out", measured=True, csv_only=not held_out),
        Column("oracle", "oracle", measured=True),
    )
    if paper:
        columns += (
            Column("paper", "paper"),
            Column("origin", "by", numeric=False),
            Column("difference", "difference"),
            Column("mark", "", numeric=False),
        )
    title = f"{spec.title}: {column}" + (f", {_METRICS[metric]}" if len(spec.metrics) > 1 else "")
    rows = [_line(cell)[: len(columns)] for cell in cells]
    if paper:
        return Table(title, columns, tuple(rows))
    return Table(title, columns, tuple(_with_best(rows)), note=about_bold(rivals_of(cells), "Last"))


def rivals_of(cells: Sequence[Beside]) -> dict[str, dict[str, Mean]]:
    """The rows of one column by the last epoch, to be held against one another."""
    return {"": {cell.cell.row: Mean.of(cell.last) for cell in cells if cell.last is not None}}


def _with_best(rows: Sequence[tuple[Cell, ...]]) -> list[tuple[Cell, ...]]:
    """The rows with the highest number of each column marked."""
    marked = []
    for cells in zip(*rows, strict=True):
        best = best_marks([cell.statistic for cell in cells], [""] * len(cells))
        marked.append([replace(cell, best=is_best) for cell, is_best in zip(cells, best, strict=True)])
    return list(zip(*marked, strict=True))


def _line(cell: Beside) -> tuple[Cell, ...]:
    paper, difference = cell.paper, cell.difference
    return (
        Cell(cell.cell.row),
        Cell(cell.length or NOTHING),
        Cell(str(cell.seeds) if cell.seeds else NOTHING),
        measured_cell(cell.last, runs=cell.seeds),
        _held_out_cell(cell),
        measured_cell(cell.oracle, runs=cell.seeds),
        Cell(NOTHING if paper is None else paper.text),
        Cell("" if paper is None else {"unstated": "?"}.get(paper.origin, paper.origin)),
        Cell(NOTHING if difference is None else f"{difference:+.1f}"),
        Cell(SIGNS[cell.mark]),
    )


def _held_out_cell(cell: Beside) -> Cell:
    shown = measured_cell(cell.held_out, runs=cell.seeds)
    return replace(shown, text=f"{shown.text} {STAND_IN}") if cell.held_out_by.stand_in else shown


def overview_table(spec: TableSpec, cells: Sequence[Beside]) -> Table:
    """Rows and columns of the table at a glance: our oracle, the paper's number, the mark."""
    measured = [column for column in spec.columns if any(c.cell.column == column and c.seeds for c in cells)]
    by_place = {(c.cell.row, c.cell.column): c for c in cells}
    rows = []
    for row in spec.rows:
        found = [by_place.get((row.name, column)) for column in measured]
        if any(c is not None and c.seeds for c in found):
            rows.append((Cell(row.name), *(Cell(_short(c)) for c in found)))
    columns = (Column("row", "oracle / paper", numeric=False), *(Column(name, name) for name in measured))
    return Table(spec.title, columns, tuple(rows))


def _short(cell: Beside | None) -> str:
    if cell is None or (cell.paper is None and cell.oracle is None):
        return NOTHING
    ours = NOTHING if cell.oracle is None else f"{100 * cell.oracle.mean:.1f}"
    if cell.paper is None:
        return ours
    return f"{ours} / {cell.paper.text} {SIGNS[cell.mark]}".rstrip()


def measured_columns(spec: TableSpec, cells: Sequence[Beside]) -> dict[str, list[Beside]]:
    """The cells of each column in which something has been measured: those with numbers, ours or the paper's.

    Of the user's own tables all cells of such a column: a row without a number stays, with a dash.
    """
    found = {}
    for column in spec.columns:
        inside = [c for c in cells if c.cell.column == column]
        if any(c.seeds or c.edited for c in inside):
            found[column] = [c for c in inside if c.seeds or c.paper is not None or not spec.published]
    return found


def held_out_note(cells: Sequence[Beside]) -> str:
    """Which images the runs of the held-out column did not train on; empty without such runs."""
    kinds: dict[tuple[str, float, str], list[Beside]] = {}
    for cell in cells:
        runs = cell.held_out_by
        if cell.held_out is not None and runs.config is not None and runs.config.hold_out:
            kind = _whose(cell.cell.config(), runs), runs.config.hold_out, _cut_from(runs.config)
            kinds.setdefault(kind, []).append(cell)
    in_order = sorted(kinds.items(), key=lambda item: item[0])
    return " ".join(_sentence(*kind, alike, _rows(alike, cells)) for kind, alike in in_order)


def _whose(config: RunSpec, runs: HeldOutRuns) -> str:
    """Whose runs hold images out: those of the held-out column, or all of a row, which may choose tau by them."""
    if not config.hold_out:
        return "stand-in" if runs.stand_in else "column"
    return "row with tau" if config.method == "tau_norm" else "row"


def _cut_from(config: RunSpec) -> str:
    """What held-out images are taken from, as the end of a phrase."""
    if config.imbalance == "natural":
        return " of the training set"
    from_source = config.hold_out_from == "source"
    return ", cut from the source before it is made imbalanced" if from_source else " of the imbalanced set"


def _rows(alike: Sequence[Beside], cells: Sequence[Beside]) -> str:
    """Rows that hold the same out, with their columns where they do not in all that have been measured."""
    columns: dict[str, list[str]] = {}
    for cell in alike:
        columns.setdefault(cell.cell.row, []).append(cell.cell.column)
    texts = []
    for row, own in columns.items():
        everywhere = all(cell.cell.column in own for cell in cells if cell.cell.row == row and cell.seeds)
        texts.append(row if everywhere else f"{row} in {' and '.join(own)}")
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _sentence(whose: str, hold_out: float, cut_from: str, cells: Sequence[Beside], rows: str) -> str:
    share, number = f"{100 * hold_out:g} % of each class", f"{hold_out} image{'s' * (hold_out != 1)} per class"
    taken = f"{share if hold_out < 1 else number}{cut_from},"
    text = {
        "row with tau": f"All runs of {rows} train without {taken} on which tau is chosen",
        "row": f"All runs of {rows} train without {taken} on which the epoch of the held-out column is chosen",
        "column": f"The runs of the held-out column train without {taken} on which they choose the epoch",
        "stand-in": f"Numbers with a {STAND_IN} are of runs of other tables, which train without {taken} on which they "
        "choose the epoch, so on fewer images than the runs beside them",
    }[whose]
    fewer = _fewer(cells)
    return f"{text}; their smallest class has {fewer}." if fewer else f"{text}."


def _fewer(cells: Sequence[Beside]) -> str:
    """How many images of the smallest class are left of how many, by column where it is not the same in all."""
    columns: dict[tuple[int, int], list[str]] = {}
    for cell in cells:
        pair, column = _smallest_classes(cell), cell.cell.column
        if pair is not None and pair[0] < pair[1] and column not in columns.get(pair, ()):
            columns.setdefault(pair, []).append(column)
    texts = [
        f"{left} images instead of {whole}" + (f" in {' and '.join(names)}" if len(columns) > 1 else "")
        for (left, whole), names in columns.items()
    ]
    return ", ".join(texts)


def _smallest_classes(cell: Beside) -> tuple[int, int] | None:
    """Images of the smallest class with and without some held out; None where only the images would tell."""
    config = cell.held_out_by.config
    if config is None:
        return None
    left, whole = training_counts(config), training_counts(replace(config, hold_out=0))
    return None if left is None or whole is None else (min(left), min(whole))

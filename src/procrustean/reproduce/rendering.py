"""Tables of our numbers beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..report.formats import NOTHING, Cell, Column, Table, measured_cell
from .comparison import SIGNS, Beside
from .definitions import Cell as Place
from .definitions import TableSpec
from .planning import held_out_variant
from .sizes import training_counts

_OURS = (
    "Accuracies in % (balanced accuracies where the test set is not balanced), mean ± standard deviation over the "
    "training seeds, all on {images}; runs on other choices of the images are not among them. Last: the last epoch, "
    "the headline. Held-out: the epoch chosen on held-out images, by runs that train without them. Oracle: the best "
    "of the tested epochs on the test set; no fair estimate"
)
_BESIDE_THE_PAPER = (
    ", but what the codes behind published numbers report, so the difference is oracle minus "
    "paper. ✓ within 1 point of the paper; ≈ further off, but no more than single runs of ours differ among themselves "
    "(2 standard deviations); ▲ higher; ▼ lower; · the paper has no number. By: whether the authors ran the method "
    "(ran), took the number over (copied), or do not say (?)"
)
_METRICS = {"top1": "top-1", "top5": "top-5"}


def legend(data_seed: int = 0, *, paper: bool = True) -> str:
    """How to read the tables of the runs with one data seed.

    Args:
        data_seed: which images of a class were kept.
        paper: whether the tables have the paper's numbers; those of one's own have not.
    """
    published = "the published sets (data seed 0)" if paper else "the sets of data seed 0"
    images = published if data_seed == 0 else f"the sets of data seed {data_seed}"
    return _OURS.format(images=images) + (_BESIDE_THE_PAPER if paper else "") + "."


def column_table(spec: TableSpec, column: str, cells: Sequence[Beside], *, paper: bool = True) -> Table:
    """One column of a table in full: a line per row that has been measured or that the paper has.

    Args:
        spec: the table.
        column: which of its columns.
        cells: those of the column.
        paper: whether to show the paper's numbers and what they say about ours.
    """
    metric = cells[0].metric
    columns: tuple[Column, ...] = (
        Column("row", "method", numeric=False),
        Column("epochs", "epochs"),
        Column("seeds", "seeds"),
        Column("last", "last", measured=True),
        Column("held_out", "held-out", measured=True),
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
    return Table(title, columns, tuple(_line(cell)[: len(columns)] for cell in cells))


def _line(cell: Beside) -> tuple[Cell, ...]:
    paper, difference = cell.paper, cell.difference
    epochs = NOTHING if cell.epochs is None else f"{cell.epochs}{' (own)' if cell.recipe == 'own' else ''}"
    return (
        Cell(cell.cell.row),
        Cell(epochs),
        Cell(str(cell.seeds) if cell.seeds else NOTHING),
        measured_cell(cell.last, runs=cell.seeds),
        measured_cell(cell.held_out, runs=cell.seeds),
        measured_cell(cell.oracle, runs=cell.seeds),
        Cell(NOTHING if paper is None else paper.text),
        Cell("" if paper is None else {"unstated": "?"}.get(paper.origin, paper.origin)),
        Cell(NOTHING if difference is None else f"{difference:+.1f}"),
        Cell(SIGNS[cell.mark]),
    )


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

    Those whose method was edited after it was measured are among them: their row stays, with a dash.
    """
    found = {}
    for column in spec.columns:
        inside = [c for c in cells if c.cell.column == column]
        if any(c.seeds or c.edited for c in inside):
            found[column] = [c for c in inside if c.seeds or c.edited or c.paper is not None]
    return found


def held_out_note(cells: Sequence[Beside]) -> str:
    """How many images the runs of the held-out column did not train on; empty without such runs."""
    found = [cell for cell in cells if cell.held_out is not None and cell.held_out_images]
    per_class = sorted({cell.held_out_images for cell in found})
    if not per_class:
        return ""
    numbers = " or ".join(map(str, per_class))
    text = f"The runs of the held-out column train without {numbers} images per class, on which they choose the epoch"
    smallest = dict.fromkeys(pair for cell in found if (pair := _smallest_classes(cell.cell)) is not None)
    fewer = " or ".join(f"{left} images instead of {whole}" for left, whole in smallest if left < whole)
    return f"{text}; their smallest class has {fewer}." if fewer else f"{text}."


def _smallest_classes(cell: Place) -> tuple[int, int] | None:
    """Images of the smallest class with and without some held out; None where only the images would tell."""
    config = cell.config_or_none()
    if config is None:
        return None
    left = training_counts(held_out_variant(config) or config)
    whole = training_counts(replace(config, hold_out=0))
    return None if left is None or whole is None else (min(left), min(whole))

"""Tables of our numbers beside the paper's, what is said below them, and a list of what has been measured."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from procrustean.base.escaping import latex_prose
from procrustean.base.files import write_atomically
from procrustean.base.table_formats import NOTHING, Cell, Column, Table, measured_cell, table_of, to_latex, to_markdown
from procrustean.paper.comparison import SIGNS, STAND_IN, Beside, table_cells
from procrustean.paper.definitions import Cell as Place
from procrustean.paper.definitions import Definitions, TableSpec
from procrustean.paper.judging import judge, judgement_table, overall
from procrustean.paper.result_store import Store
from procrustean.records.best_of_many import RULE, Mean, about_bold, rule_of
from procrustean.records.run_spec import RunSpec
from procrustean.report.comparison_table import best_marks

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
    """How to read the tables of the runs with one data seed."""
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
            rows.append((row.name, *map(_short, found)))
    return table_of(spec.title, {"row": "oracle / paper", **{name: name for name in measured}}, rows)


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
        if any(c.seeds for c in inside):
            found[column] = [c for c in inside if c.seeds or c.paper is not None or not spec.published]
    return found


def held_out_note(cells: Sequence[Beside]) -> str:
    """Which images the runs of the held-out column did not train on; empty without such runs."""
    rows: dict[str, dict[str, None]] = {}
    for cell in cells:
        runs = cell.held_out_by
        if cell.held_out is not None and runs.config is not None and runs.config.hold_out:
            own = ", in all columns" if cell.cell.config().hold_out else f" {STAND_IN}" * runs.stand_in
            rows.setdefault(_kept_back(runs.config) + own, {})[cell.cell.row] = None
    if not rows:
        return ""
    text = "; ".join(f"{kept_back} ({', '.join(names)})" for kept_back, names in rows.items())
    stand_ins = f" {STAND_IN}: runs of other tables, which hold out more than the column's own would."
    return (
        f"Images that the runs of the held-out column do not train on, to choose by them: {text}."
        f"{stand_ins * any(cell.held_out_by.stand_in for cell in cells)}"
    )


def _kept_back(config: RunSpec) -> str:
    """How many images a run holds out, and what they are taken from."""
    amount = config.hold_out or 0
    images = f"{100 * amount:g} % of each class" if amount < 1 else f"{amount} image{'s' * (amount != 1)} per class"
    if config.imbalance == "natural":
        return images
    from_source = config.hold_out_from == "source"
    return f"{images} of the {'source before it is made imbalanced' if from_source else 'imbalanced set'}"


def listing(definitions: Definitions, store: Store, *, data_seed: int = 0) -> Table:
    """All tables and suites, and how many of their cells have been measured."""
    rows = []
    measured: set[Place] = set()
    for name, spec in definitions.tables.items():
        cells = table_cells(spec, store, data_seed=data_seed)
        here = {cell.cell for cell in cells if cell.seeds > 0}
        rows.append((name, f"{len(here)} of {len(cells)}", spec.title, spec.place))
        measured |= here
    for name, suite in definitions.suites.items():
        parts = ", ".join(dict.fromkeys(part.table for part in suite.parts))
        places = definitions.cells(suite.parts)
        share = f"{len(measured.intersection(places))} of {len(places)}"
        rows.append((name, share, suite.title, f"suite: {parts}"))
    headings = {"table": "table", "measured": "measured", "title": "what", "place": "where"}
    return table_of("Tables and suites", headings, rows, words=("table", "title", "place"))


def finished_tables(
    spec: TableSpec, store: Store, *, data_seed: int = 0, only: Collection[Place] | None = None
) -> list[Table | str]:
    """The measured columns of a table, all of its cells or only some, and what there is to say about them."""
    if spec.judged:
        judgements = judge(spec, store, data_seed=data_seed, only=only)
        judged = [piece for j in judgements for piece in (judgement_table(spec, j), j.text())]
        rule = RULE if any(len(judgement.rivals) > 1 for judgement in judgements) else ""
        return [*judged, *filter(None, [overall(spec, judgements), rule])]
    by_metric = [table_cells(spec, store, metric=metric, data_seed=data_seed, only=only) for metric in spec.metrics]
    paper = any(cell.paper is not None for cells in by_metric for cell in cells)
    # The paper's tables keep the column: what is missing in it is still to be measured.
    held_out = paper or any(cell.held_out is not None for cells in by_metric for cell in cells)
    measured = [(name, inside) for cells in by_metric for name, inside in measured_columns(spec, cells).items()]
    pieces: list[Table | str] = [
        column_table(spec, column, inside, paper=paper, held_out=held_out) for column, inside in measured
    ]
    if pieces:
        notes = " ".join(filter(None, (held_out_note(by_metric[-1]), spec.note)))
        rules = () if paper else dict.fromkeys(rule_of(rivals_of(inside)) for _, inside in measured)
        pieces += filter(None, (legend(data_seed, paper=paper, held_out=held_out), *rules, notes))
    return pieces


def each_text_once(pieces: Sequence[Table | str]) -> list[Table | str]:
    """Tables and texts to be read one after the other: what was said below one table is not said again."""
    return [p for n, p in enumerate(pieces) if not (isinstance(p, str) and p in pieces[:n])]


def in_format(pieces: Sequence[Table | str], form: Literal["markdown", "latex"]) -> str:
    """Tables and what there is to say about them as the text of a document."""
    table_in, prose_in = (to_latex, latex_prose) if form == "latex" else (to_markdown, str)
    return "\n".join(prose_in(p) + "\n" if isinstance(p, str) else table_in(p) for p in pieces)


def write_tables(specs: Sequence[TableSpec], store: Store, folder: Path, *, data_seed: int = 0) -> list[Path]:
    """Write each table that has something measured as markdown, named after it and after its data seed, if not 0."""
    suffix = f"-data-seed-{data_seed}" * (data_seed != 0)
    written = []
    for spec in specs:
        pieces = finished_tables(spec, store, data_seed=data_seed)
        if pieces:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / f"{spec.name}{suffix}.md", in_format(pieces, "markdown").encode())
            written.append(folder / f"{spec.name}{suffix}.md")
    return written

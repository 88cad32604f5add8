"""What has been measured so far: a list of the tables, and the finished parts of each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from procrustean.base.escaping import latex_prose
from procrustean.base.files import write_atomically
from procrustean.base.table_formats import Cell, Column, Table, to_latex, to_markdown
from procrustean.paper.cell_tables import column_table, held_out_note, legend, measured_columns, rivals_of
from procrustean.paper.comparison import table_cells
from procrustean.paper.definitions import Cell as Place
from procrustean.paper.definitions import Definitions, TableSpec
from procrustean.paper.judging import judge, judgement_table, overall
from procrustean.paper.result_store import Store
from procrustean.records.best_of_many import RULE, rule_of


def listing(definitions: Definitions, store: Store, *, data_seed: int = 0) -> Table:
    """All tables and suites, and how many of their cells have been measured."""
    rows = []
    measured: set[Place] = set()
    for name, spec in definitions.tables.items():
        cells = table_cells(spec, store, data_seed=data_seed)
        here = {cell.cell for cell in cells if cell.seeds > 0}
        rows.append((Cell(name), Cell(f"{len(here)} of {len(cells)}"), Cell(spec.title), Cell(spec.place)))
        measured |= here
    for name, suite in definitions.suites.items():
        parts = ", ".join(dict.fromkeys(part.table for part in suite.parts))
        places = definitions.cells(suite.parts)
        share = f"{len(measured.intersection(places))} of {len(places)}"
        rows.append((Cell(name), Cell(share), Cell(suite.title), Cell(f"suite: {parts}")))
    columns = (
        Column("table", "table", numeric=False),
        Column("measured", "measured"),
        Column("title", "what", numeric=False),
        Column("place", "where", numeric=False),
    )
    return Table("Tables and suites", columns, tuple(rows))


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

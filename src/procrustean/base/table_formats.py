"""A table of text and statistics, and the formats it can be written in.

Labels and class names come from users' data, so every format escapes them.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from procrustean.base.escaping import latex, latex_prose, markdown, one_line, spreadsheet

if TYPE_CHECKING:
    import rich.console
    import rich.table

NOTHING = "—"
LONGEST_UNBROKEN_WORD = 12  # in a terminal; longer words are broken where space is short
DIFFERENCE = re.compile(r"[+-]\d+(\.\d+)?")  # whose sign would be a hyphen in the text of LaTeX
GAP = 2  # between the columns in a terminal


@dataclass(frozen=True)
class Statistic:
    """Mean and sample standard deviation (None for one run) of a metric over `n` runs, as fractions 0..1."""

    mean: float
    sd: float | None
    n: int


@dataclass(frozen=True)
class Column:
    """One column: `name` heads it in CSV, `heading` elsewhere; numeric columns are aligned to the right."""

    name: str
    heading: str
    numeric: bool = True
    measured: bool = False
    """Whether the cells hold statistics; CSV then gives mean, sd and n a column each."""
    csv_only: bool = False
    """For a column without anything to read: programs find it where they expect it."""


@dataclass(frozen=True)
class Cell:
    """What one cell shows; `statistic` keeps the unrounded numbers behind the text."""

    text: str
    best: bool = False
    statistic: Statistic | None = None
    whole: str | None = None
    """What CSV holds where the text leaves out what the title says."""


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns, with a title above and a note below.

    `shared` holds what all rows have in common (name, text); it is part of the title and gets columns in CSV
    only.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    shared: tuple[tuple[str, str], ...] = ()


def table_of(
    title: str,
    headings: Mapping[str, str],
    rows: Iterable[Sequence[str | Cell]],
    *,
    words: Collection[str] = (),
    measured: Collection[str] = (),
    note: str = "",
    shared: tuple[tuple[str, str], ...] = (),
) -> Table:
    """A table of texts, and of cells where one is more than its text.

    Args:
        title: above it.
        headings: by the names of the columns.
        rows: from the first to the last.
        words: columns of words, which stand left; if none is named, the first is one.
        measured: columns of statistics.
        note: below it.
        shared: what all rows have in common.
    """
    left = words or [*headings][:1]
    columns = tuple(Column(name, text, name not in left, name in measured) for name, text in headings.items())
    cells = tuple(tuple(Cell(cell) if isinstance(cell, str) else cell for cell in row) for row in rows)
    return Table(title, columns, cells, note, shared)


def measured_cell(statistic: Statistic | None, *, runs: int, best: bool = False) -> Cell:
    """A cell with mean and spread in percent; it says n where that differs from the runs of the row.

    >>> measured_cell(Statistic(mean=0.8123, sd=0.0042, n=3), runs=3).text
    '81.2 ± 0.4'
    """
    if statistic is None:
        return Cell(NOTHING)
    text = f"{100 * statistic.mean:.1f}"
    if statistic.sd is not None:
        text += f" ± {100 * statistic.sd:.1f}"
    if statistic.n != runs:
        text += f" (n={statistic.n})"
    return Cell(text, best=best, statistic=statistic)


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured table, the best in bold, padded so that the source reads well too."""
    from rich.cells import cell_len  # by how wide characters are shown, not by their number

    def shown(cell: Cell) -> str:
        text = markdown(cell.text)
        return f"**{text}**" if cell.best else text

    table = readable(table)
    lines = [[markdown(column.heading) for column in table.columns]]
    lines += [[shown(cell) for cell in row] for row in table.rows]
    widths = [max(3, *(cell_len(line[i]) for line in lines)) for i in range(len(table.columns))]

    def joined(line: Sequence[str]) -> str:
        padded = []
        for text, width, column in zip(line, widths, table.columns, strict=True):
            filling = " " * (width - cell_len(text))
            padded.append(filling + text if column.numeric else text + filling)
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join(
        "-" * (width + 1) + (":" if column.numeric else "-")
        for width, column in zip(widths, table.columns, strict=True)
    )
    parts = [f"**{markdown(table.title)}**", "", joined(lines[0]), rule + "|", *map(joined, lines[1:])]
    if table.note:
        parts += ["", markdown(table.note)]
    return "\n".join(parts) + "\n"


def to_csv(table: Table) -> str:
    """Unrounded fractions 0..1; mean, sd and n of each statistic have a column each, empty where unknown."""
    header = [name for name, _ in table.shared]
    for column in table.columns:
        header += [f"{column.name}_{part}" for part in ("mean", "sd", "n")] if column.measured else [column.name]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        values: list[object] = [spreadsheet(text) for _, text in table.shared]
        for column, cell in zip(table.columns, row, strict=True):
            if not column.measured:
                values.append("" if cell.text == NOTHING else spreadsheet(cell.whole or cell.text))
            elif cell.statistic is None:
                values += ["", "", ""]
            else:
                sd = cell.statistic.sd
                values += [repr(cell.statistic.mean), "" if sd is None else repr(sd), cell.statistic.n]
        writer.writerow(values)
    return out.getvalue()


def to_latex(table: Table) -> str:
    """A `table` environment with booktabs rules; the document needs \\usepackage{booktabs}."""

    def shown(cell: Cell) -> str:
        text = f"${cell.text}$" if DIFFERENCE.fullmatch(cell.text) else latex(cell.text)
        return rf"\textbf{{{text}}}" if cell.best else text

    def joined(cells: Sequence[str]) -> str:
        return "    " + " & ".join(cells) + r" \\"

    table = readable(table)
    alignment = "".join("r" if column.numeric else "l" for column in table.columns)
    title, note = latex(table.title.rstrip(".") + "."), latex_prose(table.note)
    caption = f"{title} {note}" if note else title
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{caption}}}",
        rf"  \begin{{tabular}}{{{alignment}}}",
        r"    \toprule",
        joined([latex(column.heading) for column in table.columns]),
        r"    \midrule",
        *(joined([shown(cell) for cell in row]) for row in table.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def to_rich(table: Table, *, width: int | None = None) -> rich.console.Group:
    """The table for a terminal; texts are passed as they are, never read as markup.

    Args:
        width: characters per line. A table too wide for it, even with its cells broken into lines, is given
            in parts below each other, each with the columns of text; by default it is given whole.
    """
    from rich.console import Group
    from rich.text import Text

    table = readable(table)
    title, note = Text(one_line(table.title), style="bold"), Text(one_line(table.note), style="dim")
    parts = [_rich_part(part, width) for part in _parts(table, width)]
    spaced = [item for part in parts for item in (Text(), part)]
    return Group(title, *spaced, Text(), *([note, Text()] if table.note else []))


def readable(table: Table) -> Table:
    """The table without the columns that only CSV has."""
    return _with_columns(table, [index for index, column in enumerate(table.columns) if not column.csv_only])


def _parts(table: Table, width: int | None) -> list[Table]:
    """The table as tables of which each fits the width, as far as a single column does."""
    narrowest = [least for least, _ in _column_widths(table)]
    leading = [index for index, column in enumerate(table.columns) if not column.numeric]
    space = math.inf if width is None else width + GAP - sum(narrowest[index] + GAP for index in leading)
    parts: list[list[int]] = [[]]
    used = 0
    for index in (index for index, column in enumerate(table.columns) if column.numeric):
        needed = narrowest[index] + GAP
        if parts[-1] and used + needed > space:
            parts.append([])
            used = 0
        parts[-1].append(index)
        used += needed
    return [_with_columns(table, sorted(leading + part)) for part in parts]


def _with_columns(table: Table, kept: Sequence[int]) -> Table:
    return replace(
        table,
        columns=tuple(table.columns[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in table.rows),
    )


def _column_widths(table: Table) -> list[tuple[int, int]]:
    """For each column the width of its longest word (as far as that is kept whole) and longest text."""
    from rich.cells import cell_len

    widths = []
    for index, column in enumerate(table.columns):
        texts = [_for_terminal(text) for text in (column.heading, *(row[index].text for row in table.rows))]
        longest_word = max((cell_len(word) for text in texts for word in text.split()), default=1)
        widths.append((min(LONGEST_UNBROKEN_WORD, longest_word), max(1, *map(cell_len, texts))))
    return widths


def _rich_part(table: Table, width: int | None) -> rich.table.Table:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    limits = _column_widths(table)
    widths = [longest for _, longest in limits]
    if width is not None:
        # rich's own shrinking does not find a layout of all columns at their least width, so it is done here.
        spare = [longest - least for least, longest in limits]
        while sum(widths) + GAP * (len(widths) - 1) > width and max(spare) > 0:
            widest = spare.index(max(spare))
            spare[widest] -= 1
            widths[widest] -= 1

    part = RichTable(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, GAP - 1, 0, 0), pad_edge=False)
    for column, column_width in zip(table.columns, widths, strict=True):
        part.add_column(
            Text(_for_terminal(column.heading)),
            justify="right" if column.numeric else "left",
            width=column_width,
            overflow="fold",
        )
    for row in table.rows:
        part.add_row(*(Text(_for_terminal(cell.text), style="bold green" if cell.best else "") for cell in row))
    return part


def _for_terminal(text: str) -> str:
    # Joined to its sign, the spread moves to a second line as a whole where the terminal is narrow.
    return one_line(text).replace("± ", "±")

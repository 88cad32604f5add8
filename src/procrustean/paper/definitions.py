"""Tables as data: which rows and columns they have, and the settings each cell is trained with."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Annotated, Any

from msgspec import Meta, Struct

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.data.sources import is_named
from procrustean.paper.printed_numbers import PaperNumber, paper_number, paper_rows
from procrustean.records.run_spec import RunSpec


@dataclass(frozen=True)
class Cell:
    """One place of a table with its settings; seeds are added when it is planned."""

    table: str
    row: str
    column: str
    settings: Mapping[str, Any] = field(compare=False)

    @property
    def place(self) -> str:
        return f"{self.table}: {self.row}, {self.column}"

    @property
    def where(self) -> str:
        """The place, in errors."""
        return f"table {self.table!r}, row {self.row!r}, column {self.column!r}"

    def config(self, **more: Any) -> RunSpec:
        """The run of this cell, with seeds and the like added; ConfigError, with the place, where it cannot be."""
        try:
            config = RunSpec.from_json({"hold_out": 0, **self.settings, **more}, origin=self.where)
        except ConfigError as error:
            if self.where in str(error):
                raise
            raise ConfigError(f"{self.where}: {error}") from error
        # A cell says how it is trained: for images of the user's nothing is left to be chosen from them.
        own = config.recipe == "auto" and not is_named(config.source)
        return replace(config, recipe="images") if own else config


@dataclass(frozen=True)
class Row:
    """A row: what is trained, and in which columns (all, unless it says so)."""

    name: str
    settings: Mapping[str, Any]
    columns: tuple[str, ...] = ("*",)


@dataclass(frozen=True)
class TableSpec:
    """A table: every row in every column that it is made for.

    Args:
        ranked: its rows are methods that one would choose from.
        aside: it has nothing to do with the paper's tables and is not on their page.
        judged: its rows are readings of the paper to choose from, on images held out of the source.
        by_column: a row of such a table is chosen for each column by itself, so there is no mean over columns.
        target: table and row of the paper whose number stands beside; of a table alone, the row of the same name.
        published: it is the paper's, whose rows have only the cells that it prints, beside their numbers. A table of a
            user's may have the same name, and has all the cells that it says, of whatever network.
    """

    name: str
    title: str
    place: str
    base: Mapping[str, Any]
    columns: Mapping[str, Mapping[str, Any]]
    rows: tuple[Row, ...]
    metrics: tuple[str, ...] = ("top1",)
    note: str = ""
    ranked: bool = False
    aside: bool = False
    judged: bool = False
    by_column: bool = False
    target: tuple[str, ...] = ()
    published: bool = False

    def paper(self, row: str, column: str, metric: str = "top1") -> PaperNumber | None:
        """The paper's number for a cell; none for a table of a user's that is only called like one of the paper's."""
        if not self.target and not self.published:
            return None
        table, row = (*self.target, row)[:2] if self.target else (self.name, row)
        return paper_number(table, row, column, metric)

    @property
    def row_names(self) -> list[str]:
        """The names of the rows, in their order."""
        return [row.name for row in self.rows]

    def cells(self, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> list[Cell]:
        """The cells of the rows and columns that match, all if none are given; `*` stands for any letters."""
        chosen_rows = matching(rows, self.row_names, f"row of table {self.name!r}")
        chosen_columns = matching(columns, list(self.columns), f"column of table {self.name!r}")
        return [
            Cell(self.name, row.name, column, merged(self.base, self.columns[column], row.settings))
            for row in self.rows
            if row.name in chosen_rows
            for column in self.columns
            if column in chosen_columns and self._has(row, column)
        ]

    def _has(self, row: Row, column: str) -> bool:
        if not any(_matches(column, pattern) for pattern in row.columns):
            return False
        printed = self.published and row.name in paper_rows(self.name)
        return not printed or any(paper_number(self.name, row.name, column, m) for m in self.metrics)


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a table: rows and columns by name or pattern, all if none are given."""

    table: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


class Suite(Struct, frozen=True, forbid_unknown_fields=True):
    """Parts of tables, in the order in which they are to be trained."""

    parts: Annotated[tuple[Part, ...], Meta(min_length=1)]
    title: str = ""


@dataclass(frozen=True)
class Definitions:
    """Tables and suites by name."""

    tables: Mapping[str, TableSpec]
    suites: Mapping[str, Suite]

    def parts(self, names: Sequence[str], rows: Sequence[str] = (), columns: Sequence[str] = ()) -> list[Part]:
        """What names of tables and suites stand for, narrowed to rows and columns.

        Of several parts one has to have a row or column; parts that have none of what was asked for are left out.
        """
        known = [*self.tables, *self.suites]
        found: list[Part] = []
        for name in names:
            if name in self.suites:
                found += self.suites[name].parts
            elif name in self.tables:
                found.append(Part(name))
            else:
                raise ConfigError(f"there is no table or suite {name!r}. {did_you_mean(name, known)}")
        if not found or not (rows or columns):
            return found
        where = repr(names[0]) if len(names) == 1 else "any of " + ", ".join(map(repr, names))
        return self._narrowed([self._by_name(part) for part in found], rows, columns, where)

    def _by_name(self, part: Part) -> Part:
        """The part with its rows and columns by name, in the order of its table."""
        spec = self.tables[part.table]
        rows = matching(part.rows, spec.row_names, f"row of table {part.table!r}")
        columns = matching(part.columns, list(spec.columns), f"column of table {part.table!r}")
        return Part(part.table, _kept(spec.row_names, rows), _kept(spec.columns, columns))

    def _narrowed(self, parts: Sequence[Part], rows: Sequence[str], columns: Sequence[str], where: str) -> list[Part]:
        """Parts by name, left with the rows and columns that were asked for; those without a cell are left out."""
        known_rows = list(dict.fromkeys(name for part in parts for name in part.rows))
        known_columns = list(dict.fromkeys(name for part in parts for name in part.columns))
        chosen_rows = matching(rows, known_rows, f"row of {where}")
        chosen_columns = matching(columns, known_columns, f"column of {where}")
        narrowed = [Part(p.table, _kept(p.rows, chosen_rows), _kept(p.columns, chosen_columns)) for p in parts]
        # A part without rows or columns would stand for all of them; and not every row is made for every column.
        with_cells = [part for part in narrowed if part.rows and part.columns and self.cells([part])]
        if not with_cells:
            raise ConfigError(
                "no table has a cell in both a row and a column of those received; to see the cells of the rows, leave "
                "--columns out and add --dry-run"
            )
        return with_cells

    def cells(self, parts: Sequence[Part]) -> list[Cell]:
        """The cells of the parts in their order, each once."""
        cells = [cell for part in parts for cell in self.tables[part.table].cells(part.rows, part.columns)]
        return list(dict.fromkeys(cells))


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Later settings win; options are merged one by one."""
    settings: dict[str, Any] = {}
    for part in parts:
        options = {**settings.get("options", {}), **part.get("options", {})}
        settings = {**settings, **part, **({"options": options} if options else {})}
    return settings


def matching(patterns: Sequence[str], names: Sequence[str], kind: str) -> set[str]:
    """The names that patterns stand for, all if there are none; ConfigError for a pattern that stands for none."""
    chosen: set[str] = set()
    for pattern in patterns or ("*",):
        matching = [name for name in names if _matches(name, pattern)]
        if not matching:
            raise ConfigError(f"there is no {kind} called {pattern!r}. {did_you_mean(pattern, names)}")
        chosen.update(matching)
    return chosen


def _kept(names: Iterable[str], chosen: Container[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in chosen)


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern stands for a name; brackets in a name need not be written as a pattern."""
    return name == pattern or fnmatchcase(name, pattern)

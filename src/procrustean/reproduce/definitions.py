"""Tables as data: which rows and columns they have, and the settings each cell is trained with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from ..config import RunConfig
from ..data.sources import is_named
from ..errors import ConfigError, did_you_mean
from ..plain_yaml import parse_yaml
from .paper import PaperNumber, paper_number, paper_rows

METRICS = ("top1", "top5")


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

    def config(self, **more: Any) -> RunConfig:
        """The run of this cell, with seeds and the like added."""
        config = RunConfig.from_json({**self.settings, **more}, origin=self.where)
        # A cell says how it is trained: for images of the user's nothing is left to be chosen from them.
        own = config.recipe == "auto" and not is_named(config.source)
        return replace(config, recipe="images") if own else config

    def config_or_none(self, **more: Any) -> RunConfig | None:
        """The same; None where this version has no such settings."""
        try:
            return self.config(**more)
        except ConfigError:
            return None


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
        target: table and row of the paper that such a reading has to reach.
        published: it is the paper's, whose rows have only the cells that it prints. A table of a user's may have the
            same name, and has all the cells that it says.
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
    target: tuple[str, str] | None = None
    published: bool = False

    def paper(self, row: str, column: str, metric: str = "top1") -> PaperNumber | None:
        """The paper's number for a cell."""
        table, row = self.target or (self.name, row)
        return paper_number(table, row, column, metric)

    @property
    def row_names(self) -> list[str]:
        """The names of the rows, in their order."""
        return [row.name for row in self.rows]

    def cells(self, rows: Sequence[str] = (), columns: Sequence[str] = ()) -> list[Cell]:
        """The cells of the rows and columns that match, all if none are given; `*` stands for any letters."""
        chosen_rows = _matching(rows, self.row_names, f"row of table {self.name!r}")
        chosen_columns = _matching(columns, list(self.columns), f"column of table {self.name!r}")
        return [
            Cell(self.name, row.name, column, _merged(self.base, self.columns[column], row.settings))
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


@dataclass(frozen=True)
class Part:
    """A part of a table: rows and columns by name or pattern, all if none are given."""

    table: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """Parts of tables, in the order in which they are to be trained."""

    name: str
    title: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Definitions:
    """Tables and suites by name."""

    tables: Mapping[str, TableSpec]
    suites: Mapping[str, Suite]

    def parts(self, names: Sequence[str], rows: Sequence[str] = (), columns: Sequence[str] = ()) -> list[Part]:
        """What names of tables and suites stand for; rows and columns narrow tables, not suites.

        Of several tables one has to have a row or column; tables that have none of what was asked for are left out.
        """
        known = [*self.tables, *self.suites]
        found: list[Part] = []
        for name in names:
            if name in self.suites:
                if rows or columns:
                    raise ConfigError(
                        f"rows and columns received with the suite {name!r}, which has its own; "
                        "give them with a table, or leave them out"
                    )
                found += self.suites[name].parts
            elif name in self.tables:
                found.append(Part(name, tuple(rows), tuple(columns)))
            else:
                raise ConfigError(f"there is no table or suite {name!r}. {did_you_mean(name, known)}")
        return self._narrowed(found) if found and (rows or columns) else found

    def _narrowed(self, parts: Sequence[Part]) -> list[Part]:
        """Parts with the same rows and columns, each left with those that its table has."""
        specs = [self.tables[part.table] for part in parts]
        where = f"table {parts[0].table!r}" if len(parts) == 1 else "any of these tables"
        _matching(parts[0].rows, [name for spec in specs for name in spec.row_names], f"row of {where}")
        _matching(parts[0].columns, [name for spec in specs for name in spec.columns], f"column of {where}")
        narrowed = []
        for part, spec in zip(parts, specs, strict=True):
            rows = tuple(pattern for pattern in part.rows if _any_match(pattern, spec.row_names))
            columns = tuple(pattern for pattern in part.columns if _any_match(pattern, spec.columns))
            if bool(rows) == bool(part.rows) and bool(columns) == bool(part.columns):
                narrowed.append(Part(part.table, rows, columns))
        if not narrowed:
            raise ConfigError("no table has both a row and a column of those received; ask for each table by itself")
        return narrowed

    def cells(self, parts: Sequence[Part]) -> list[Cell]:
        """The cells of the parts in their order, each once."""
        cells = [cell for part in parts for cell in self.tables[part.table].cells(part.rows, part.columns)]
        return list(dict.fromkeys(cells))


@cache
def paper_definitions() -> Definitions:
    """The tables of the paper, and those that go with them."""
    text = files(__package__).joinpath("tables.yaml").read_text(encoding="utf-8")
    return read_definitions(parse_yaml(text, origin="tables.yaml"), origin="tables.yaml", published=True)


def read_definitions(content: Any, *, origin: str, published: bool = False) -> Definitions:
    """Tables and suites from plain data; what is missing or misspelt is refused by name.

    Args:
        content: what a file of tables holds.
        origin: the file, for errors.
        published: whether these are the paper's tables, not a user's.
    """
    _check_keys(content, ("columns", "tables", "suites"), origin, ("tables",))
    shared = {
        name: _checked(settings, f"{origin}, column {name!r}")
        for name, settings in _by_name(content.get("columns"), f"{origin}, columns").items()
    }
    tables = {
        name: replace(_table(name, table, shared, f"{origin}, table {name!r}"), published=published)
        for name, table in _by_name(content["tables"], f"{origin}, tables").items()
    }
    suites = {
        name: _suite(name, suite, tables, f"{origin}, suite {name!r}")
        for name, suite in _by_name(content.get("suites"), f"{origin}, suites").items()
    }
    return Definitions(tables, suites)


def _suite(name: str, suite: Any, tables: Mapping[str, TableSpec], where: str) -> Suite:
    _check_keys(suite, ("title", "parts"), where)
    listed = suite.get("parts")
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f"{where} has no parts; give a list of them, each with its table: [{{table: NAME}}]")
    parts = []
    for part in listed:
        _check_keys(part, ("table", "rows", "columns"), where)
        table = part.get("table")
        if not isinstance(table, str) or table not in tables:
            raise ConfigError(f"{where} names the table {table!r}. {did_you_mean(str(table), tables)}")
        rows, columns = _names(part, "rows", where), _names(part, "columns", where)
        tables[table].cells(rows, columns)  # refuses names that match nothing
        parts.append(Part(table, rows, columns))
    return Suite(name, _text(suite, "title", where) or name, tuple(parts))


def _table(name: str, table: Any, shared: Mapping[str, Any], where: str) -> TableSpec:
    _check_keys(
        table,
        ("title", "place", "base", "columns", "rows", "metrics", "note", "ranked", "aside", "judged", "target"),
        where,
        ("rows",),
    )
    if PurePath(name).name != name or name in ("", ".."):
        raise ConfigError(f"{where}: its results are kept in a folder of this name; choose one that a folder can have")
    if isinstance(table.get("columns"), dict):
        own = _by_name(table["columns"], f"{where}, columns")
    else:
        own = {column: {} for column in _names(table, "columns", where)}
    columns = {}
    for column, settings in own.items():
        if column not in shared and not settings:
            raise ConfigError(f"{where} has a column {column!r} without settings; give them, or define the column")
        columns[column] = _merged(shared.get(column, {}), _checked(settings, f"{where}, column {column!r}"))
    if not columns:
        raise ConfigError(f"{where} has no columns")
    metrics = _names(table, "metrics", where) or ("top1",)
    for metric in metrics:
        if metric not in METRICS:
            raise ConfigError(f"{where}: metric {metric!r} received; accepted: {', '.join(METRICS)}")
    rows = []
    for row, given in _by_name(table["rows"], f"{where}, rows").items():
        settings = _checked(given, f"{where}, row {row!r}", besides=("columns",))
        own_columns = _names(settings, "columns", f"{where}, row {row!r}") or ("*",)
        settings.pop("columns", None)
        _matching(own_columns, list(columns), f"column for row {row!r} in table {name!r}")
        rows.append(Row(row, columns=own_columns, settings=settings))
    target = _names(table, "target", where)
    if len(target) not in (0, 2):
        raise ConfigError(f"{where}: target = {list(target)} received; give a table of the paper and a row of it")
    return TableSpec(
        name,
        title=_text(table, "title", where) or name,
        place=_text(table, "place", where),
        base=_checked(table.get("base"), f"{where}, base"),
        columns=columns,
        rows=tuple(rows),
        metrics=metrics,
        note=_text(table, "note", where),
        ranked=bool(table.get("ranked", False)),
        aside=bool(table.get("aside", False)),
        judged=bool(table.get("judged", False)),
        target=(target[0], target[1]) if target else None,
    )


def _merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Later settings win; options are merged one by one."""
    settings: dict[str, Any] = {}
    for part in parts:
        options = {**settings.get("options", {}), **part.get("options", {})}
        settings = {**settings, **part, **({"options": options} if options else {})}
    return settings


def _matching(patterns: Sequence[str], names: Sequence[str], kind: str) -> set[str]:
    chosen: set[str] = set()
    for pattern in patterns or ("*",):
        matching = [name for name in names if _matches(name, pattern)]
        if not matching:
            raise ConfigError(f"there is no {kind} called {pattern!r}. {did_you_mean(pattern, names)}")
        chosen.update(matching)
    return chosen


def _any_match(pattern: str, names: Iterable[str]) -> bool:
    return any(_matches(name, pattern) for name in names)


def _matches(name: str, pattern: str) -> bool:
    """Whether a pattern stands for a name; brackets in a name need not be written as a pattern."""
    return name == pattern or fnmatchcase(name, pattern)


def _checked(settings: Any, where: str, *, besides: Sequence[str] = ()) -> dict[str, Any]:
    """Settings of runs, none if nothing is said; unknown ones are refused by name."""
    known = [f.name for f in fields(RunConfig)]
    settings = {} if settings is None else settings
    if not isinstance(settings, dict):
        raise ConfigError(f"{where} holds {settings!r}, not settings; write {{method: erm}} and so on")
    for name in settings:
        if name not in known and name not in besides:
            raise ConfigError(f"{where} has an unknown setting {name!r}. {did_you_mean(str(name), known)}")
    if not isinstance(settings.get("options", {}), dict):  # which are merged one by one before a run checks them
        raise ConfigError(f"{where}: options = {settings['options']!r} received; give a mapping of their values")
    return dict(settings)


def _by_name(content: Any, where: str) -> dict[str, Any]:
    """A mapping whose keys are names, empty if nothing is said."""
    if not isinstance(content, dict | None):
        raise ConfigError(f"{where}: {content!r:.60} received; it has to be a mapping of names")
    for name in content or ():
        if not isinstance(name, str):
            raise ConfigError(f"{where}: the name {name!r} is no text to YAML; put it in quotes: '{name}'")
    return content or {}


def _names(content: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """Names or patterns in a list, none if nothing is said."""
    names = content.get(key)
    if not isinstance(names, list | None) or not all(isinstance(name, str) for name in names or ()):
        raise ConfigError(f"{where}: {key} = {names!r:.60} received; give a list of them, as texts")
    return tuple(names or ())


def _text(content: Mapping[str, Any], key: str, where: str) -> str:
    """A text, empty if nothing is said."""
    text = content.get(key)
    if not isinstance(text, str | None):
        raise ConfigError(f"{where}: {key} = {text!r:.60} received; it has to be a text")
    return text or ""


def _check_keys(content: Any, known: Sequence[str], where: str, needed: Sequence[str] = ()) -> None:
    if not isinstance(content, dict):
        raise ConfigError(f"{where} holds {type(content).__name__}, not a mapping")
    for key in content:
        if key not in known:
            raise ConfigError(f"{where} has an unknown part {key!r}. {did_you_mean(str(key), known)}")
    for key in needed:
        if not isinstance(content.get(key), dict) or not content[key]:
            raise ConfigError(f"{where} has no {key}; give at least one, with its settings")

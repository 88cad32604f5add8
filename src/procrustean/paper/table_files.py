"""Tables read from YAML, the paper's and those of a user: what is wrong with one is said before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Annotated, Any, TypeVar

import msgspec

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.yaml_files import parse_yaml
from procrustean.methods.make import METHODS, option_defaults
from procrustean.paper.definitions import Definitions, Row, Suite, TableSpec, matching, merged
from procrustean.paper.printed_numbers import Metric
from procrustean.records.run_spec import RunSpec

#: Settings of a run that a table does not say, and where they come from instead: each would be overruled.
_ASKED_FOR = {
    "seed": "every cell is trained with the seeds 0, 1, ... that --seeds asks for",
    "data_seed": "--data-seed says which images are kept, in all columns",
    "run_dir": "--output says where runs are kept",
    "data_dir": "--data-dir says where data sets are found",
}

#: What a table may say of itself by yes or no; see `TableSpec`.
FLAGS = ("ranked", "aside", "judged", "by_column")
Settings = dict[str, Any]
T = TypeVar("T")


class FileOfTables(msgspec.Struct, forbid_unknown_fields=True):
    """What a file of tables holds: settings that tables share, tables and suites, all by name."""

    tables: dict[str, Any]
    columns: dict[str, Any] = {}
    suites: dict[str, Any] = {}


class TableInFile(msgspec.Struct, forbid_unknown_fields=True):
    """A table as a file says it; see `TableSpec`."""

    rows: dict[str, Any]
    columns: tuple[str, ...] | dict[str, Any] = ()
    base: Settings = {}
    title: str = ""
    place: str = ""
    note: str = ""
    metrics: tuple[Metric, ...] = ("top1",)
    ranked: bool = False
    aside: bool = False
    judged: bool = False
    by_column: bool = False
    target: Annotated[tuple[str, ...], msgspec.Meta(max_length=2)] = ()


@cache
def paper_definitions() -> Definitions:
    """The tables of the paper, and those that go with them."""
    text = files(__package__).joinpath("tables.yaml").read_text(encoding="utf-8")
    return read_definitions(parse_yaml(text, origin="tables.yaml"), origin="tables.yaml", published=True)


def read_definitions(content: Any, *, origin: str, published: bool = False) -> Definitions:
    """Tables and suites from plain data; what is missing or misspelt is refused by name."""
    file = _read(content, FileOfTables, origin)
    shared = {name: _checked(settings, f"{origin}, column {name!r}") for name, settings in file.columns.items()}
    tables = {
        name: replace(_table(name, table, shared, f"{origin}, table {name!r}"), published=published)
        for name, table in file.tables.items()
    }
    suites = {name: _suite(suite, tables, f"{origin}, suite {name!r}") for name, suite in file.suites.items()}
    return Definitions(tables, suites)


def _read(content: Any, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from error


def _suite(content: Any, tables: Mapping[str, TableSpec], where: str) -> Suite:
    suite = _read(content, Suite, where)
    for part in suite.parts:
        if part.table not in tables:
            raise ConfigError(f"{where} names the table {part.table!r}. {did_you_mean(part.table, tables)}")
        tables[part.table].cells(part.rows, part.columns)  # refuses names that match nothing
    return suite


def _table(name: str, content: Any, shared: Mapping[str, Settings], where: str) -> TableSpec:
    if PurePath(name).name != name or name in ("", ".."):
        raise ConfigError(f"{where}: its results are kept in a folder of this name; choose one that a folder can have")
    table = _read(content, TableInFile, where)
    base = _checked(table.base, f"{where}, base")
    own = table.columns if isinstance(table.columns, dict) else dict.fromkeys(table.columns)
    columns = {}
    for column, settings in own.items():
        # Who writes {} takes everything from the base or the rows; a name alone may be misspelt.
        if not settings and column not in shared and (settings is None or not _names_sources(table)):
            raise ConfigError(
                f"{where} has a column {column!r} without settings; give them, define the column, or give the base a "
                "source and the column {}"
            )
        columns[column] = merged(shared.get(column, {}), _checked(settings or {}, f"{where}, column {column!r}"))
    if not columns or not table.rows:
        raise ConfigError(f"{where} has no {'rows' if columns else 'columns'}")
    rows = tuple(_row(row, settings, base, columns, where) for row, settings in table.rows.items())
    said = {f: getattr(table, f) for f in ("place", "metrics", "note", *FLAGS, "target")}
    return TableSpec(name, title=table.title or name, base=base, columns=columns, rows=rows, **said)


def _row(name: str, content: Any, base: Settings, columns: Mapping[str, Settings], table: str) -> Row:
    where = f"{table}, row {name!r}"
    given = _read(content, Settings, where)
    settings = _checked({key: value for key, value in given.items() if key != "columns"}, where, base.get("method"))
    own = _read(given.get("columns", ["*"]), tuple[str, ...], f"{where}, columns")
    there = matching(own, list(columns), f"column for {where}")
    if "method" not in base | settings and not all("method" in columns[column] for column in there):
        raise ConfigError(
            f"{where} has no method, whatever its name says; write {{method: erm}}, or give one to all rows in the base"
        )
    return Row(name, settings, own)


def _names_sources(table: TableInFile) -> bool:
    """Whether every cell has a data set, whatever its column says."""
    return "source" in table.base or all("source" in _read(row, Settings, "rows") for row in table.rows.values())


def _checked(content: Any, where: str, method: Any = None) -> Settings:
    """Settings of runs; unknown ones are refused by name."""
    settings = _read(content, Settings, where)
    known = [f.name for f in fields(RunSpec) if f.name not in _ASKED_FOR]
    for name in settings:
        if name in _ASKED_FOR:
            raise ConfigError(f"{where} has the setting {name!r}, which no table decides: {_ASKED_FOR[name]}")
        if name not in known:
            raise ConfigError(
                f"{where} has an unknown setting {name!r}. {_instead({'method': method, **settings}, name, known)}"
            )
    _read(settings.get("options", {}), Settings, f"{where}, options")  # merged before a run checks them
    return settings


def _instead(settings: Mapping[str, Any], name: Any, known: Sequence[str]) -> str:
    """What to write in place of a setting that there is not: it may be an option of the method."""
    method = settings.get("method")
    if isinstance(method, str) and method in METHODS and name in option_defaults(method):
        return f"It is an option of {method}; write options: {{{name}: {settings[name]}}}"
    return did_you_mean(str(name), known)

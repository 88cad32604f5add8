"""Tables read from YAML, the paper's and those of a user: what is wrong with one is said before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.yaml_files import parse_yaml
from procrustean.methods.make import METHODS, option_defaults
from procrustean.paper.definitions import METRICS, Definitions, Part, Row, Suite, TableSpec, matching, merged
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
        (*("title", "place", "base", "columns", "rows", "metrics", "note"), *FLAGS, "target"),
        where,
        ("rows",),
    )
    if PurePath(name).name != name or name in ("", ".."):
        raise ConfigError(f"{where}: its results are kept in a folder of this name; choose one that a folder can have")
    base = _checked(table.get("base"), f"{where}, base")
    listed = not isinstance(table.get("columns"), dict)
    if not listed:
        own = _by_name(table["columns"], f"{where}, columns")
    else:
        own = {column: {} for column in _names(table, "columns", where)}
    columns = {}
    for column, settings in own.items():
        # Who writes {} takes everything from the base or the rows; a name alone may be misspelt.
        as_the_rest = not listed and settings == {} and _names_sources(base, table["rows"])
        if column not in shared and not settings and not as_the_rest:
            instead = "; {} takes all from a base with a source" * (not listed)
            raise ConfigError(
                f"{where} has a column {column!r} without settings; give them, or define the column{instead}"
            )
        columns[column] = merged(shared.get(column, {}), _checked(settings, f"{where}, column {column!r}"))
    if not columns:
        raise ConfigError(f"{where} has no columns")
    metrics = _names(table, "metrics", where) or ("top1",)
    for metric in metrics:
        if metric not in METRICS:
            raise ConfigError(f"{where}: metric {metric!r} received; accepted: {', '.join(METRICS)}")
    rows = []
    for row, given in _by_name(table["rows"], f"{where}, rows").items():
        settings = _checked(given, f"{where}, row {row!r}", besides=("columns",), method=base.get("method"))
        own_columns = _names(settings, "columns", f"{where}, row {row!r}") or ("*",)
        settings.pop("columns", None)
        there = matching(own_columns, list(columns), f"column for row {row!r} in table {name!r}")
        if "method" not in base | settings and not all("method" in columns[column] for column in there):
            raise ConfigError(
                f"{where}, row {row!r} has no method, whatever its name says; write {{method: erm}}, or give one to "
                "all rows in the base"
            )
        rows.append(Row(row, columns=own_columns, settings=settings))
    target = _names(table, "target", where)
    if len(target) > 2:
        raise ConfigError(
            f"{where}: target = {list(target)} received; give a table of the paper, and a row of it unless the rows "
            "have the same names there"
        )
    return TableSpec(
        name,
        title=_text(table, "title", where) or name,
        place=_text(table, "place", where),
        base=base,
        columns=columns,
        rows=tuple(rows),
        metrics=metrics,
        note=_text(table, "note", where),
        **{flag: bool(table.get(flag, False)) for flag in FLAGS},
        target=target,
    )


def _names_sources(base: Mapping[str, Any], rows: Mapping[str, Any]) -> bool:
    """Whether every cell has a data set, whatever its column says."""
    return "source" in base or all(isinstance(row, dict) and "source" in row for row in rows.values())


def _checked(settings: Any, where: str, *, besides: Sequence[str] = (), method: Any = None) -> dict[str, Any]:
    """Settings of runs, none if nothing is said; unknown ones are refused by name.

    Args:
        settings: what a file says.
        where: its place.
        besides: what else may be among them.
        method: that they are for, where they name none.
    """
    known = [f.name for f in fields(RunSpec) if f.name not in _ASKED_FOR]
    settings = {} if settings is None else settings
    if not isinstance(settings, dict):
        raise ConfigError(f"{where} holds {settings!r}, not settings; write {{method: erm}} and so on")
    for name in settings:
        if name in _ASKED_FOR:
            raise ConfigError(f"{where} has the setting {name!r}, which no table decides: {_ASKED_FOR[name]}")
        if name not in known and name not in besides:
            raise ConfigError(
                f"{where} has an unknown setting {name!r}. {_instead({'method': method, **settings}, name, known)}"
            )
    if not isinstance(settings.get("options", {}), dict):  # which are merged one by one before a run checks them
        raise ConfigError(f"{where}: options = {settings['options']!r} received; give a mapping of their values")
    return dict(settings)


def _instead(settings: Mapping[str, Any], name: Any, known: Sequence[str]) -> str:
    """What to write in place of a setting that there is not: it may be an option of the method."""
    method = settings.get("method")
    if isinstance(method, str) and method in METHODS and name in option_defaults(method):
        return f"It is an option of {method}; write options: {{{name}: {settings[name]}}}"
    return did_you_mean(str(name), known)


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

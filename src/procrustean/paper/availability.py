"""What a cell needs that this version does not know, or that this machine does not have."""

from __future__ import annotations

import os
from pathlib import Path

from procrustean.base.errors import ConfigError
from procrustean.base.files import expanded
from procrustean.base.own_code import is_usable, plain_name
from procrustean.data.sets.table import known
from procrustean.data.sources import TABLES, describe_sources, is_named, source_hint
from procrustean.paper.definitions import Cell
from procrustean.records.run_spec import RunSpec
from procrustean.runs.preparing import recipe_of


def check_cell(cell: Cell) -> None:
    """ConfigError for settings that cannot be, and for a method, a network or a recipe that this version lacks."""
    config = cell.config()
    if unnamed_code(config) is not None:
        return
    try:
        recipe_of(config)
    except ConfigError as error:
        raise ConfigError(f"{cell.where}: {error}") from error


def unnamed_code(config: RunSpec) -> str | None:
    """Why the code of a method is not imported, so that nothing can be known of its runs; None if it may be."""
    unnamed = [name for name in config.code.values() if not is_usable(name)]
    if not unnamed:
        return None
    return f"{plain_name(unnamed[0])} is code that a file names, and a dry run imports none"


def check_source(cell: Cell) -> None:
    """ConfigError for a name that is neither a data set nor a path; results can be shown without the images."""
    source = str(cell.settings["source"])
    if source in describe_sources() or _is_file_path(source) or _is_folder_path(source) or expanded(source).is_dir():
        return
    raise ConfigError(f"{cell.where}: unknown source {source!r}, and no such folder. {source_hint(source)}")


def absent_data(source: str, data_dir: Path | None) -> str | None:
    """Why the images are not on this machine, None if they are, or if only loading them would tell."""
    if is_named(source):
        return known(source).absent(data_dir)
    return _not_there(source) if _is_file_path(source) or _is_folder_path(source) else None


def _not_there(source: str) -> str | None:
    path = expanded(source)
    if path.exists():
        return None
    relative = "" if path.is_absolute() else f", and paths are relative to the current folder, {Path.cwd()}"
    kind = "file" if _is_file_path(source) else "folder"
    return f"there is no {kind} {source}{relative}; mend the source of its column"


def _is_file_path(source: str) -> bool:
    """Whether a source is a file of the user's by its name, whether it is there or not."""
    return Path(source).suffix.lower() in (".npz", *TABLES)


def _is_folder_path(source: str) -> bool:
    """Whether a source is written as the path of a folder, whether it is there or not."""
    return os.sep in source or "/" in source

"""What a cell needs that this version does not know, or that this machine does not have."""

from __future__ import annotations

import os
from pathlib import Path

from procrustean.base.code_files import is_usable, plain_name
from procrustean.base.errors import ConfigError, DataError
from procrustean.base.paths import expanded
from procrustean.data.cifar import CIFAR10, CIFAR100, data_roots
from procrustean.data.npm_mirror import ARCHIVE
from procrustean.data.official.layouts import LAYOUTS
from procrustean.data.official.loading import TUNING, found_store
from procrustean.data.sources import PREPARED, TABLES, describe_sources, source_hint
from procrustean.paper.definitions import Cell
from procrustean.records.run_spec import RunSpec
from procrustean.runs.preparing import recipe_of

_CIFAR = {files.name: files for files in (CIFAR10, CIFAR100)}


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
    unnamed = [name for name in config.own_code if not is_usable(name)]
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
    if source in PREPARED:
        return _not_prepared(source, data_dir)
    if _is_file_path(source) or _is_folder_path(source):
        return _not_there(source)
    files = _CIFAR.get(source)
    if files is None:
        return None
    roots = data_roots(data_dir)
    names = (files.folder, files.archive, *((ARCHIVE,) if files.mirror_hashes else ()))
    if any((root / name).exists() or root.name == files.folder for root in roots for name in names):
        return None
    return (
        f"{source} is in none of {', '.join(map(str, roots))}; put {files.archive} there, name its folder by "
        "--data-dir or $PROCRUSTEAN_DATA, or add --download"
    )


def _not_prepared(source: str, data_dir: Path | None) -> str | None:
    try:
        found_store(LAYOUTS[source.removesuffix(TUNING)], data_roots(data_dir))
    except DataError as error:
        return f"{source}: {' '.join(str(error).split())}"
    return None


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

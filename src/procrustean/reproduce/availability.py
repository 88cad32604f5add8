"""What a cell needs that this version or this machine does not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..data.cifar import CIFAR10, CIFAR100, data_roots
from ..data.npm_mirror import ARCHIVE
from ..data.official.layouts import LAYOUTS
from ..data.official.loading import TUNING, found_store
from ..data.sources import PREPARED, TABLES, describe_sources
from ..errors import ConfigError, DataError
from ..nets import check_net
from ..paths import expanded
from .definitions import Cell

_CIFAR = {files.name: files for files in (CIFAR10, CIFAR100)}


def missing_parts(cell: Cell) -> list[str]:
    """Data sets, networks and values of settings that the cell names and this version does not know."""
    source, net = str(cell.settings.get("source", "")), cell.settings.get("net")
    missing = []
    if source not in describe_sources() and not _is_path(source):
        missing.append(f"the data set {source!r}")
    if net is not None and not _is_net(str(net)):
        missing.append(f"the network {net!r}")
    if not missing:
        try:
            cell.config()
        except ConfigError as error:
            recipe = f"the recipe {cell.settings.get('recipe')!r}"
            missing.append(recipe if _recipe_is_wrong(cell) else f"other settings ({error})")
    return missing


def _recipe_is_wrong(cell: Cell) -> bool:
    others = {name: value for name, value in cell.settings.items() if name != "recipe"}
    return replace(cell, settings=others).config_or_none() is not None


def _is_net(name: str) -> bool:
    try:
        check_net(name)
    except ConfigError:
        return False
    return True


def absent_data(source: str, data_dir: Path | None) -> str | None:
    """Why the images are not on this machine, None if they are, or if only loading them would tell."""
    if source in PREPARED:
        return _not_prepared(source, data_dir)
    if _is_file_path(source):
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
    return f"there is no file {source}{relative}; mend the source of its column"


def _is_path(source: str) -> bool:
    return _is_file_path(source) or expanded(source).is_dir()


def _is_file_path(source: str) -> bool:
    """Whether a source is a file of the user's by its name, whether it is there or not."""
    return Path(source).suffix.lower() in (".npz", *TABLES)

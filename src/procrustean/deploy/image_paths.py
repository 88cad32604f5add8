"""Which image files are to be classified, and their pixels by the batch."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from procrustean.base.errors import DataError
from procrustean.base.paths import expanded
from procrustean.data.folders import entries_of
from procrustean.data.image_files import (
    EMPTY_FILE,
    FORMATS,
    NOT_AN_IMAGE,
    SUFFIXES,
    ImageFile,
    Problems,
    decoded,
    headers,
)
from procrustean.data.imageset import Images
from procrustean.data.sources import TABLES

A_TABLE = "a table; give the images or folders themselves"


@dataclass(frozen=True)
class Collected:
    """Images that are to be classified, in order."""

    files: Sequence[ImageFile]
    bad: Problems  # what is wrong with some of them already
    passed_over: int  # files of folders that are no images, and do not end as if they were


def collect(paths: str | Path | Sequence[str | Path]) -> Collected:
    """The images at these paths, or at a single one, folders with all that is below them.

    A file of a folder is an image if its content says so. What is neither that nor named like one is passed over.
    """
    if isinstance(paths, str | os.PathLike):  # a text would be a sequence of letters
        paths = [paths]
    if not paths:
        raise DataError("no images to classify received; give image files, or folders with images, behind the model")
    files: list[ImageFile] = []
    bad: Problems = {}
    other = 0
    for given in paths:
        if given == "":  # it would be the current folder, with everything below it
            raise DataError("an empty path received; give image files, or folders with images")
        path = expanded(given)
        if path.is_dir():
            below = [ImageFile(str(file), file, "", "") for file in _below(path, bad)]
            unknown = [file for file in below if file.name not in bad and _suffix(file) not in SUFFIXES]
            unread: Problems = {}
            headers(unknown, unread)
            passed = {name for name, problem in unread.items() if problem in (NOT_AN_IMAGE, EMPTY_FILE)}
            files += [file for file in below if file.name not in passed]
            other += len(passed)
        elif path.exists():
            file = ImageFile(str(path), path, "", "")
            files.append(file)
            bad |= _table_by_its_name(file)
        else:
            raise DataError(f"{given}: there is no such file or folder")
    if not files:
        named = ", ".join(str(path) for path in paths)
        raise DataError(f"{named}: holds no images; known formats: {', '.join(FORMATS)}")
    return Collected(files, bad, other)


def batches(
    found: Collected, shape: tuple[int, int, int], size: int
) -> Iterator[tuple[Sequence[ImageFile], Images, Problems]]:
    """Files, their pixels and what is wrong with some of them, `size` at a time."""
    for start in range(0, len(found.files), size):
        part = found.files[start : start + size]
        bad: Problems = {file.name: found.bad[file.name] for file in part if file.name in found.bad}
        yield part, decoded(part, shape, bad), bad


def _table_by_its_name(file: ImageFile) -> Problems:
    """What to say of a table, which `train` takes as a source; nothing of an image that is only called like one."""
    if _suffix(file) not in TABLES:
        return {}
    unread: Problems = {}
    headers([file], unread)
    return {name: A_TABLE for name, problem in unread.items() if problem == NOT_AN_IMAGE}


def _suffix(file: ImageFile) -> str:
    return Path(file.name).suffix.lower()


def _below(root: Path, bad: Problems) -> Iterator[Path]:
    """All files below a folder. Each folder is looked into once: links that lead back to one go to `bad`."""
    top = root.resolve()
    seen = {_identity(top)}
    waiting = entries_of(root)[::-1]
    while waiting:
        path = waiting.pop()
        if not _is_folder(path):
            yield path
        elif _identity(path) in seen or (path.is_symlink() and _leads_back(path.resolve(), top)):
            bad[str(path)] = f"not followed: it leads back to {path.resolve()}"
            yield path
        else:
            seen.add(_identity(path))
            waiting += entries_of(path)[::-1]


def _leads_back(place: Path, top: Path) -> bool:
    """Whether a link is no way of its own, even if it comes before the folder that it leads to."""
    return place.is_relative_to(top) or top.is_relative_to(place)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a path that is too long, say: told as of any file that cannot be read
        return False

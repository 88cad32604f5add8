"""Which images belong together, as those of one patient do: told by a column of a table or by the path of a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from procrustean.base.errors import ConfigError, DataError
from procrustean.data.image_files import ImageFile

#: Groups by the folder that an image is in.
PARENT = "parent"
#: How a column of what belongs together is usually called.
_OFFERED = re.compile(
    r"(patient|subject|person|pupil|donor|participant|individual|animal|specimen|case|study|session|visit|series"
    r"|video|clip|scene|burst|sequence|slide|camera|site|location|group)s?([ _-]?(id|nr|no|number|name|index))?",
    re.IGNORECASE,
)
NAMED = 3


def names_groups(column: str) -> bool:
    """Whether a column of this name probably says what belongs together.

    >>> [names_groups(name) for name in ("patient_id", "Subject", "label", "width")]
    [True, True, False, False]
    """
    return _OFFERED.fullmatch(column.strip()) is not None


def grouped_by_path(files: Sequence[ImageFile], group: str, root: Path, columns: Sequence[str]) -> list[ImageFile]:
    """The files with the group that their path names.

    Args:
        files: of one source.
        group: "parent", or a regular expression; its parentheses, if it has any, are the name of the group.
        root: what paths are shown relative to.
        columns: of the table that the files are from, for messages.
    """
    there_are = f" (columns of the table: {', '.join(columns)})" if columns else ""
    paths = [path_below(file, root) for file in files]
    if group == PARENT:
        # An image beside folders of groups, right in the folder of its class, belongs to no other one.
        folders = [Path(path).parent.name for path in paths]
        alone = [folder == file.label for folder, file in zip(folders, files, strict=True)]
        named = [path if own else folder for path, folder, own in zip(paths, folders, alone, strict=True)]
        if all(alone):
            raise DataError(
                f"{root}: group = {PARENT!r} needs folders of groups inside the folders of classes; none is there"
            )
    else:
        try:
            pattern = re.compile(group)
        except re.error as error:
            raise ConfigError(
                f"group = {group!r} received: no column{there_are}, not {PARENT!r}, and no regular expression ({error})"
            ) from None
        named = [_name(pattern.search(path)) for path in paths]
    lost = [path for path, name in zip(paths, named, strict=True) if not name]
    if lost:
        raise DataError(
            f"{root}: group = {group!r} names no group for {len(lost)} of {len(files)} images, such as "
            f"{', '.join(lost[:NAMED])}. Give a regular expression that finds something in each path, a column of a "
            f"table, or {PARENT!r}{there_are}"
        )
    return [replace(file, group=name) for file, name in zip(files, named, strict=True)]


def path_below(file: ImageFile, root: Path) -> str:
    """The path of a file in its source, or what it is called there."""
    if isinstance(file.content, bytes):
        return file.name
    return (file.content.relative_to(root) if file.content.is_relative_to(root) else file.content).as_posix()


def _name(match: re.Match[str] | None) -> str:
    return "" if match is None else "/".join(part or "" for part in match.groups()) or match[0]

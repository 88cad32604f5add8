"""What cannot be used of a source, in words: what is damaged, and what was never meant to be an image."""

from __future__ import annotations

import re
from pathlib import PurePath

from procrustean.base.console import command_text
from procrustean.base.errors import DataError
from procrustean.data.image_files import EMPTY_FILE, NOT_AN_IMAGE, SUFFIXES, Problems

#: How many are named by training, which refuses them, and by `procrustean inspect`, which is there to find them.
NAMED, NAMED_BY_INSPECT = 5, 200
OUTSIDE = "not inside a class folder"
#: What is wrong with a folder; everything else is wrong with files.
EMPTY_CLASS, NESTED = "class folder without images", "a folder inside a class folder"
NOT_TRAINED = "but not in the train split"  # of a class that is tested
#: How tables call their images; a row without a path holds one itself.
_ROW = re.compile(r"(?P<table>\S+ )?row (?P<number>\d+)(?: \((?P<path>.*)\))?")

SKIPPING = (
    "Or leave all of these out with --on-bad-image skip (in YAML on_bad_image: skip); the classes are then counted "
    "again"
)
MOVE_THEM = "no images by their names either; move them elsewhere"


def parted(bad: Problems) -> tuple[Problems, Problems]:
    """What should be an image and cannot be used, and what is no image by its name either, such as notes.

    >>> parted({"cat/1.png": "not an image", "README.md": "not inside a class folder"})
    ({'cat/1.png': 'not an image'}, {'README.md': 'not inside a class folder'})
    """
    other = {name: why for name, why in bad.items() if _is_no_image(name, why)}
    return {name: why for name, why in bad.items() if name not in other}, other


def counted(bad: Problems) -> str:
    """How many files and folders there are among them, in words.

    >>> counted({"cat/1.png": "not an image", "cat/2.png": "empty file", "dog": EMPTY_CLASS})
    '2 files and 1 folder'
    """
    folders = sum(any(what in why for what in (EMPTY_CLASS, NESTED, NOT_TRAINED)) for why in bad.values())
    numbers = {"file": len(bad) - folders, "folder": folders}
    return " and ".join(f"{number} {what}{'s' * (number > 1)}" for what, number in numbers.items() if number)


def named(bad: Problems, most: int, whole: str = "") -> list[str]:
    """A line for each of the first ones and, if there are more, one that counts them.

    Args:
        bad: what cannot be used.
        most: how many are named.
        whole: what names all of them.
    """
    lines = [f"  {name}: {bad[name]}" for name in sorted(bad, key=_in_order)[:most]]
    return [*lines, *[f"  and {len(bad) - most} more" + f"; {whole}" * bool(whole)] * (len(bad) > most)]


def refuse(bad: Problems, where: str, otherwise: str | None = None, most: int = NAMED) -> None:
    """DataError that names what cannot be used, if anything, and what can be done about it.

    Args:
        bad: what cannot be used.
        where: the source in messages.
        otherwise: what else can be done, where these are not files of a source that can be left out.
        most: how many are named.
    """
    if not bad:
        return
    whole = f"{command_text('inspect', where)} names all" if otherwise is None and most < NAMED_BY_INSPECT else ""
    damaged, other = parted(bad)
    lines = [f"{where}: {counted(bad)} cannot be used; "]
    if damaged:
        lines[0] += "remove or replace:"
        lines += named(damaged, most, whole)
    if other and damaged:
        lines.append(f"{MOVE_THEM}:")
    elif other:
        lines[0] += "no image by its name either; move it elsewhere:" if len(other) == 1 else f"{MOVE_THEM}:"
    lines += named(other, most, whole)
    raise DataError("\n".join([*lines, SKIPPING if otherwise is None else otherwise]))


def _in_order(name: str) -> tuple[str, int, str]:
    """Row 2 before row 10; files by their names."""
    row = _ROW.fullmatch(name)
    return (row["table"] or "", int(row["number"]), "") if row else ("", 0, name)


def _is_no_image(name: str, problem: str) -> bool:
    row = _ROW.fullmatch(name)
    path = row["path"] if row else name
    named_like_one = path is None or PurePath(path).suffix.lower() in SUFFIXES
    return problem in (NOT_AN_IMAGE, EMPTY_FILE, OUTSIDE) and not named_like_one

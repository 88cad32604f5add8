"""Arrays from .npz files: no pickles, no archives that unpack without end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any
from zipfile import ZipInfo

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError
from procrustean.base.memory import most_unpacked

Array = npt.NDArray[Any]


def read_arrays(path: Path, only: Collection[str] | None = None) -> dict[str, Array]:
    """The arrays of a file by name, all or only some; those that it does not have are not among them."""
    try:
        with path.open("rb") as file:
            opened = np.load(file, allow_pickle=False)
            if isinstance(opened, np.ndarray):
                raise DataError(f"{path}: holds a single array; save with np.savez(path, name=array, ...)")
            _refuse_bomb(opened.zip.infolist(), path)
            twice = [name for name, number in Counter(opened.files).items() if number > 1]
            if twice:
                raise DataError(f"{path}: holds two arrays {twice[0]!r:.80}; keep one")
            return {name: opened[name] for name in opened.files if only is None or name in only}
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file") from error
    except Exception as error:  # a damaged file can raise nearly anything
        # What numpy says of pickles advises to load them unsafely.
        said = "" if "pickle" in str(error) else f" ({error})"
        raise DataError(
            f"{path}: not a readable .npz of plain arrays{said}; write it with np.savez, "
            "numbers and strings only, no objects"
        ) from error


def _refuse_bomb(members: list[ZipInfo], path: Path) -> None:
    unpacked, size = sum(member.file_size for member in members), path.stat().st_size
    if unpacked > most_unpacked(size):
        raise DataError(f"{path}: {size:,} bytes that unpack to {unpacked:,}; refused, save it without compression")

"""Read a pickle that can become nothing but arrays of numbers, dicts, lists, strings and numbers.

A pickle may call any importable function. Here the only names it can reach are the five that numpy's own arrays and
numbers and bytes are pickled with, and each of them leads to a stand-in of this module.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError

NUMBERS = re.compile(r"b1|[iu][1248]|f[248]")


def load(data: bytes, *, name: str) -> Any:
    """The object pickled in `data`; `name` (a file name) begins every error message."""
    return _load(io.BytesIO(data), name)


def load_file(path: Path) -> Any:
    """The object pickled in a file, which may be large: it is not read into memory beside what is made of it."""
    try:
        with path.open("rb") as file:
            return _load(file, str(path))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from error


def _load(file: IO[bytes], name: str) -> Any:
    try:
        return _Unpickler(file, encoding="latin1").load()  # for texts and arrays that Python 2 wrote
    except Exception as error:  # a broken pickle can raise nearly anything
        raise DataError(
            f"{name}: not a readable pickle ({type(error).__name__}: {error}); get the official file again"
        ) from error


class _Dtype:
    """A number type. numpy's own could be changed by a pickle, for the whole program."""

    def __init__(self, code: str) -> None:
        if not NUMBERS.fullmatch(code):
            raise pickle.UnpicklingError(f"array type {code!r} is refused, only arrays of numbers are read")
        self.value = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        _, order, *fields = state
        if any(field is not None for field in fields[:3]):
            raise pickle.UnpicklingError("an array with fields is refused, only arrays of numbers are read")
        if order == ">":
            self.value = self.value.newbyteorder(">")


class _Array(np.ndarray[Any, np.dtype[Any]]):
    """An array that takes its content from the pickle, if that is of numbers."""

    def __setstate__(self, state: Any) -> None:
        version, shape, dtype, fortran, data = state
        super().__setstate__((version, shape, dtype.value, fortran, data))


def _number(dtype: _Dtype, raw: bytes | str) -> Any:
    return np.frombuffer(raw.encode("latin1") if isinstance(raw, str) else raw, dtype.value)[0].item()


def _empty(*_: Any) -> npt.NDArray[Any]:
    return _Array(0, np.uint8)


def _bytes(text: str, _: str) -> bytes:  # how Python 3 writes them for older readers
    return text.encode("latin1")


STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): lambda code, *_: _Dtype(code),
    ("numpy", "ndarray"): _empty,
    ("_codecs", "encode"): _bytes,
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _empty for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _number for core in ("core", "_core")},
}


# In Python: the one in C keeps what it has read in a table that one number in a file can blow up to many gigabytes.
class _Unpickler(pickle._Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which could run code; do not trust this file")
        # A function of its own each time: a pickle can set attributes of whatever it is given.
        return lambda *arguments: STAND_INS[module, name](*arguments)

"""Read a pickle that can become nothing but arrays of numbers, dicts, lists, strings, bytes and integers.

A pickle may call any importable function. Here the only names it can reach are the five that numpy's own
arrays and numbers and bytes are pickled with, and each of them leads to a stand-in of this module that stores numbers.
"""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError

NUMBERS = re.compile(r"b1|[iu][1248]|f[248]")
PLAIN = (str, bytes, int)


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
        loaded = _Unpickler(file, name).load()
    except DataError:
        raise
    except Exception as error:  # a broken pickle can raise nearly anything
        raise DataError(
            f"{name}: not a readable pickle ({type(error).__name__}: {error}); get the file again"
        ) from error
    return _plain(loaded, name)


class _Array:
    """What numpy's `_reconstruct` gives: filled by its state, turned into a real array at the end."""

    __slots__ = ("name", "spare", "value")

    def __init__(self, name: str, spare: list[int]) -> None:
        self.name = name
        self.spare = spare
        self.value: npt.NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        if not isinstance(dtype, _Dtype):
            raise DataError(f"{self.name}: an array without a number type; refused")
        self.spare[0] -= len(data)
        if self.spare[0] < 0:
            raise DataError(f"{self.name}: arrays of more bytes than the file has; refused")
        raw = data.encode("latin1") if isinstance(data, str) else data
        flat = np.frombuffer(raw, dtype.value)
        shaped = flat.reshape(shape, order="F" if fortran else "C")
        self.value = shaped.astype(dtype.value.newbyteorder("="))


class _Dtype:
    """A number type; anything that could hold objects or fields is refused."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, code: str | bytes) -> None:
        text = code.decode("latin1") if isinstance(code, bytes) else code
        if not NUMBERS.fullmatch(text):
            raise DataError(f"{name}: array type {text!r} is refused, only arrays of numbers are read")
        self.name = name
        self.value = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        _, order, *fields = state
        if any(field is not None for field in fields[:3]):
            raise DataError(f"{self.name}: an array with fields is refused, only arrays of numbers are read")
        if order in (">", b">"):
            self.value = self.value.newbyteorder(">")


class _StandIn:
    """A name the pickle may refer to. Its own `__setstate__` keeps a pickle from changing it."""

    __slots__ = ("kind", "name", "spare")

    def __init__(self, kind: str, name: str, spare: list[int]) -> None:
        self.kind = kind
        self.name = name
        self.spare = spare

    def __call__(self, *arguments: Any) -> _Array | _Dtype | int | float | bytes:
        if self.kind == "dtype":
            return _Dtype(self.name, arguments[0])
        if self.kind == "_reconstruct":
            return _Array(self.name, self.spare)
        if self.kind == "encode" and isinstance(arguments[0], str):
            # How Python 3 writes bytes for older readers.
            return arguments[0].encode("latin1")
        if self.kind == "scalar" and isinstance(arguments[0], _Dtype):
            raw = arguments[1].encode("latin1") if isinstance(arguments[1], str) else arguments[1]
            number: int | float = np.frombuffer(raw, arguments[0].value)[0].item()
            return number
        raise DataError(f"{self.name}: the pickle calls numpy.{self.kind}; refused")

    def __setstate__(self, state: Any) -> None:
        raise DataError(f"{self.name}: the pickle tries to change numpy.{self.kind}; refused")


# In Python: the one in C keeps what it has read in a table that one number in a file can blow up to many gigabytes.
class _Unpickler(pickle._Unpickler):
    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, encoding="latin1")  # for texts and arrays that Python 2 wrote
        self.name = name
        # Bytes that arrays may still have: bytes named again and again would otherwise fill the memory.
        self.spare = [file.seek(0, io.SEEK_END)]
        file.seek(0)

    def find_class(self, module: str, name: str, /) -> Any:
        arrays = module in ("numpy.core.multiarray", "numpy._core.multiarray")
        if (arrays and name in ("_reconstruct", "scalar")) or (module == "numpy" and name in ("ndarray", "dtype")):
            return _StandIn(name, self.name, self.spare)
        if (module, name) == ("_codecs", "encode"):
            return _StandIn(name, self.name, self.spare)
        raise DataError(
            f"{self.name}: the pickle asks for {module}.{name}, which is refused: only arrays of numbers, "
            "dicts, lists, strings and integers are read. Do not trust this file; get the official one"
        )


def _plain(loaded: Any, name: str) -> Any:
    """Put real arrays in place of their stand-ins and refuse whatever else the pickle built."""
    top = [loaded]
    pending: list[list[Any] | dict[Any, Any]] = [top]
    seen = set()
    while pending:
        container = pending.pop()
        if id(container) in seen:
            continue
        seen.add(id(container))
        if isinstance(container, dict):
            _require_plain_keys(container, name)
        places = list(container.items() if isinstance(container, dict) else enumerate(container))
        for place, value in places:
            if type(value) is _Array and value.value is not None:
                container[place] = value.value
            elif type(value) in (list, dict):
                pending.append(value)
            elif type(value) not in PLAIN:
                raise DataError(f"{name}: the pickle holds a {type(value).__name__.strip('_')}, which is refused")
    return top[0]


def _require_plain_keys(container: dict[Any, Any], name: str) -> None:
    for key in container:
        if type(key) not in PLAIN:
            raise DataError(f"{name}: the pickle has a {type(key).__name__.strip('_')} as a key; refused")

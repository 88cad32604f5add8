"""Compressed archives whose size is not known until they are unpacked, read only so far."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from procrustean.base.errors import DataError


class _Limited:
    """A stream that refuses to give more than so many bytes, whatever they are for: contents, names or padding."""

    def __init__(self, stream: IO[bytes], path: Path, limit: int) -> None:
        self._stream, self._path, self._limit, self._given = stream, path, limit, 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._given += len(data)
        if self._given > self._limit:
            raise DataError(f"{self._path}: unpacks to more than {self._limit:,} bytes; delete the file")
        return data


@contextmanager
def opened_tar(path: Path, limit: int) -> Iterator[tarfile.TarFile]:
    """A .tar.gz file, to be read member by member in the order of the file; nothing is written.

    Raises:
        DataError: as soon as it has given `limit` bytes.
    """
    with gzip.open(path, "rb") as stream:
        limited = cast("IO[bytes]", _Limited(cast("IO[bytes]", stream), path, limit))
        with tarfile.open(fileobj=limited, mode="r|") as archive:
            yield archive

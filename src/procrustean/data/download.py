"""Fetch one file over https: resumed where it broke off, checked by its digest; archives."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import ssl
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, cast
from urllib.parse import urlsplit

from procrustean.base.errors import DataError
from procrustean.base.lease import in_turn

Say = Callable[[str], None]

BLOCK = 1 << 18
TIMEOUT_SECONDS = 30.0
MOST_FAILURES = 3
LOCAL = ("localhost", "127.0.0.1", "::1")
WORTH_RETRYING = (408, 425, 429, 500, 502, 503, 504)


def download(
    url: str,
    target: Path,
    *,
    md5: str = "",
    sha256: str = "",
    max_bytes: int = 1 << 30,
    say: Say = lambda line: None,
    pause_seconds: float = 1.0,
) -> Path:
    """Bring the file with this digest to `target`.

    A transfer that breaks off is resumed from `target` + ".part", in this call or a later one; the file
    appears at `target` only when it is complete and its digest right. A wrong checksum deletes the part.

    Args:
        url: https address (http only on this machine).
        target: where the file goes; its folder is made if needed.
        md5, sha256: the hex digest that the file must have, or its beginning; one of them, or none where none is
            published.
        max_bytes: give up beyond this size.
        say: called with one line of progress at a time.
        pause_seconds: wait before the first retry; doubled with each failure in a row.

    Raises:
        DataError: with what went wrong.
    """
    if not _secure(url):
        raise DataError(f"downloads use https, got {url}")
    wanted = _Digest("sha256", sha256) if sha256 else _Digest("md5", md5)
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with in_turn(target.parent, lambda: say(f"waiting for another download into {target.parent}")):
            if not (target.exists() and wanted.fits(wanted.of(target))):
                _complete(part, url, wanted, max_bytes, say, pause_seconds)
                part.replace(target)
    except _Refused as refused:
        raise DataError(f"could not download {target.name}: {url}: {refused}") from refused
    except OSError as error:
        raise DataError(f"could not download {target.name}: cannot write it ({error.strerror or error})") from error
    return target


@dataclass(frozen=True)
class _Digest:
    """What tells a file from others, or from its own half."""

    kind: Literal["md5", "sha256"]
    expected: str  # its beginning in hex

    def of(self, path: Path) -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.new(self.kind, usedforsecurity=False)).hexdigest()

    def fits(self, found: str) -> bool:
        return found.startswith(self.expected)


class _Broken(Exception):
    """A transfer that failed but may work when tried again."""


class _Refused(Exception):
    """A file that is not to be had."""


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        if not _secure(newurl):
            raise _Refused(f"redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _complete(part: Path, url: str, wanted: _Digest, max_bytes: int, say: Say, pause: float) -> None:
    """Bring what is missing of `part` until it is the wanted file; _Refused where that does not come about."""
    failures, furthest = 0, _size(part)
    while True:
        start = _size(part)
        try:
            _transfer(url, part, max_bytes, say)
        except _Broken as broken:
            failures = 1 if _size(part) > furthest else failures + 1
            furthest = max(furthest, _size(part))
            if failures >= MOST_FAILURES:
                raise _Refused(f"{broken} ({failures} times in a row)") from broken
            say(f"{part.stem}: {broken}, trying again")
            time.sleep(pause * 2 ** (failures - 1))
            continue
        found = wanted.of(part)
        if wanted.fits(found):
            return
        part.unlink()
        if start == 0:
            raise _Refused(f"wrong checksum ({wanted.kind} {found}, expected {wanted.expected}), deleted")
        say(f"{part.stem}: wrong checksum after resuming, deleted; starting over")


def _transfer(url: str, part: Path, max_bytes: int, say: Say) -> None:
    """Append what is missing to `part`."""
    start = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "procrustean"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    opener = urllib.request.build_opener(_SecureRedirects)
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            start = _resumed_at(response, start)
            length = response.headers.get("Content-Length")
            total = start + int(length) if length and length.isdigit() else None
            _receive(response, part, start, total, max_bytes, say)
    except urllib.error.HTTPError as error:
        if error.code == 416 and start:  # nothing after `start`: the part is complete, or longer than the file
            return
        problem = f"HTTP {error.code} {error.reason}"
        raise (_Broken if error.code in WORTH_RETRYING else _Refused)(problem) from error
    except urllib.error.URLError as error:
        raise _Broken(f"no connection ({error.reason})") from error
    except (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise _Broken(f"connection broken ({str(error) or type(error).__name__})") from error


def _resumed_at(response: http.client.HTTPResponse, start: int) -> int:
    """Where the server really starts sending: a server without ranges starts at 0."""
    if response.status != 206:
        return 0
    given = response.headers.get("Content-Range", "")
    if not given.startswith(f"bytes {start}-"):
        raise _Refused(f"answered with another range than bytes {start}-: {given!r}")
    return start


def _receive(
    response: http.client.HTTPResponse, part: Path, start: int, total: int | None, max_bytes: int, say: Say
) -> None:
    if total is not None and total > max_bytes:
        raise _Refused(f"offers {total:,} bytes, more than the {max_bytes:,} expected at most")
    size, tenths = start, -1
    with part.open("r+b" if start else "wb") as file:
        file.seek(start)
        while block := response.read(BLOCK):
            size += len(block)
            if size > max_bytes:
                raise _Refused(f"sends more than the {max_bytes:,} bytes expected at most")
            file.write(block)
            if total and size * 10 // total > tenths:
                tenths = size * 10 // total
                say(f"{part.stem}: {size / 2**20:.1f} of {total / 2**20:.1f} MiB ({tenths * 10} %)")
    if total is not None and size < total:
        raise _Broken(f"connection broken after {size:,} of {total:,} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _secure(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOCAL)


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

"""Download and unpack an official data set whose licence allows it and whose publisher gives checksums."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from procrustean.base.errors import DataError
from procrustean.data.download import Say, download
from procrustean.data.official.layouts import Archive, Layout


def fetch(layout: Layout, root: Path, say: Say) -> Path:
    """The folder of the unpacked data set; what is there already is not fetched again.

    Raises:
        DataError: if it may not be downloaded; the message says where to get it.
    """
    if not layout.archives:
        raise DataError(f"{layout.title} is not downloaded. {layout.obtain}\nThen: {command(layout)}")
    folder = root / layout.name
    say(layout.terms)
    for archive in layout.archives:
        if (folder / archive.unpacks).exists():
            say(f"{folder / archive.unpacks} is there already")
            continue
        file = download(
            [archive.url], folder / archive.name, md5=archive.md5, max_bytes=int(archive.gigabytes * 1e9), say=say
        )
        say(f"unpacking {archive.name}")
        _unpack(file, archive, folder)
        file.unlink()
    return folder


def command(layout: Layout) -> str:
    """How a data set is prepared."""
    return f"procrustean data prepare {layout.name} --source FOLDER"


def _unpack(file: Path, archive: Archive, folder: Path) -> None:
    """Unpack into a folder beside the place and move the result there: a half-unpacked one is never taken for whole."""
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as draft, tarfile.open(file) as content:
            content.extractall(draft, filter="data")
            unpacked = Path(draft) / archive.unpacks
            if not unpacked.exists():
                raise DataError(f"{file}: there is no {archive.unpacks} in it; it is not the official archive")
            unpacked.rename(folder / archive.unpacks)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise DataError(f"{file} cannot be unpacked ({error}); it is kept for another try") from error

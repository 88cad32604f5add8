"""Data sets whose official files are read as a whole: found, or downloaded, always checked by md5."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from procrustean.base.errors import DataError
from procrustean.data.download import Say, opened_tar
from procrustean.data.download import download as fetch
from procrustean.data.imageset import ImageSet, Splits
from procrustean.data.sets.data_set import DataSet, Request, data_roots

MAX_FILE_BYTES = 200 << 20
MAX_ARCHIVE_BYTES = 400 << 20

#: Training and test images, in the official order.
Pair = tuple[ImageSet, ImageSet]


@dataclass(frozen=True)
class Mirror:
    """Another place that has the same images in a form of its own."""

    file: str  # as which they are kept
    how: str  # to get it by hand
    fetch: Callable[[Path, Say], Path]  # brings the file into a folder
    read: Callable[[Path], Pair]
    hashes: tuple[str, str]  # `ImageSet.hash` of the official training and test images


@dataclass(frozen=True, kw_only=True)
class OfficialFiles(DataSet):
    """A data set that is small enough for the memory.

    Its files are looked for in `--data-dir`, then `$PROCRUSTEAN_DATA`, then the user's cache folder: the official
    folder, the official archive (unpacked on the way), or what a mirror gives. What is not found is downloaded into the
    first of these folders.
    """

    folder: str  # that the files are in
    files: Mapping[str, str]  # all of them -> their md5
    url: str  # of the .tar.gz that holds the folder or, with a / at its end, of the place that has the files one by one
    archive_md5: str = ""  # of the .tar.gz
    megabytes: int  # of a download
    read: Callable[[Mapping[str, bytes]], Pair]  # the images, from the contents of the files
    mirror: Mirror | None = None

    downloads = True
    how = "; official files, downloaded if not found"

    @property
    def archive(self) -> str:
        """What the archive is called; empty if there is none."""
        return self.url.rpartition("/")[2]

    def load(self, request: Request) -> Splits:
        tried: list[str] = []
        for attempt in self._attempts(request):
            try:
                found = attempt()
            except (DataError, OSError) as error:  # the latter of a folder that may not be read; others may
                tried.append(str(error))
                request.say(str(error))
                continue
            if found:
                return Splits(self.name, *found)
        raise DataError(self._instructions(request, tried))

    def absent(self, data_dir: Path | None = None) -> str | None:
        roots = data_roots(data_dir)
        places = [self.folder, *([self.archive] if self.archive else []), *([self.mirror.file] if self.mirror else [])]
        if any((root / place).exists() or root.name == self.folder for root in roots for place in places):
            return None
        return (
            f"{self.name} is in none of {', '.join(map(str, roots))}; put {self.archive or self.folder} there, name "
            "its folder by --data-dir or $PROCRUSTEAN_DATA, or add --download"
        )

    def _attempts(self, request: Request) -> Iterator[Callable[[], Pair | None]]:
        """Ways to the data, cheapest first. Each gives None when there is nothing to try."""
        roots = request.roots
        for root in roots:
            yield partial(self._from_folder, root)
            yield partial(self._from_archive, root)
            yield partial(self._from_mirror, root)
        if not request.download:
            return
        # Not by `say`, which may be silent: so much over the network is told to everybody.
        warnings.warn(
            f"{self.name} is in none of {', '.join(map(str, roots))}; downloading it into {roots[0]} "
            f"(about {self.megabytes} MB)",
            stacklevel=2,
        )
        yield partial(self._from_official_place, roots[0], request.say)
        if self.mirror:
            yield partial(self._fetched_from_mirror, self.mirror, roots[0], request.say)

    def _place(self, root: Path) -> Path:
        """The folder of the files: --data-dir may also name it itself."""
        return root if root.name == self.folder else root / self.folder

    def _from_folder(self, root: Path) -> Pair | None:
        folder = self._place(root)
        if not folder.is_dir():
            return None
        contents = {}
        for name in self.files:
            try:
                with (folder / name).open("rb") as file:
                    contents[name] = file.read(MAX_FILE_BYTES)
            except OSError as error:
                raise DataError(f"{folder / name}: {error.strerror or error}") from error
        return self._checked(contents, folder)

    def _from_archive(self, root: Path) -> Pair | None:
        path = root / self.archive
        if not self.archive or not path.is_file():
            return None
        contents = members(path, {f"{self.folder}/{name}": name for name in self.files})
        found = self._checked(contents, path)
        _unpack(contents, root / self.folder)
        return found

    def _from_mirror(self, root: Path) -> Pair | None:
        if self.mirror is None or not (path := root / self.mirror.file).is_file():
            return None
        train, test = self.mirror.read(path)
        if (train.hash, test.hash) != self.mirror.hashes:
            raise DataError(f"{path}: its pixels or labels are not the official ones; delete the file")
        return train, test

    def _from_official_place(self, root: Path, say: Say) -> Pair | None:
        if not self.archive:
            for name, md5 in self.files.items():
                if not (path := self._place(root) / name).exists():  # a file that is there is named, not replaced
                    fetch(self.url + name, path, md5=md5, say=say)
            return self._from_folder(root)
        archive = fetch(self.url, root / self.archive, md5=self.archive_md5, say=say)
        found = self._from_archive(root)
        if (root / self.folder).is_dir():
            archive.unlink()
        return found

    def _fetched_from_mirror(self, mirror: Mirror, root: Path, say: Say) -> Pair | None:
        mirror.fetch(root, say)
        return self._from_mirror(root)

    def _checked(self, contents: Mapping[str, bytes], place: Path) -> Pair:
        """The images of files that are all there and are the official ones."""
        for name, md5 in self.files.items():
            if name not in contents:
                raise DataError(f"{place}: {name} is missing")
            found = hashlib.md5(contents[name], usedforsecurity=False).hexdigest()
            if found != md5:
                raise DataError(f"{place}: {name} is not the official file (md5 {found}, expected {md5})")
        return self.read(contents)

    def _instructions(self, request: Request, tried: list[str]) -> str:
        searched = ", ".join(map(str, request.roots))
        first = request.roots[0]
        ways = [f"the files {', '.join(self.files)} (from {self.url}) into {first / self.folder}"]
        if self.archive:
            ways = [
                f"{self.archive} (from {self.url}, md5 {self.archive_md5}) into {first}",
                f"its files {', '.join(self.files)} into {first / self.folder}",
            ]
        if self.mirror:
            ways.append(f"{self.mirror.file} (by: {self.mirror.how}) into {first}")
        return "\n".join(
            [
                f"{self.name} was not found in {searched}" + " and could not be downloaded" * request.download + ".",
                *(["What was tried:", *(f"  {problem}" for problem in tried)] if tried else []),
                "Put " + ",\nor ".join(ways) + ".",
                *([] if request.download else ["Or allow the download."]),
            ]
        )


def members(path: Path, wanted: Mapping[str, str]) -> dict[str, bytes]:
    """Contents of the wanted members of a .tar.gz; nothing is written, nothing else is read.

    Args:
        path: of the archive.
        wanted: what members are called there -> what they are called in the answer.
    """
    contents: dict[str, bytes] = {}
    try:
        with opened_tar(path, MAX_ARCHIVE_BYTES) as archive:
            for member in archive:
                if member.name not in wanted:
                    continue
                file = archive.extractfile(member) if member.isreg() and member.size <= MAX_FILE_BYTES else None
                if file is None:
                    raise DataError(f"{path}: {member.name} is not a plain file of the expected size")
                contents[wanted[member.name]] = file.read()
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        raise DataError(f"{path}: not a readable archive ({error}); delete it and get it again") from error
    return contents


def _unpack(contents: Mapping[str, bytes], folder: Path) -> None:
    """Keep checked files for the next time. A folder that is there or cannot be written is left as it is."""
    if folder.exists():
        return
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
            draft = Path(made) / folder.name
            draft.mkdir()
            for name, content in contents.items():
                (draft / name).write_bytes(content)
            draft.rename(folder)
    except OSError:
        return

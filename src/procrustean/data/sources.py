"""Find and load the images a user names: a known data set, a .npz file, a table, a folder or one of Hugging Face."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from procrustean.base.errors import ConfigError, DataError, suggestion
from procrustean.base.paths import expanded
from procrustean.data.sets.base import Request, silent
from procrustean.data.sets.table import DATA_SETS, all_sets, known

if TYPE_CHECKING:
    from procrustean.data.image_lists import FileListing
    from procrustean.data.imageset import Splits

PATHS = {
    "FILE.npz": "arrays train_images, train_labels and, if there are, test_*, val_* and classes",
    "FOLDER": "image files as FOLDER/class/image or FOLDER/{train,val,test}/class/image",
    "TABLE": "FILE.csv, FILE.tsv or FILE.parquet with columns path and label, perhaps split",
    "HF DATASET": "folder that `save_to_disk` of Hugging Face datasets has written",
}

#: Suffixes of tables; `procrustean.data.tables` reads them.
TABLES = (".csv", ".tsv", ".parquet")


def describe_sources() -> dict[str, str]:
    """What `load_source` accepts, each with one line of help."""
    return {**{found.name: found.about + found.how for found in all_sets()}, **PATHS}


def source_hint(source: str) -> str:
    """The data sets whose names are near to one that there is not, or all that a source can be."""
    return suggestion(source, DATA_SETS) or f"Known: {', '.join(describe_sources())}."


def is_named(source: str) -> bool:
    """Whether a source is a known data set rather than a path or arrays of the user's."""
    return source in DATA_SETS


def place_of(source: str) -> str | None:
    """Where the files of a user's source are, whatever the current folder; None for known data sets and arrays."""
    path = _reachable(source)
    return str(path.resolve()) if source and path.exists() and not is_named(source) else None


def load_source(
    source: str | os.PathLike[str],
    *,
    data_dir: Path | None = None,
    image_size: int | None = None,
    download: bool = True,
    data_seed: int = 0,
    on_bad_image: Literal["error", "skip"] = "error",
    say: Callable[[str], None] = silent,
) -> Splits:
    """Load the images that `source` names.

    Args:
        source: a name that `describe_sources` lists, or the path of a folder, a table or a .npz file. A known name
            stands for the data set even if a folder is called so: write ./digits for the folder.
        data_dir: where data sets are looked for first and downloaded to.
        image_size: side in pixels to which the images of a folder or table are resized, or at which a data set was
            prepared.
        download: whether a data set may be downloaded if it is not found.
        data_seed: which images are for what, where the data set leaves that open (tiered-imagenet).
        on_bad_image: whether files of a folder or table that are no complete images are refused or left out.
        say: called with one line of progress at a time.

    >>> load_source("digits").train.counts.tolist()
    [100, 100, 100, 100, 100, 100, 100, 100, 100, 100]
    """
    source = os.fspath(source)
    if not source:  # a path that is empty would be the current folder
        raise ConfigError("source = '' received; name a data set, or a folder, a table or a .npz file of your own")
    path = expanded(source)
    if is_files(source):
        return list_source(source, on_bad_image).load(image_size)
    if on_bad_image != "error" and (is_named(source) or path.suffix.lower() == ".npz" or path.exists()):
        raise ConfigError(f"on_bad_image is for image files; {source} is used as a whole or not at all")
    if is_named(source):
        splits = known(source).load(Request(data_dir, image_size, data_seed, download, say))
    else:
        splits = _array_file(source, path)
    height, width = splits.train.images.shape[1:3]
    if image_size is not None and not image_size == height == width:
        raise ConfigError(
            f"image_size is for image files; the images of {source} are {height}x{width}, got {image_size}"
        )
    return splits


def list_source(source: str, on_bad_image: Literal["error", "skip"] = "error") -> FileListing:
    """The images that a folder, a table or a saved data set names, not decoded."""
    try:
        return _listed(_reachable(source), on_bad_image)
    except OSError as error:
        raise _out_of_reach(f"{Path(error.filename or source).parent}: its files", error) from error


def _listed(path: Path, on_bad_image: Literal["error", "skip"]) -> FileListing:
    from procrustean.data.image_lists import FileListing

    bad, named = dict[str, str](), set[str]()
    if path.suffix.lower() in TABLES and not path.is_dir():
        from procrustean.data.tables import list_table

        files = list_table(path, bad, named, on_bad_image)
        return FileListing(path.stem, str(path), files, bad, on_bad_image, named)
    from procrustean.data.folders import list_folder
    from procrustean.data.huggingface_disk import is_hf_dataset, list_hf_dataset

    files = (list_hf_dataset if is_hf_dataset(path) else list_folder)(path, bad, named, on_bad_image)
    return FileListing(path.resolve().name, str(path), files, bad, on_bad_image, named)


def is_files(source: str) -> bool:
    """Whether a source is a folder, table or saved data set of image files."""
    path = _reachable(source)
    return bool(source) and not is_named(source) and (path.is_dir() or path.suffix.lower() in TABLES)


def has_validation(source: str, on_bad_image: Literal["error", "skip"] = "error") -> bool:
    """Whether a source has a validation split, told without reading an image; one that is not there has none."""
    if not source or is_named(source):
        return source in DATA_SETS and "val" in known(source).counts
    path = _reachable(source)
    if not path.exists():
        return False
    if is_files(source):
        return "val" in list_source(source, on_bad_image).named
    if path.suffix.lower() != ".npz":
        return False
    from procrustean.data.plain_npz import read_arrays

    return bool(read_arrays(path, only=("val_labels",)))


def _reachable(source: str) -> Path:
    """The path that a source stands for, whether anything is there or not; DataError where that cannot be told."""
    path = expanded(source)
    try:
        path.exists()
    except OSError as error:
        raise _out_of_reach(f"{source}: it", error) from error
    return path


def _out_of_reach(what: str, error: OSError) -> DataError:
    """For what the system does not let this program look at, such as the folder of another user."""
    return DataError(f"{what} cannot be looked at ({error.strerror or error}); change that, or name another place")


def _array_file(source: str, path: Path) -> Splits:
    if path.suffix.lower() == ".npz":
        from procrustean.data.npz import load_npz

        return load_npz(path)
    if path.exists():
        kinds = "neither an image folder nor a table (.csv, .tsv, .parquet) nor a .npz file"
        raise DataError(f"{source}: {kinds}; unpack archives first")
    if os.sep in source or "/" in source:
        raise DataError(f"{source}: there is no such file or folder")
    raise ConfigError(f"unknown source {source!r}, and no such folder. {source_hint(source)}")

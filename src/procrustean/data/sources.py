"""Find and load the images a user names: a known data set, a .npz file, a table, a folder or one of Hugging Face."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from procrustean.base.errors import ConfigError, DataError, suggestion
from procrustean.base.files import expanded
from procrustean.data.fold_splits import in_fold
from procrustean.data.npz import load_npz, npz_counts, read_arrays
from procrustean.data.set_aside import shares_for_test
from procrustean.data.sets.data_set import Request, silent
from procrustean.data.sets.data_set_table import DATA_SETS, all_sets, known

if TYPE_CHECKING:
    from procrustean.data.image_lists import FileListing, Found, OnBadImage
    from procrustean.data.imageset import Splits

PATHS = {
    "FILE.npz": "arrays train_images, train_labels and, if there are, test_*, val_* and classes",
    "FOLDER": "image files as FOLDER/class/image or FOLDER/{train,val,test}/class/image, or named in FOLDER/labels.csv",
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
    path = _path(source)
    return str(path.resolve()) if source and path.exists() and not is_named(source) else None


def load_source(
    source: str | os.PathLike[str],
    *,
    data_dir: Path | None = None,
    image_size: int | None = None,
    download: bool = True,
    data_seed: int = 0,
    on_bad_image: OnBadImage = "error",
    group: str | None = None,
    fold: str | None = None,
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
        group: what images that belong together have in common: a column of a table, a regular expression on the path,
            or "parent", the folder they are in. No split is made through a group.
        fold: "2/5" to test on the second of five parts of the training images, "all" to train on all images.
        say: called with one line of progress at a time.

    >>> load_source("digits").train.counts.tolist()
    [100, 100, 100, 100, 100, 100, 100, 100, 100, 100]
    """
    if fold is not None:
        if is_named(os.fspath(source)):
            raise ConfigError(f"fold = {fold!r} received; {source} has test images of its own, by which it is known")
        whole = load_source(source, image_size=image_size, on_bad_image=on_bad_image, group=group, say=say)
        return in_fold(whole, fold)
    source = os.fspath(source)
    if not source:  # a path that is empty would be the current folder
        raise ConfigError("source = '' received; name a data set, or a folder, a table or a .npz file of your own")
    if is_files(source):
        return list_source(source, on_bad_image, group).load(image_size)
    if group is not None:
        raise ConfigError(f"group = {group!r} received; it is for image files, and {source} has none")
    if on_bad_image != "error" and (is_named(source) or _is_npz(source) or _path(source).exists()):
        raise ConfigError(f"on_bad_image is for image files; {source} is used as a whole or not at all")
    if is_named(source):
        splits = known(source).load(Request(data_dir, image_size, data_seed, download, say))
    else:
        splits = _array_file(source)
    height, width = splits.train.images.shape[1:3]
    if image_size is not None and not image_size == height == width:
        raise ConfigError(
            f"image_size is for image files; the images of {source} are {height}x{width}, got {image_size}"
        )
    return splits


def list_source(source: str, on_bad_image: OnBadImage = "error", group: str | None = None) -> FileListing:
    """The images that a folder, a table or a saved data set names, not decoded, perhaps with what belongs together."""
    from procrustean.data.folders import LAYOUT, labels_of, list_folder, list_labelled
    from procrustean.data.image_groups import by_column, grouped_by_path, names_groups
    from procrustean.data.image_lists import FileListing, check_classes, refuse
    from procrustean.data.tables import is_hf_dataset, list_hf_dataset, list_table, read_columns

    path = _path(source)
    is_table = path.suffix.lower() in TABLES and not path.is_dir()
    where, hint = str(path), "add some"
    try:
        table = path if is_table else labels_of(path)
        lister: Callable[[Path, str | None], Found] = list_table if is_table else list_labelled
        if table is None:
            lister, hint = (list_hf_dataset, hint) if is_hf_dataset(path) else (list_folder, LAYOUT)
        found = lister(path, group)
        columns = () if table is None else read_columns(table).names
        likely = None
        for column in filter(names_groups, columns if group is None else ()):
            likely = likely or by_column(column, {file.name: file.group for file in lister(path, column).files})
        files = found.files
        if group is not None and not any(file.group for file in files):
            files = grouped_by_path(files, group, path.parent if is_table else path, columns)
    except OSError as error:
        raise _out_of_reach(source, error) from error
    if on_bad_image == "error":
        if len({file.label for file in files}) < 2:  # what is wrong with the others may say why
            refuse(found.bad, where)
        check_classes(files, where, hint)
    name = path.stem if is_table else path.resolve().name
    return FileListing(name, where, files, found.bad, on_bad_image, found.named, columns, likely)


def is_files(source: str) -> bool:
    """Whether a source is a folder, table or saved data set of image files."""
    path = _path(source)
    return bool(source) and not is_named(source) and (path.is_dir() or path.suffix.lower() in TABLES)


def has_validation(source: str, on_bad_image: OnBadImage = "error", group: str | None = None) -> bool:
    """Whether a source has a validation split, told without reading an image; one that is not there has none."""
    if not source or is_named(source):
        return source in DATA_SETS and "val" in known(source).counts
    if not _path(source).exists():
        return False
    if is_files(source):
        return "val" in list_source(source, on_bad_image, group).named
    return _is_npz(source) and "val_labels" in read_arrays(_path(source), only=("val_labels",))


def label_counts(source: str, on_bad_image: OnBadImage = "error", group: str | None = None) -> Mapping[str, int] | None:
    """Training images by class of a folder, a table or an .npz file, without those that are set aside for tests.

    None for other sources, and for what cannot be read, which is said when it is loaded. No image is read:
    near-duplicates, which stay together, and files that turn out to be no images may change a count a little.
    """
    place = place_of(source)
    return None if place is None else _label_counts(place, on_bad_image, group, Path(place).stat().st_mtime_ns)


@lru_cache(maxsize=16)  # the runs of a plan ask for the same sources again and again
def _label_counts(place: str, on_bad_image: OnBadImage, group: str | None, changed: int) -> Mapping[str, int] | None:
    try:
        if _is_npz(place):
            counts, tested = npz_counts(Path(place))
        else:
            files = list_source(place, on_bad_image, group).files
            counts = Counter(file.label for file in files if file.split == "train")
            tested = any(file.split == "test" for file in files)
    except Exception:  # of damaged files nearly anything; loading them names it
        return None
    for_test = np.zeros(len(counts), int) if tested else shares_for_test(np.array([*counts.values()]))
    return {name: count - int(given) for (name, count), given in zip(counts.items(), for_test, strict=True)}


def _path(source: str) -> Path:
    """The path that a source stands for; DataError where the system does not let this program look at it."""
    path = expanded(source)
    try:
        path.exists()
    except OSError as error:
        raise _out_of_reach(source, error) from error
    return path


def _out_of_reach(source: str, error: OSError) -> DataError:
    return DataError(f"{source}: {error.filename or 'it'} cannot be looked at ({error.strerror or error})")


def _is_npz(source: str) -> bool:
    return source.lower().endswith(".npz")


def _array_file(source: str) -> Splits:
    path = expanded(source)
    if _is_npz(source):
        return load_npz(path)
    if path.exists():
        kinds = "neither an image folder nor a table (.csv, .tsv, .parquet) nor a .npz file"
        raise DataError(f"{source}: {kinds}; unpack archives first")
    if os.sep in source:
        raise DataError(f"{source}: there is no such file or folder")
    raise ConfigError(f"unknown source {source!r}, and no such folder. {source_hint(source)}")

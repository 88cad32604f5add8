"""Images of a Hugging Face data set that was saved with `save_to_disk`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from procrustean.base.errors import DataError
from procrustean.base.memory import free_memory
from procrustean.base.optional_libraries import installing
from procrustean.data.image_files import ImageFile, Problems
from procrustean.data.image_lists import OnBadImage, split_name
from procrustean.data.table_columns import SHARE
from procrustean.data.tables import check_rows, needed_columns, rows_as_files

MARKS = ("dataset_dict.json", "dataset_info.json")


def is_hf_dataset(folder: Path) -> bool:
    """Whether a folder was written by `save_to_disk`."""
    return any((folder / mark).is_file() for mark in MARKS)


def list_hf_dataset(
    folder: Path, bad: Problems, named: set[str], on_bad_image: OnBadImage = "error"
) -> list[ImageFile]:
    """The images of a saved `Dataset` or `DatasetDict`; rows without an image or a label go to `bad`.

    All splits are added to `named`, whatever is in them.

    Classes without training images are refused, unless what cannot be used is to be left out.
    """
    parts = _parts(folder)
    files: list[ImageFile] = []
    for name, part in parts.items():
        where = f"{folder}, {name} split" if name else str(folder)
        found: Problems = {}
        sides: set[str] = set()
        columns, classes = _columns(part, where)
        numbers = range(1, 1 + len(part))
        rows = rows_as_files(
            columns, numbers, where=where, folder=folder, bad=found, named=sides, classes=classes, check=False
        )
        side = split_name(name, str(folder)) if name else ""
        named.update({side} if side else sides)
        prefix = f"{name} " if name else ""
        files += [ImageFile(prefix + row.name, row.content, side or row.split, row.label) for row in rows]
        bad.update({prefix + row: problem for row, problem in found.items()})
    if on_bad_image == "error":
        check_rows(files, bad, str(folder))
    return files


def _parts(folder: Path) -> dict[str, Any]:
    """Split name -> data set; a data set without splits is called ""."""
    try:
        import datasets
    except ImportError as error:
        raise DataError(
            f"{folder}: a Hugging Face data set needs datasets ({error}); install it {installing('tables')}"
        ) from error
    try:
        loaded = datasets.load_from_disk(str(folder))
    except Exception as error:  # a damaged folder can raise nearly anything
        raise DataError(f"{folder}: not a readable data set of save_to_disk ({error})") from error
    return dict(loaded) if isinstance(loaded, datasets.DatasetDict) else {"": loaded}


def _check(part: Any, where: str) -> None:
    """DataError for arrays that point outside of their file, which would be read as they are, or fill the memory."""
    try:
        part.data.validate(full=True)
    except Exception as error:  # a damaged file can raise nearly anything
        raise DataError(f"{where}: damaged ({error}); save it again") from error
    if (taken := part.data.nbytes) > (most := free_memory() // SHARE):
        raise DataError(
            f"{where}: its images take {taken / 1e9:.3g} GB, and {most / 1e9:.3g} GB, a third of the memory that is "
            "free, are the most that is read; save the images in a folder, or fewer of them"
        )


def _columns(part: Any, where: str) -> tuple[dict[str, Any], list[str] | None]:
    """The columns that are needed as plain values, images undecoded; and the class names, where labels are numbers."""
    import datasets

    image, label, *_ = needed = needed_columns(part.column_names, where)
    part = part.select_columns(needed)
    _check(part, where)
    if isinstance(part.features[image], datasets.Image):
        part = part.cast_column(image, datasets.Image(decode=False))
    feature = part.features[label]
    classes = list(feature.names) if isinstance(feature, datasets.ClassLabel) else None
    try:
        return {column: part[column][:] for column in needed}, classes
    except Exception as error:  # a damaged file can raise nearly anything
        raise DataError(f"{where}: its rows cannot be read ({error})") from error

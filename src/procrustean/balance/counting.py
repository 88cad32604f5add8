"""Training images per class, from whatever holds the labels."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
)

from procrustean.balance.count_facts import checked_counts
from procrustean.base.errors import DataError, did_you_mean

#: Names under which labels are looked for in batches, columns and attributes, in this order.
LABEL_NAMES = ("label", "labels", "target", "targets", "y", "class")

#: A label from here on numbers something else, files or products: counting up to it would take all memory.
NO_CLASS = 1_000_000

#: A whole number as files write it; tables with gaps make 3.0 of 3.
_WHOLE = re.compile(r"([+-]?\d+)(\.0*)?")

Labels = npt.NDArray[Any]


def class_counts(
    data: Any, column: str | int | None = None, *, classes: int | Sequence[Any] | None = None
) -> tuple[int, ...]:
    """Training images per class, index = label: what MFW, DRW and the losses are made from.

    Args:
        data: labels as a tensor, an array or a list; a Dataset with `.targets` or `.labels` (also a Subset of one), or
            one whose items are (image, label), which are all loaded; a DataLoader, whose data are counted, not what its
            sampler draws; a Hugging Face or pandas data set; the path of a CSV file with a header.
        column: where the labels stand in a table, under which key in items that are mappings, or at which position in
            items that are tuples; found by itself if there is a column called label, labels, target, targets, y or
            class, and second in tuples.
        classes: number of classes, or their names in the order of the labels; an error where one of them has no images
            in `data`, which the methods that these counts are for cannot work with. Without it, the classes are those
            that are found, names in alphabetical order.

    >>> class_counts([0, 0, 0, 1, 1, 2])
    (3, 2, 1)
    >>> class_counts(["dog", "cat", "dog"], classes=("dog", "cat"))
    (2, 1)
    """
    if isinstance(classes, Set | Mapping):  # whose order need not be that of the labels
        raise DataError(
            f"classes of type {type(classes).__name__} received; give a list of their names in the order of the labels"
        )
    if isinstance(classes, Iterable) and not isinstance(classes, Sequence):  # an array of names
        classes = list(classes)
    known = _own_names(data, column) if classes is None else classes
    labels = _flat(labels_of(data, column))
    _check_none_missing(labels)
    if labels.dtype.kind in "OUS":
        texts = [_text(label) for label in labels]
        numbers = [] if isinstance(known, Sequence) else [_WHOLE.fullmatch(text) for text in texts]
        if not numbers or None in numbers:
            return _by_name(texts, known)
        # Numbers in a CSV file: as names they would be sorted by their first digit, and -1 would be a class.
        labels = np.array([int(number[1]) for number in numbers if number])
    return _by_number(labels, known)


def labels_of(data: Any, column: str | int | None = None) -> Any:
    """The label of every image in `data`, in its order; see `class_counts` for what it may be."""
    if isinstance(data, str | os.PathLike):
        return _csv_column(Path(data), column)
    if isinstance(data, DataLoader):
        # Of the data behind it: a sampler that shows small classes more often must not make them large.
        labels = labels_of(data.dataset, column)
        # A loader that was given batches keeps no sampler of its own: theirs says what is drawn.
        sampler = getattr(data.batch_sampler, "sampler", data.sampler)
        if isinstance(sampler, SubsetRandomSampler):
            return _flat(labels)[np.asarray(sampler.indices, dtype=np.int64)]
        return labels
    if isinstance(data, Subset):
        return _flat(labels_of(data.dataset, column))[np.asarray(data.indices, dtype=np.int64)]
    if isinstance(data, ConcatDataset):
        return np.concatenate([_flat(labels_of(part, column)) for part in data.datasets])
    if isinstance(data, TensorDataset):
        # The second, as of any item; labels alone are one tensor.
        return data.tensors[_position(column, len(data.tensors), default=min(1, len(data.tensors) - 1))]
    table = _columns_of(data)
    if table is not None:
        return data[_chosen(column, table, type(data).__name__)]
    for name in ("targets", "labels") if column is None else (column,):
        if isinstance(name, str) and hasattr(data, name) and not callable(getattr(data, name)):
            return _as_the_items_have_them(getattr(data, name), data, name)
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        return [label_of(data[index], column) for index in range(len(data))]  # type: ignore[arg-type]
    if isinstance(data, Tensor | np.ndarray) or hasattr(data, "__array__"):
        return data
    if isinstance(data, Iterable) and not isinstance(data, Mapping):
        return [label_of(item, column) if isinstance(item, tuple | Mapping) else item for item in data]
    raise DataError(
        f"labels cannot be found in a {type(data).__name__}; give the labels themselves, a Dataset, a DataLoader, a "
        "table or the path of a CSV file"
    )


def _as_the_items_have_them(labels: Any, data: Any, name: str) -> Any:
    """The labels that an attribute of a data set holds, changed as its items are by its `target_transform`."""
    if hasattr(data, "__len__") and hasattr(labels, "__len__") and len(labels) != len(data):
        raise DataError(
            f"a {type(data).__name__} of {len(data)} items received, whose .{name} has {len(labels)} entries: not the "
            "labels of its items. Give the labels themselves, class_counts([label for _, label in data])"
        )
    change = getattr(data, "target_transform", None)  # of the data sets of torchvision
    return [change(label) for label in labels] if callable(change) else labels


def label_of(item: Any, column: str | int | None = None) -> Any:
    """The label of an item, or the labels of a batch: second of a pair, or under a key of a mapping."""
    if isinstance(item, Mapping):
        return item[_chosen(column, list(item), "an item")]
    if isinstance(item, tuple | list) and len(item) >= 2:
        return item[_position(column, len(item), default=1)]
    raise DataError(
        f"items of type {type(item).__name__} received, whose label cannot be told; items have to be (image, label) "
        "or mappings. Otherwise give the labels themselves"
    )


def _position(column: str | int | None, parts: int, *, default: int) -> int:
    """Which part of an item is the label."""
    if column is None:
        return default
    if isinstance(column, str) or not -parts <= column < parts:
        raise DataError(
            f"column {column!r} received, but items have {parts} parts without names; give the position of the label, "
            f"0 to {parts - 1}"
        )
    return column


def _columns_of(data: Any) -> list[str] | None:
    """Names of the columns of a table: those of Hugging Face and pandas are known by their attributes."""
    names = getattr(data, "column_names", None)
    if names is None and hasattr(data, "iloc") and hasattr(data, "columns"):
        names = list(data.columns)
    if isinstance(names, Mapping):
        raise DataError(f"a set of splits received ({', '.join(names)}); give one of them, for example data['train']")
    return None if names is None else [str(name) for name in names]


def _chosen(column: str | int | None, columns: Sequence[str], where: str) -> str:
    if column is None:
        found = [name for name in LABEL_NAMES if name in columns]
        if not found:
            raise DataError(f"{where} has the columns {', '.join(columns)}; say which holds the labels: column=...")
        return found[0]
    if isinstance(column, int) or column not in columns:
        raise DataError(f"{where} has no column {column!r}. {did_you_mean(str(column), columns)}")
    return column


def _own_names(data: Any, column: str | int | None) -> Sequence[Any] | None:
    """The class names a data set carries, in the order of its labels."""
    features = getattr(data, "features", None)
    if isinstance(features, Mapping):
        names = getattr(features[_chosen(column, list(features), "the data set")], "names", None)
        return list(names) if names else None
    while isinstance(data, Subset | DataLoader):
        data = data.dataset
    names = getattr(data, "classes", None)
    return names if isinstance(names, list | tuple) and names else None


def _csv_column(path: Path, column: str | int | None) -> list[str]:
    if path.is_dir():
        raise DataError(
            f"{path} is a folder; give the Dataset that its images are read with, such as "
            "torchvision.datasets.ImageFolder(path)"
        )
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            name = _chosen(column, rows.fieldnames or (), str(path))
            labels = []
            for row in rows:
                if not (row[name] or "").strip():  # None where the row is too short
                    raise DataError(
                        f"line {rows.line_num} of {path} has no label in column {name!r}; fill it in, or leave the "
                        "row out"
                    )
                labels.append(row[name])
            return labels
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read labels from {path} ({error}); it has to be a CSV file with a header") from error


def _flat(labels: Any) -> Labels:
    if isinstance(labels, Iterable) and not hasattr(labels, "__len__"):
        labels = list(labels)  # the column of a stream
    try:
        values = labels.cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    except (TypeError, ValueError):  # members of different lengths
        raise DataError(
            f"a {type(labels).__name__} received whose members are not all single labels; give one class for every "
            "image, or items of (image, label) as tuples"
        ) from None
    if values.ndim == 0:
        values = values[None]
    if values.ndim != 1 or not len(values):
        raise DataError(
            f"labels of shape {values.shape} received; give one class for every image: of batches "
            "torch.cat([labels for _, labels in data]), of one-hot labels labels.argmax(1)"
        )
    return values


def _check_none_missing(labels: Labels) -> None:
    """Written as text, a label that is not there would be one more class."""
    if labels.dtype.kind in "OUSf":
        for index, label in enumerate(labels.tolist()):
            if _is_missing(label):
                raise DataError(
                    f"item {index}, counted from 0, has no label ({label!r} received); leave out what has no class "
                    "before counting"
                )


def _text(label: Any) -> str:
    return (str(label, "utf-8", "replace") if isinstance(label, bytes) else str(label)).strip()


def _is_missing(label: Any) -> bool:
    if label is None or isinstance(label, str | bytes):
        return not (label or "").strip()
    try:
        return bool(label != label)
    except TypeError:  # pandas' missing value refuses to be compared
        return True


def _by_name(labels: list[str], classes: int | Sequence[Any] | None) -> tuple[int, ...]:
    found = Counter(labels)
    if isinstance(classes, Sequence):
        known = [str(name) for name in classes]
        twice = [name for name, times in Counter(known).items() if times > 1]
        if twice:
            raise DataError(f"the class {twice[0]!r} is named more than once in classes; name each of them once")
    else:
        known = sorted(found)
        if classes is not None and classes != len(known):
            raise DataError(
                f"{len(known)} class names received for {classes} classes; give classes=(name, name, ...) in the order "
                "of the labels"
            )
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise DataError(f"labels {', '.join(map(repr, unknown[:5]))} are not among the classes {', '.join(known[:20])}")
    return _all_with_images([found[name] for name in known], known)


def _by_number(labels: Labels, classes: int | Sequence[Any] | None) -> tuple[int, ...]:
    if labels.dtype.kind not in "iub":
        raise DataError(f"labels of type {labels.dtype} received; give class indices or names, one for every image")
    total = len(classes) if isinstance(classes, Sequence) else classes
    numbers = labels.astype(np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if low < 0 or (total is not None and high >= total):
        raise DataError(
            f"labels from {low} to {high} received for {'any number of' if total is None else total} classes; "
            "they have to count from 0. Leave out samples without a class before counting"
        )
    if total is None and high >= max(NO_CLASS, len(numbers)):
        raise DataError(
            f"labels up to {high} received for {len(numbers)} images, so that they are no class indices; number the "
            "classes from 0, or give the labels as texts with classes=(name, name, ...)"
        )
    counts = np.bincount(numbers, minlength=total or 0).tolist()
    return _all_with_images(counts, classes if isinstance(classes, Sequence) else ())


def _all_with_images(counts: list[int], names: Sequence[Any]) -> tuple[int, ...]:
    """The counts, or a DataError for classes without images: the methods divide by them and draw from them."""
    empty = [index for index, count in enumerate(counts) if not count]
    if not empty:
        return checked_counts(counts)
    named = f", {', '.join(repr(names[index]) for index in empty[:5])}," if names else ""
    more = f" and {len(empty) - 20} more" if len(empty) > 20 else ""
    raise DataError(
        f"classes {empty[:20]}{more}{named} have no images among the {sum(counts)} labels, and the methods need some "
        "of every class; count the whole training set if this is a part of it, otherwise number the labels anew "
        "without these classes"
    )

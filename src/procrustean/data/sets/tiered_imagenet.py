"""Step Tiered-ImageNet: 608 classes of ImageNet in three groups (Ren et al. 2018), drawn as the MFW paper does.

Ye, Zhan, Chao (2021), supplement: the 351 classes for training are major, with all their images; the 97 classes for
validation (to tune on) or the 160 for testing (to report) are minor, with 5 images each; every class has 3 validation
and 50 test images. Which images these are is not published: here a seed decides, the same for both sets.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import DataError
from procrustean.data import restricted_pickle
from procrustean.data.imageset import Splits, positions_by_class
from procrustean.data.recipe import STANDARD
from procrustean.data.sets.data_set import published_list
from procrustean.data.sets.prepared_files import Prepared
from procrustean.data.stores.listing import FilePart, Listing, Part, Tree, counted
from procrustean.data.stores.store import Store

if TYPE_CHECKING:
    from procrustean.data.image_files import Problems


def packed_part(source: Path, split: str) -> tuple[Part, list[str]]:
    """Images and labels (from 0) of one group, and the names of its classes."""
    labels_path = source / f"{split}_labels.pkl"
    loaded = restricted_pickle.load_file(labels_path)
    labels, names = _labels(loaded, labels_path, split)
    images: Sequence[Any]
    if (place := source / f"{split}_images.npz").is_file():
        images = StoredArray(place)
    elif (place := source / f"{split}_images_png.pkl").is_file():
        images = _encoded(place)
    else:
        raise DataError(f"{source}: neither {split}_images.npz nor {split}_images_png.pkl beside {labels_path.name}")
    if len(images) != len(labels):
        raise DataError(
            f"{source}: {len(images)} images but {len(labels)} labels of {split}; the files do not belong together"
        )
    return Part(place, images, labels), names


def _labels(loaded: Any, path: Path, split: str) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Labels from 0 on and class names, from the dict of either publisher."""
    known = ("label_specific", "labels")
    key = next((key for key in known if isinstance(loaded, dict) and key in loaded), None)
    if key is None:
        raise DataError(f"{path}: no {' or '.join(known)} in it; these are not the labels of Tiered-ImageNet")
    values = np.asarray(loaded[key])
    if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) == 0:
        raise DataError(f"{path}: {key} must be a list of whole numbers, got {values.dtype} of shape {values.shape}")
    found, labels = np.unique(values, return_inverse=True)
    names = loaded.get("label_specific_str")
    if isinstance(names, list) and len(set(names)) == len(names) > int(found.max()) and int(found.min()) >= 0:
        return labels.astype(np.int64), [f"{split}: {names[int(value)]}" for value in found]
    return labels.astype(np.int64), [f"{split}: {int(value)}" for value in found]


class StoredArray(Sequence[Any]):
    """Rows of the array `images` of an .npz file, read without loading all of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            archive = zipfile.ZipFile(path)
            member = archive.open("images.npy")
            version = np.lib.format.read_magic(member)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = header(member)
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise DataError(f"{path}: no readable array `images` in it ({error}); get the file again") from error
        if len(shape) != 4 or shape[3] != 3 or dtype != np.uint8 or fortran:
            raise DataError(f"{path}: images must be uint8 [N, height, width, 3], got {dtype} {shape}")
        self._shape: tuple[int, ...] = shape
        self._member, self._begin = member, member.tell()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._shape[0]

    def __getitem__(self, rows: Any) -> Any:
        start, stop, _ = rows.indices(len(self))
        size = int(np.prod(self._shape[1:]))
        with self._lock:
            self._member.seek(self._begin + start * size)
            data = self._member.read((stop - start) * size)
        if len(data) < (stop - start) * size:
            raise DataError(f"{self.path}: ends before image {stop - 1}; get the file again")
        return list(np.frombuffer(data, np.uint8).reshape(-1, *self._shape[1:]))


def _encoded(path: Path) -> list[bytes]:
    """A pickled list of encoded (PNG) images; all of it is in memory."""
    loaded = restricted_pickle.load_file(path)
    if not isinstance(loaded, list) or not all(isinstance(item, np.ndarray | bytes) for item in loaded):
        raise DataError(f"{path}: not a list of encoded images; these are not the files of Tiered-ImageNet")
    for row, item in enumerate(loaded):  # in place: two copies of all might be too many
        loaded[row] = bytes(item)
    return loaded


SPLITS = ("train", "val", "test")
MINOR_IMAGES, VAL_IMAGES, TEST_IMAGES = 5, 3, 50
Indices = npt.NDArray[np.int64]


def read(source: Path, lists: Path | None) -> Listing:
    """The images of all three groups of classes; classes in the order of the published lists.

    Args:
        source: one of
            - ImageNet's training set, or its root: a folder per class, called by its WordNet number;
            - a folder with train, val and test, each with the folders of its classes;
            - the few-shot files train_images.npz (or train_images_png.pkl) and train_labels.pkl, and those of val and
              test.
        lists: not used, the package carries the published split lists.
    """
    if lists is not None:
        raise DataError("the split lists of Tiered-ImageNet are part of this package; leave --lists out")
    packed = [split for split in SPLITS if (source / f"{split}_labels.pkl").is_file()]
    if packed:
        missing = [f"{split}_labels.pkl" for split in SPLITS if split not in packed]
        if missing:
            raise DataError(f"{source}: {' and '.join(missing)} missing; all three groups of classes are needed")
        return _packed(source)
    return _folders(source)


def _folders(source: Path) -> Listing:
    tree = Tree(source)
    problems: Problems = {}
    classes: list[str] = []
    parts: dict[str, Part] = {}
    listed = {}
    for split in SPLITS:
        paths: list[str] = []
        labels: list[int] = []
        for name in tiered_classes(split):
            folder = _class_folder(source, split, name)
            for file in sorted(tree.files(folder)):
                paths.append(f"{folder}/{file}")
                labels.append(len(classes))
            if not tree.files(folder):
                problems[folder] = "no image in it"
            classes.append(name)
        parts[split] = FilePart(source, paths, np.asarray(labels, np.int64))
        listed[split] = np.asarray(labels, np.int64)
    if not any(len(part.labels) for part in parts.values()):
        raise DataError(
            f"{source}: neither class folders such as {classes[0]} nor files such as train_labels.pkl; "
            "name the folder that holds them with --source"
        )
    counts = {split: counted(labels, len(classes)) for split, labels in listed.items()}
    return Listing(tuple(classes), parts, counts, problems)


def _class_folder(source: Path, split: str, name: str) -> str:
    for folder in (f"{split}/{name}", name):
        if (source / folder).exists():
            return folder
    return f"train/{name}"


def _packed(source: Path) -> Listing:
    classes: list[str] = []
    parts = {}
    for split in SPLITS:
        part, names = packed_part(source, split)
        part.labels += len(classes)
        parts[split] = part
        classes += names
    counts = {split: counted(part.labels, len(classes)) for split, part in parts.items()}
    return Listing(tuple(classes), parts, counts)


@cache
def tiered_classes(split: str) -> tuple[str, ...]:
    """WordNet numbers of the classes of a group, in the published order.

    >>> len(tiered_classes("val"))
    97
    """
    lines = published_list(f"tieredImageNet_{split}.csv").splitlines()
    return tuple(line.partition(",")[0] for line in lines if line)


def step_tiered(minor_group: str, store: Store, seed: int) -> Splits:
    """The training, validation and test images, with a note on how they were drawn.

    Args:
        minor_group: "test" for the set that results are reported on, "val" for the one to tune on.
        store: of Tiered-ImageNet, whose splits are its groups of classes.
        seed: which images of a class are for what.
    """
    parts: dict[str, list[Indices]] = {"test": [], "val": [], "train": []}
    labels: dict[str, list[Indices]] = {"test": [], "val": [], "train": []}
    classes: list[str] = []
    groups = {group: set(np.unique(store.labels[store.rows(group)]).tolist()) for group in ("train", minor_group)}
    by_class = positions_by_class(store.labels, len(store.classes))
    random = np.random.RandomState(seed)
    for label, name in enumerate(store.classes):
        # Every class draws, used or not: the major classes have the same images in both sets.
        rows = by_class[label].copy()
        random.shuffle(rows)
        if not any(label in members for members in groups.values()):
            continue
        minor = label not in groups["train"]
        needed = TEST_IMAGES + VAL_IMAGES + (MINOR_IMAGES if minor else 1)
        if len(rows) < needed:
            raise DataError(
                f"class {name} of Tiered-ImageNet has {len(rows)} images, {needed} are needed for training, "
                "validation and test; prepare the complete data set"
            )
        rest = rows[TEST_IMAGES + VAL_IMAGES :]
        drawn = {
            "test": rows[:TEST_IMAGES],
            "val": rows[TEST_IMAGES : TEST_IMAGES + VAL_IMAGES],
            "train": rest[:MINOR_IMAGES] if minor else rest,
        }
        for split, chosen in drawn.items():
            parts[split].append(np.sort(chosen))
            labels[split].append(np.full(len(chosen), len(classes)))
        classes.append(name)
    sets = {
        split: store.image_set(np.concatenate(parts[split]), np.concatenate(labels[split]), tuple(classes))
        for split in parts
    }
    major = len(groups["train"])
    note = (
        f"{major} major classes and {len(classes) - major} minor ones of {MINOR_IMAGES} training images; "
        f"{VAL_IMAGES} validation and {TEST_IMAGES} test images per class, drawn with data seed {seed}"
    )
    return Splits("", sets["train"], sets["test"], sets["val"], note)


#: Supplement. Not told: the weight decay and the normalisation (here those of Lee et al., whose code the paper adapts).
RECIPE = STANDARD.named(
    "tiered-imagenet",
    net="resnet12",
    epochs=180,
    batch_size=512,
    lr=0.2,
    weight_decay=5e-4,
    warmup_epochs=0,
    padding=8,
    mean=(0.4721, 0.4533, 0.4100),
    std=(0.2772, 0.2678, 0.2845),
)

TIERED_IMAGENET = Prepared(
    name="tiered-imagenet",
    title="Tiered-ImageNet",
    about="Step Tiered-ImageNet of the MFW paper, 84x84, 351 large and 160 small classes",
    recipe=RECIPE,
    in_paper=True,
    counts={"val": (VAL_IMAGES,) * 511, "test": (TEST_IMAGES,) * 511},
    totals={"train": 430_892},
    groups={"train": 448_695, "val": 124_261, "test": 206_209},
    draw=partial(step_tiered, "test"),
    read=read,
    size=84,
    resize="stretch",
    obtain=(
        "Name the training set of ImageNet (ILSVRC 2012, from https://image-net.org after registration), a "
        "folder per class such as n01530575; the split lists are part of this package. Or name a folder with "
        "the few-shot files train_images.npz (or train_images_png.pkl) and train_labels.pkl, and those of val "
        "and test, linked from https://github.com/renmengye/few-shot-ssl-public and "
        "https://github.com/kjunelee/MetaOptNet."
    ),
)

TUNING = replace(
    TIERED_IMAGENET,
    name="tiered-imagenet-tuning",
    about="the same with 97 other small classes, to tune on",
    counts={"val": (VAL_IMAGES,) * 448, "test": (TEST_IMAGES,) * 448},
    totals={"train": 430_577},
    draw=partial(step_tiered, "val"),
    tuning_of="tiered-imagenet",
)

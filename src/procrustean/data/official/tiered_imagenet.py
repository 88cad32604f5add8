"""Tiered-ImageNet (Ren et al. 2018): 608 classes of ImageNet in three groups, as class folders or in packed files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from procrustean.base.errors import DataError
from procrustean.data.official.listing import FileSources, Listing, Part, Problem, Tree, counted
from procrustean.data.official.published_counts import tiered_classes
from procrustean.data.official.tiered_packed import packed_part

SPLITS = ("train", "val", "test")
OF_CLASS = re.compile(r"(n\d{8})_\w+\.\w+")


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
    tree, problems = Tree(source), list[Problem]()
    classes: list[str] = []
    parts, listed = {}, {}
    for split in SPLITS:
        paths: list[str] = []
        labels: list[int] = []
        for name in tiered_classes(split):
            folder = _class_folder(source, split, name)
            for file in sorted(tree.files(folder)):
                stated = OF_CLASS.fullmatch(file)
                if stated and stated[1] != name:
                    problems.append(Problem("wrong label", f"{folder}/{file}", f"an image of class {stated[1]}"))
                    continue
                paths.append(f"{folder}/{file}")
                labels.append(len(classes))
            if not tree.files(folder):
                problems.extend(tree.lack_all(folder))
            classes.append(name)
        parts[split] = Part(FileSources(source, paths), np.asarray(labels, np.int64))
        listed[split] = np.asarray(labels, np.int64)
    if not any(len(part.labels) for part in parts.values()):
        raise DataError(
            f"{source}: neither class folders such as {classes[0]} nor files such as train_labels.pkl; "
            "name the folder that holds them with --source"
        )
    counts = {split: counted(labels, len(classes)) for split, labels in listed.items()}
    return Listing(tuple(classes), parts, counts, [*tree.unreadable(), *problems])


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
    return Listing(tuple(classes), parts, counts, [])

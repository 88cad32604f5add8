"""Tiny-ImageNet: 200 classes of 64 x 64 images, 500 for training and 50 for validation, which serve as the test set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from procrustean.base.errors import DataError
from procrustean.data.official.listing import FileSources, Listing, Part, Problem, Tree, counted
from procrustean.data.official.path_lists import read_text

FOLDER = "tiny-imagenet-200"
PER_CLASS = 500


def read(source: Path, lists: Path | None) -> Listing:
    """The images of the folder tiny-imagenet-200, which is `source` or in it. Classes and images are sorted by name."""
    if lists is not None:
        raise DataError(f"Tiny-ImageNet has its lists in {FOLDER}; leave --lists out")
    root = source / FOLDER if (source / FOLDER).is_dir() else source
    for name in ("wnids.txt", "val/val_annotations.txt"):
        if not (root / name).is_file():
            raise DataError(f"{root}: no {name}, so this is not {FOLDER}; name that folder with --source")
    problems: list[Problem] = []
    classes = tuple(sorted(_classes(root / "wnids.txt", problems)))
    tree = Tree(root)
    train = _training(tree, classes, problems)
    test = _validation(tree, root / "val" / "val_annotations.txt", classes, problems)
    parts, listed = {}, {}
    for split, (files, wanted) in {"train": train, "test": test}.items():
        parts[split] = Part(FileSources(root, [path for path, _ in files]), _labels(files))
        listed[split] = counted(wanted, len(classes))
    return Listing(classes, parts, listed, [*tree.unreadable(), *problems])


Files = list[tuple[str, int]]  # path and label


def _classes(path: Path, problems: list[Problem]) -> Iterator[str]:
    seen = set()
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip() in seen:
            problems.append(Problem("duplicate", f"{path.name}, line {number}: {line.strip()}"))
        elif line.strip():
            seen.add(line.strip())
            yield line.strip()


def _training(tree: Tree, classes: tuple[str, ...], problems: list[Problem]) -> tuple[Files, list[int]]:
    files: Files = []
    wanted: list[int] = []
    for label, name in enumerate(classes):
        folder = f"train/{name}/images"
        there = tree.files(folder)
        official = {f"{name}_{number}.JPEG" for number in range(PER_CLASS)}
        for file in sorted(there | official):
            path = f"{folder}/{file}"
            if file not in there:
                problems.extend(tree.lack(path))
            elif file not in official:
                problems.append(Problem("wrong label", path, f"no image of class {name} is called so"))
            else:
                files.append((path, label))
        wanted += [label] * PER_CLASS
    return files, wanted


def _validation(tree: Tree, path: Path, classes: tuple[str, ...], problems: list[Problem]) -> tuple[Files, list[int]]:
    label_of = {name: label for label, name in enumerate(classes)}
    files: Files = []
    wanted: list[int] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path.name}, line {number}"
        file, _, rest = line.partition("\t")
        name = rest.partition("\t")[0]
        if not name:
            problems.append(Problem("bad line", where, f"no file and class: {line[:80]!r}"))
        elif file in seen:
            problems.append(Problem("duplicate", f"{where}: {file}", f"also in line {seen[file]}"))
        elif name not in label_of:
            problems.append(Problem("wrong label", f"{where}: {file}", f"class {name} is not in wnids.txt"))
        else:
            wanted.append(label_of[name])
            if tree.has(f"val/images/{file}"):
                files.append((f"val/images/{file}", label_of[name]))
            else:
                problems.extend(tree.lack(f"val/images/{file}"))
        seen.setdefault(file, number)
    return files, wanted


def _labels(files: Files) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.fromiter((label for _, label in files), np.int64, len(files))

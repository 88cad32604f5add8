"""Tiny-ImageNet: 200 classes of 64 x 64 images, 500 for training and 50 for validation, which serve as the test set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from procrustean.base.errors import DataError
from procrustean.data.recipe import IMAGENET_COLOURS, STANDARD
from procrustean.data.sets.prepared import Prepared
from procrustean.data.stores.listing import FileSources, Listing, Part, Problem, Tree, counted, read_text

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
    return Listing(classes, parts, listed, problems)


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
                problems.append(Problem("missing", path))
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
                problems.append(Problem("missing", f"val/images/{file}"))
        seen.setdefault(file, number)
    return files, wanted


def _labels(files: Files) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.fromiter((label for _, label in files), np.int64, len(files))


#: Supplement. Not told: the stem (see docs/networks.md), the weight decay (here that of Cao et al., whom the paper
#: follows) and the normalisation.
RECIPE = STANDARD.named("tiny-imagenet", net="resnet18-s1", warmup_epochs=0, padding=8, **IMAGENET_COLOURS)

TINY_IMAGENET = Prepared(
    name="tiny-imagenet",
    title="Tiny-ImageNet",
    about="110000 photographs, 64x64, 200 classes",
    recipe=RECIPE,
    in_paper=True,
    counts={"train": (PER_CLASS,) * 200, "test": (50,) * 200},
    read=read,
    size=64,
    resize="stretch",
    obtain=(
        "Get tiny-imagenet-200.zip (248 MB) from http://cs231n.stanford.edu/tiny-imagenet-200.zip and unpack "
        "it. Its images are those of ImageNet, for non-commercial research; the publisher gives no checksum, "
        "so it is not downloaded for you (copies in use have the md5 90528d7ca1a48142e341f4ef8d21d0de)."
    ),
)

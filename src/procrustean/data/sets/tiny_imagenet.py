"""Tiny-ImageNet: 200 classes of 64 x 64 images, 500 for training and 50 for validation, which serve as the test set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from procrustean.base.errors import DataError
from procrustean.data.recipe import IMAGENET_COLOURS, STANDARD
from procrustean.data.sets.prepared_files import Prepared
from procrustean.data.stores.listing import Line, Listing, listing_of, read_text

FOLDER = "tiny-imagenet-200"
PER_CLASS = 500


def read(source: Path, lists: Path | None) -> Listing:
    """The images of the folder tiny-imagenet-200, which is `source` or in it. Classes are sorted by name."""
    if lists is not None:
        raise DataError(f"Tiny-ImageNet has its lists in {FOLDER}; leave --lists out")
    root = source / FOLDER if (source / FOLDER).is_dir() else source
    for name in ("wnids.txt", "val/val_annotations.txt"):
        if not (root / name).is_file():
            raise DataError(f"{root}: no {name}, so this is not {FOLDER}; name that folder with --source")
    classes = tuple(sorted(set(read_text(root / "wnids.txt").split())))
    training = [
        Line("wnids.txt", f"train/{name}/images/{name}_{number}.JPEG", label)
        for label, name in enumerate(classes)
        for number in range(PER_CLASS)
    ]
    lines = {"train": training, "test": list(_annotated(root / "val" / "val_annotations.txt", classes))}
    return listing_of(root, lines, classes)


def _annotated(path: Path, classes: tuple[str, ...]) -> Iterator[Line]:
    """The validation images."""
    label_of = {name: label for label, name in enumerate(classes)}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        file, name, *_ = [*line.split("\t"), "", ""]
        if name in label_of:
            yield Line(f"{path}, line {number}", f"val/images/{file}", label_of[name])
        elif line.strip():
            raise DataError(f"{path}, line {number}: class {name:.80} is not in wnids.txt; get the data set again")


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

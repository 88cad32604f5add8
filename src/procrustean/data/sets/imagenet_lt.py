"""ImageNet-LT (Liu et al. 2019): three lists of `path label` over the folders train and val of ImageNet."""

from __future__ import annotations

from pathlib import Path

from procrustean.base.errors import DataError
from procrustean.data.recipe import IMAGENET_COLOURS, STANDARD
from procrustean.data.sets.data_set import published_counts
from procrustean.data.sets.prepared_files import Prepared
from procrustean.data.stores.listing import Line, Listing, folder_in, found_file, listing_of, read_lines

SPLITS = ("train", "val", "test")


def read(source: Path, lists: Path | None) -> Listing:
    """The images of ImageNet that the lists name.

    Args:
        source: root of ImageNet (ILSVRC 2012), with the folders train and val. The images of val may be in a folder
            per class, as the list has them, or all in one, as ImageNet publishes them.
        lists: folder of the list files; by default `source`, or ImageNet_LT in it.
    """
    folders = [lists] if lists else [source, source / "ImageNet_LT"]
    lines: dict[str, list[Line]] = {}
    for split in SPLITS:
        name = f"ImageNet_LT_{split}.txt"
        path = found_file(name, folders)
        if path is None:
            raise DataError(
                f"{name} was not found in {' or '.join(map(str, folders))}; put the three lists of ImageNet-LT there, "
                "or name their folder with --lists"
            )
        lines[split] = list(read_lines(path))
    # Nothing says which class a label is but the folder of its images.
    folder_of = {line.label: folder_in(line.path) for of_split in lines.values() for line in of_split}
    classes = tuple(folder_of[label] for label in sorted(folder_of))
    return listing_of(source, lines, classes, _flat)


def _flat(path: str) -> str:
    first, _, rest = path.partition("/")
    return f"{first}/{rest.rpartition('/')[2]}"


#: Supplement: images of 256 x 256 pixels, random parts of 224 x 224. Not told: the weight decay (here that of Kang
#: et al.) and the normalisation.
RECIPE = STANDARD.named(
    "imagenet-lt",
    net="resnet10",
    batch_size=256,
    weight_decay=5e-4,
    warmup_epochs=0,
    padding=0,
    crop=224,
    evaluation_crop=224,
    **IMAGENET_COLOURS,
)

IMAGENET_LT = Prepared(
    name="imagenet-lt",
    title="ImageNet-LT",
    about="115846 training photographs of 1000 classes",
    recipe=RECIPE,
    variants={"the paper's for ImageNet-LT with ResNeXt-50": RECIPE.named("imagenet-lt-resnext50", net="resnext50")},
    in_paper=True,
    counts={
        "train": published_counts("ImageNet_LT_train_cls_num.json"),
        "val": (20,) * 1000,
        "test": (50,) * 1000,
    },
    read=read,
    size=256,
    resize="crop",
    obtain=(
        "Get ImageNet (ILSVRC 2012) from https://image-net.org after registration, with its folders train and "
        "val, and the lists ImageNet_LT_train.txt, ImageNet_LT_val.txt and ImageNet_LT_test.txt, linked from "
        "https://github.com/facebookresearch/classifier-balancing and "
        "https://github.com/zhmiao/OpenLongTailRecognition-OLTR."
    ),
)

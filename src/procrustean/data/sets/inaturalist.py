"""iNaturalist 2018: train and validation images of 8142 species, named by JSON annotations or by lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from procrustean.base.errors import DataError
from procrustean.data.recipe import STANDARD
from procrustean.data.sets.data_set import published_counts
from procrustean.data.sets.prepared_files import Archive, Prepared
from procrustean.data.stores.listing import Line, Listing, found_file, listing_of, read_lines, read_text

#: Our splits, and what the publishers call them. The labels of the official test images are not published.
SPLITS = {"train": "train", "test": "val"}


def read(source: Path, lists: Path | None) -> Listing:
    """The images that the annotations name.

    Args:
        source: the folder that holds train_val2018.
        lists: folder of train2018.json and val2018.json, or of the lists iNaturalist18_train.txt and
            iNaturalist18_val.txt; by default `source`.
    """
    folders = [lists] if lists else [source, source / "iNaturalist18"]
    lines: dict[str, list[Line]] = {}
    names: dict[int, str] = {}
    for split, published in SPLITS.items():
        annotations = found_file(f"{published}2018.json", folders)
        listed = found_file(f"iNaturalist18_{published}.txt", folders)
        if annotations is not None:
            lines[split] = list(_annotated(annotations, names))
        elif listed is not None:
            lines[split] = list(read_lines(listed))
        else:
            raise DataError(
                f"neither {published}2018.json nor iNaturalist18_{published}.txt was found in "
                f"{' or '.join(map(str, folders))}; put one of them there, or name their folder with --lists"
            )
    every = [line for of_split in lines.values() for line in of_split]
    if len(set(names.values())) < len(names) or not names:
        names = {line.label: line.path.rpartition("/")[0].removeprefix("train_val2018/") for line in every}
    return listing_of(source, lines, tuple(names[label] for label in sorted(names)))


def _annotated(path: Path, names: dict[int, str]) -> Iterator[Line]:
    """The images of a JSON file in the format of COCO; the names of its categories are added to `names`."""
    try:
        data: dict[str, Any] = json.loads(read_text(path))
        names.update({int(category["id"]): str(category["name"]) for category in data["categories"]})
        labels = {annotation["image_id"]: int(annotation["category_id"]) for annotation in data["annotations"]}
        images = [(str(image["file_name"]), labels[image["id"]]) for image in data["images"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not the annotations of iNaturalist 2018 ({type(error).__name__}: {error}); get the file again"
        ) from error
    for number, (file, label) in enumerate(images, start=1):
        yield Line(f"{path}, image {number}", file, label)


#: Supplement: rate times 0.1 after epochs 60 and 80 of 90, or 120 and 160 of 180. Not told: the weight decay (here
#: that of Zhou et al., whose code the paper adapts) and the normalisation (here that of Kang et al.).
RECIPE = STANDARD.named(
    "inaturalist18",
    net="resnet50",
    epochs=90,
    lr=0.05,
    weight_decay=1e-4,
    schedule="steps",
    milestones=(60 / 90, 80 / 90),
    warmup_epochs=0,
    padding=0,
    crop=224,
    evaluation_crop=224,
    mean=(0.466, 0.471, 0.380),
    std=(0.195, 0.194, 0.192),
)
_PLACE = "https://ml-inat-competition-datasets.s3.amazonaws.com/2018/"

INATURALIST = Prepared(
    name="inaturalist18",
    title="iNaturalist 2018",
    about="437513 training photographs of 8142 species",
    recipe=RECIPE,
    variants={"the paper's for iNaturalist 2018, 180 epochs": RECIPE.named("inaturalist18-180", epochs=180)},
    in_paper=True,
    counts={"train": published_counts("iNaturalist18_train_cls_num.json"), "test": (3,) * 8142},
    read=read,
    size=256,
    resize="crop",
    obtain=(
        "Get train_val2018.tar.gz (120 GB), train2018.json.tar.gz and val2018.json.tar.gz as "
        "https://github.com/visipedia/inat_comp/tree/master/2018 describes, and unpack them into one folder; "
        "or let procrustean data prepare inaturalist18 --download do both."
    ),
    archives=(
        Archive(_PLACE + "train2018.json.tar.gz", "bfa29d89d629cbf04d826a720c0a68b0", 1, "train2018.json"),
        Archive(_PLACE + "val2018.json.tar.gz", "f2ed8bfe3e9901cdefceb4e53cd3775d", 1, "val2018.json"),
        Archive(_PLACE + "train_val2018.tar.gz", "b1c6952ce38f31868cc50ea72d066cc3", 150, "train_val2018"),
    ),
    terms=(
        "Downloading iNaturalist 2018 (120 GB, twice that while it is unpacked) agrees to its terms: "
        "non-commercial research and education only, no redistribution; "
        "https://github.com/visipedia/inat_comp/tree/master/2018#terms-of-use"
    ),
)

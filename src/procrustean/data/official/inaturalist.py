"""iNaturalist 2018: train and validation images of 8142 species, named by JSON annotations or by lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from procrustean.base.errors import DataError
from procrustean.data.official.listing import Listing, Problem
from procrustean.data.official.path_lists import (
    Line,
    folder_in,
    found_file,
    listing_of,
    majority,
    read_lines,
    read_text,
)

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
    problems: list[Problem] = []
    lines: dict[str, list[Line]] = {}
    names: dict[int, str] = {}
    for split, published in SPLITS.items():
        annotations = found_file(f"{published}2018.json", folders)
        listed = found_file(f"iNaturalist18_{published}.txt", folders)
        if annotations is not None:
            lines[split] = list(_annotated(annotations, problems, names))
        elif listed is not None:
            lines[split] = list(read_lines(listed, problems))
        else:
            raise DataError(
                f"neither {published}2018.json nor iNaturalist18_{published}.txt was found in "
                f"{' or '.join(map(str, folders))}; put one of them there, or name their folder with --lists"
            )
    every = [line for of_split in lines.values() for line in of_split]
    count = max(names, default=-1) + 1 or len({folder_in(line.path) for line in every})
    label_of = majority((folder_in(line.path), line.label) for line in every)
    folder_of = majority((line.label, line.path.rpartition("/")[0].removeprefix("train_val2018/")) for line in every)
    unique = len(set(names.values())) == len(names)
    fallback = {label: folder_of.get(label, f"label {label}") for label in range(count)}
    classes = tuple(names.get(label, fallback[label]) if unique else fallback[label] for label in range(count))

    def fault(line: Line) -> str:
        # The folder of a species is called by its number.
        folder = folder_in(line.path)
        usual = int(folder) if folder.isdigit() else label_of[folder]
        return "" if line.label == usual else f"label {line.label}, but it lies in the folder of {usual}"

    return listing_of(source, lines, classes, fault=fault, problems=problems)


def _annotated(path: Path, problems: list[Problem], names: dict[int, str]) -> Iterator[Line]:
    """The images of a JSON file in the format of COCO; the names of its categories are added to `names`."""
    try:
        data: dict[str, Any] = json.loads(read_text(path))
        names.update({int(category["id"]): str(category["name"]) for category in data["categories"]})
        labels = {annotation["image_id"]: int(annotation["category_id"]) for annotation in data["annotations"]}
        images = [(image["id"], str(image["file_name"])) for image in data["images"]]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not the annotations of iNaturalist 2018 ({type(error).__name__}: {error}); get the file again"
        ) from error
    for number, (image, file) in enumerate(images, start=1):
        if image in labels:
            yield Line(f"{path.name}, image {number}", file, labels[image])
        else:
            problems.append(Problem("bad line", f"{path.name}, image {number}: {file}", "no annotation"))

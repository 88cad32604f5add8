"""Images of which the frozen part of a network has made features once, so that a head trains on them in seconds."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from procrustean.base.errors import CannotWrite
from procrustean.base.files import write_atomically
from procrustean.base.random_numbers import Stream
from procrustean.data.augment.on_device import with_border
from procrustean.data.augment.settings import Augmentation
from procrustean.data.imageset import ImageSet, read_images
from procrustean.data.recipes import Recipe
from procrustean.data.sets.data_set import data_roots
from procrustean.engine.image_stores import as_they_are, augmentation_of
from procrustean.engine.images import FeatureStore, LabelledImages
from procrustean.nets.classifier import Centred, Classifier

#: Augmented copies of each training image whose features are computed, beside those of the image as it is.
COPIES = 1
#: Images whose features are computed at a time.
AT_A_TIME = 32


class FeatureStores:
    """Makes the stores of a run that trains a head alone; the features of each image are kept in the user's cache.

    Args:
        net: the network on its device, its backbone with the weights that it keeps.
        weights: sha256 of these.
        recipe: normalisation and augmentation.
        data_dir: where data sets are, before the user's cache.
        say: called with a line where features have to be computed.
    """

    def __init__(
        self, net: Classifier, weights: str, recipe: Recipe, data_dir: Path | None, say: Callable[[str], None]
    ) -> None:
        self._net, self._weights, self._recipe, self._say = net, weights, recipe, say
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
        digests = [_digest(images, row) for row in range(len(images))]
        views = [self._view(images, digests, name, copy) for copy in (None, *range(copies))]
        self.where[name] = f"features of {len(views)} view{'s' * (len(views) > 1)} of each image, in {self._folder}"
        device, labels = next(self._net.parameters()).device, torch.from_numpy(images.labels)
        return FeatureStore(torch.stack(views, 1).to(device), labels.to(device))

    def _view(self, images: ImageSet, digests: Sequence[str], name: str, copy: int | None) -> Tensor:
        """Features [N, width] of the images as they are, or of an augmented copy; each view has a file of its own."""
        spec = as_they_are(self._recipe, images) if copy is None else augmentation_of(self._recipe, images)
        mean, std = self._recipe.normalisation
        content = json.dumps([self._weights, repr(spec), mean, std, copy])
        path = self._folder / f"{hashlib.sha256(content.encode()).hexdigest()[:24]}.safetensors"
        kept = _read(path)
        missing = [row for row, digest in enumerate(digests) if digest not in kept]
        if missing:
            what = "" if copy is None else ", augmented"
            self._say(f"computing features of {len(missing)} images ({name}{what}), kept in {path}")
            device = next(self._net.parameters()).device
            source = LabelledImages(images, device=device, mean=mean, std=std, augmentation=spec)
            found = self._computed(source, images, missing, [digests[row] for row in missing], copy)
            kept |= {digests[row]: features for row, features in zip(missing, found, strict=True)}
            _write(path, kept)
        return torch.stack([kept[digest] for digest in digests])

    @torch.no_grad()
    def _computed(
        self, source: LabelledImages, images: ImageSet, rows: Sequence[int], digests: Sequence[str], copy: int | None
    ) -> Tensor:
        backbone, spec, device = folded(self._net.backbone), source.augmentation, source.device
        found = []
        for start in range(0, len(rows), AT_A_TIME):
            some = np.array(rows[start : start + AT_A_TIME])
            block = np.empty((len(some), *images.images.shape[1:]), np.uint8)
            read_images(images.images, some, block)
            pixels = torch.from_numpy(block).to(device)
            if copy is None:
                shown = source.augment.middle(pixels, padding=0)
            else:
                numbers = _numbers(spec, digests[start : start + AT_A_TIME], copy)
                bordered, places = with_border(pixels, spec.needs_padding), torch.arange(len(some), device=device)
                shown = source.augment(bordered, places, {k: v.to(device) for k, v in numbers.items()})
            found.append(backbone(source.normalised(shown)).float().cpu())
        return torch.cat(found)


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


def _digest(images: ImageSet, row: int) -> str:
    return hashlib.sha256(np.ascontiguousarray(images.images[row]).data).hexdigest()[:32]


def _read(path: Path) -> dict[str, Tensor]:
    """Kept features by the digest of their image; none where they cannot be read, and they are computed anew."""
    try:
        with safe_open(path, "pt") as file:
            digests = (file.metadata() or {})["images"].split()
            return dict(zip(digests, file.get_tensor("features"), strict=True))
    except (OSError, SafetensorError, KeyError, ValueError):
        return {}


def _write(path: Path, kept: Mapping[str, Tensor]) -> None:
    """Keep features where that is possible; the run does not depend on it."""
    content = save({"features": torch.stack(list(kept.values()))}, {"images": " ".join(kept)})
    with contextlib.suppress(OSError, CannotWrite):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)

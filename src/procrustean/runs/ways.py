"""Which ways to train photographs of a user's own settings leave open, and what each takes on this machine.

A head on the features of a network with ImageNet weights is the quickest, a small network from scratch the best on
small, uniform pictures, and all of the pretrained network the best on others; nothing but trying tells which these are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Literal

import torch

from procrustean.base.console import duration_text, number_of
from procrustean.base.errors import ConfigError
from procrustean.data.image_lists import FileListing
from procrustean.data.sources import is_files
from procrustean.engine.device import place, sane_threads
from procrustean.engine.frozen_features import AT_A_TIME, COPIES, folded
from procrustean.methods.make import METHODS
from procrustean.nets.build import build_backbone
from procrustean.nets.pretrained import PUBLISHED
from procrustean.nets.published import PACKAGED, published
from procrustean.records.run_spec import ADVISED, AUTO, RunSpec
from procrustean.runs.cost import BESIDE_STEPS, CAUTION, measured_speed, this_machine
from procrustean.runs.image_loading import Sources
from procrustean.runs.method_advice import with_correction
from procrustean.runs.training_advice import (
    BATCH,
    SCRATCH,
    SCRATCH_SIDE,
    SMALLER_SIDES,
    SMALLEST_SIDE,
    epochs_for,
    scratch_length,
)

Kind = Literal["features", "scratch", "end-to-end"]

#: Pretrained network, and the side of its images: for features, and where all of it learns.
PRETRAINED, FEATURES_SIDE, TUNING_SIDE = "efficientnet_lite0", 224, 128
#: Share of each class that is held out to compare the ways.
HELD_OUT = 1 / 3
#: In smaller pictures a network for photographs finds nothing to use.
SMALLEST_PHOTOGRAPH = 33
#: A head on features is trained at least so long.
HEAD_EPOCHS, HEAD_STEPS, HEAD_BATCH = 60, 600, 64
#: Epochs where all of the pretrained network learns, and from how many images on fewer do.
TUNING_EPOCHS, FEWER_EPOCHS, MANY_IMAGES = 12, 8, 1000
#: Sides to which images are made smaller where time is short; fewer epochs would cost more.
SMALLER: dict[Kind, tuple[int, ...]] = {"features": (160, 128, 96), "scratch": SMALLER_SIDES, "end-to-end": ()}
#: How many times as fast a network makes features as it trains.
FORWARD = 3.0
#: Minutes that trials and training may take where nothing is said.
MINUTES = 30.0


@dataclass(frozen=True)
class Way:
    """A way to train: the settings of a training on all images."""

    kind: Kind
    config: RunSpec

    @property
    def name(self) -> str:
        """What it is called in messages."""
        forms = {"features": "head on {}", "scratch": "{} from scratch", "end-to-end": "all of {}"}
        return forms[self.kind].format(self.config.net)

    @property
    def text(self) -> str:
        """Its settings, in a few words."""
        config = self.config
        return f"{self.name}, {config.image_size} pixels, {number_of(config.epochs or 0, 'epoch')} by {config.method}"


@dataclass(frozen=True)
class Costs:
    """Seconds that the trial of a way and what follows where it is taken take."""

    trial: float
    final: float


def open_ways(config: RunSpec, sources: Sources) -> tuple[Way, ...]:
    """The ways that settings leave open, in the order in which they are tried; none where they say how to train, or
    where the images are no photographs in files.

    What is given holds in each way: `--epochs 5` are five of each.
    """
    if config.method == AUTO or config.recipe != "auto" or config.imbalance != "natural" or config.code:
        return ()
    if not is_files(config.source) or (config.method == ADVISED and config.options):
        return ()
    listing = sources.listing(config)
    side = round(median(min(h.width, h.height) for h in listing.headers.values())) if listing.headers else 0
    if side < SMALLEST_SIDE:
        return ()
    kinds: list[Kind] = []
    suits = side >= SMALLEST_PHOTOGRAPH and config.net in (None, *PACKAGED) and config.pretrained in (None, PUBLISHED)
    if suits and _has_weights(config.net):
        kinds += ["features"] * (config.tune == "head" or not _needs_images(config.method))
        kinds += ["end-to-end"] * (config.tune == "all")
    if config.net in (None, SCRATCH) and config.pretrained is None and config.tune == "all":
        kinds.insert(len(kinds) - ("end-to-end" in kinds), "scratch")
    return tuple(Way(kind, _settings(config, kind, _trained(listing), side)) for kind in kinds)


def _has_weights(net: str | None) -> bool:
    try:
        return published(net or PRETRAINED).found() is not None
    except ConfigError:  # the package of the weights is not installed
        return False


def _needs_images(method: str) -> bool:
    """Whether a method cannot train a head on features."""
    return method in METHODS and bool(METHODS[method].on_images)


def _trained(listing: FileListing) -> int:
    """About how many images would be trained on."""
    return max(1, _given(listing) - _set_aside(listing))


def _given(listing: FileListing) -> int:
    return sum(file.split == "train" for file in listing.files if file.name in listing.headers)


def _set_aside(listing: FileListing) -> int:
    """About how many images would be set aside for tests, of those given to train on."""
    return 0 if any(file.split == "test" for file in listing.files) else round(0.2 * _given(listing))


def _settings(config: RunSpec, kind: Kind, images: int, natural: int) -> RunSpec:
    if config.method == ADVISED:
        config = with_correction(config)
    if kind == "features":
        epochs, batch = epochs_for(images, HEAD_BATCH, HEAD_EPOCHS, HEAD_STEPS), HEAD_BATCH
        config = replace(config, net=config.net or PRETRAINED, pretrained=PUBLISHED, tune="head")
        side = FEATURES_SIDE
    elif kind == "scratch":
        side = SCRATCH_SIDE if natural >= SMALLEST_PHOTOGRAPH else natural
        epochs, batch = scratch_length(images, side)
        config = replace(config, net=SCRATCH, recipe="photographs")
    else:
        epochs, batch, side = TUNING_EPOCHS if images < MANY_IMAGES else FEWER_EPOCHS, BATCH, TUNING_SIDE
        config = replace(config, net=config.net or PRETRAINED, pretrained=PUBLISHED)
    epochs = config.epochs or epochs
    return replace(
        config,
        epochs=epochs,
        batch_size=config.batch_size or batch,
        image_size=config.image_size or side,
        evaluate_every=config.evaluate_every or max(1, epochs // 4),
    )


def length_of_final(config: RunSpec, sources: Sources) -> float:
    """How long the training on all images takes that follows that of a run alone, as a multiple of it; 0 where the
    source has test images, so that none follows."""
    listing = sources.listing(config)
    return _given(listing) / _trained(listing) if config.fold is None and _set_aside(listing) else 0


def costs_of(way: Way, sources: Sources, *, timed: bool, alone: bool) -> Costs:
    """What a way takes.

    Args:
        way: with its settings.
        sources: lists the images.
        timed: by steps that are timed now, instead of reckoned: how busy the machine is decides nothing then.
        alone: whether this is a run by itself, which may be followed by a training on all images.
    """
    config = way.config
    assert config.net is not None
    assert config.image_size is not None
    assert config.batch_size is not None
    listing = sources.listing(config)
    images, side = _trained(listing), config.image_size
    more = length_of_final(config, sources) if alone else 0
    if way.kind == "features":
        # Those of the images as they are, of copies, and once more of copies that may be mirrored.
        each = (_feature_seconds if timed else _reckoned_feature_seconds)(config.net, side, config.device)
        views = 1 + COPIES * (2 if config.augment is None else 1)
        final = views * HELD_OUT * images + len(listing.files) + COPIES * max(0, more - 1) * images
        return Costs(views * images * each * (1 - HELD_OUT), final * each)
    if timed:
        speed = measured_speed(config.net, 3, side, config.batch_size, config.device)
    else:
        speed = this_machine(config.device).images_per_second(config.net, 3, side)
    seconds = BESIDE_STEPS * images * (config.epochs or 1) / speed
    return Costs((1 - HELD_OUT) * seconds, (1 + more) * seconds)


def _reckoned_feature_seconds(net: str, side: int, device: str) -> float:
    return 1 / (FORWARD * this_machine(device).images_per_second(net, 3, side))


@torch.no_grad()
def _feature_seconds(net: str, side: int, device: str) -> float:
    """What the features of an image take."""
    where = place(device, "auto").device
    backbone = folded(build_backbone(net, channels=3, size=(side, side))).to(where)
    images = torch.zeros(AT_A_TIME, 3, side, side, device=where)
    with sane_threads(net):
        for _ in range(2):  # the first one warms up
            began = time.monotonic()
            backbone(images).cpu()
    return (time.monotonic() - began) / AT_A_TIME


@dataclass(frozen=True)
class Agenda:
    """What is tried within a time, and what for want of time is not."""

    ways: tuple[Way, ...]
    left_out: tuple[Way, ...]
    seconds: float  # of trials and training, at most
    minutes: float
    timed: bool  # whether steps were timed for this
    twice: bool  # whether the training that is measured is followed by one on all images

    def text(self) -> str:
        """What will happen, in a sentence or two."""
        about = f"about {duration_text(self.seconds)}{'' if self.timed else f', {CAUTION}'}"
        again = ", then once more on all images" if self.twice else ""
        if len(self.ways) == 1:
            text = f"to be trained{' and measured' * self.twice}{again}: {self.ways[0].text}, {about}"
        else:
            tried = "; ".join(way.text for way in self.ways)
            text = (
                f"to be tried on {HELD_OUT:.0%} of the images, held out by class; the best is trained and "
                f"measured{again}, in at most {about}: {tried}"
            )
        for way in self.left_out:
            text += f"; not {way.name}, for which {self.minutes:g} min are too short"
        if self.seconds > 1.3 * 60 * self.minutes:
            text += f"; nothing that fits into {self.minutes:g} min is left, so this takes longer"
        return text


def agenda(
    config: RunSpec, ways: tuple[Way, ...], sources: Sources, minutes: float | None, *, alone: bool = True
) -> Agenda:
    """What of the ways fits into a time: each is tried if its trial, and the training of the longest, still do.

    Args:
        config: the settings as they were asked for.
        ways: that they leave open.
        sources: lists the images.
        minutes: for trials and training; None for as long as is usual.
        alone: whether this is a run by itself.
    """
    if minutes is not None and not 0 < minutes < math.inf:
        raise ConfigError(f"minutes = {minutes:g} received; training takes a time above 0")
    asked, minutes = minutes is not None, MINUTES if minutes is None else minutes
    cost_of = partial(costs_of, sources=sources, timed=asked, alone=alone)
    first, costs = _first(ways[0], sources, 60 * minutes, cost_of, config)
    kept, left_out, trials, longest = [first], list[Way](), costs.trial, costs.final
    for way in ways[1:]:
        cost = cost_of(way)
        if trials + cost.trial + max(longest, cost.final) <= 60 * minutes:
            kept.append(way)
            trials, longest = trials + cost.trial, max(longest, cost.final)
        else:
            left_out.append(way)
    if len(kept) == 1 and asked and config.epochs is None and first.kind != "features" and longest > 60 * minutes:
        epochs = max(1, int((first.config.epochs or 1) * 60 * minutes / longest))
        longest *= epochs / (first.config.epochs or 1)
        kept = [Way(first.kind, replace(first.config, epochs=epochs, evaluate_every=max(1, epochs // 4)))]
    # The features of the trial are those of the training, too.
    seconds = longest + (trials if len(kept) > 1 or first.kind == "features" else 0)
    return Agenda(tuple(kept), tuple(left_out), seconds, minutes, asked, alone and length_of_final(config, sources) > 0)


def _first(
    way: Way, sources: Sources, seconds: float, cost_of: Callable[[Way], Costs], asked: RunSpec
) -> tuple[Way, Costs]:
    """The first way, with images made so much smaller that it fits the time, if any do."""
    cost, usual = cost_of(way), way.config.image_size or 1
    for side in SMALLER[way.kind] if asked.image_size is None else ():
        if cost.trial + cost.final <= seconds:
            break
        if side < usual:
            way = replace(way, config=replace(way.config, image_size=side))
            cost = cost_of(way)
    return way, cost

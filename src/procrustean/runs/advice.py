"""Fill in what the user of own images has left open: method, held-out images, image size, network, schedule."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

import numpy as np

from procrustean.base.console import duration_text, number_of
from procrustean.base.errors import ConfigError
from procrustean.data.image_lists import FileListing
from procrustean.data.imageset import Splits
from procrustean.data.imbalance import Imbalanced
from procrustean.data.recipes import PAPER
from procrustean.data.set_aside import shares, shares_for_test
from procrustean.data.sources import is_files, is_named
from procrustean.engine.stored_calibration import TrialScores
from procrustean.records.identity import Trial
from procrustean.records.run_spec import ADVISED, AUTO, RunSpec
from procrustean.runs.cost import CAUTION, Machine, this_machine
from procrustean.runs.image_loading import Sources
from procrustean.runs.method_advice import correction_text, with_correction
from procrustean.runs.preparing import imbalanced, recipe_of
from procrustean.runs.training_advice import (
    EVALUATIONS,
    Settings,
    from_scratch,
    settings_of,
    with_batch,
)

T = TypeVar("T")

#: The share of each class that is set aside to choose and calibrate on, where there is no validation set.
HOLD_OUT = 0.15
NONE_HELD_OUT = (
    "no images can be held out ({}), so there will be no thresholds, no calibrated probabilities and no choice of the "
    "epoch"
)
#: Settings that are chosen for the images and the machine.
FILLED = ("net", "epochs", "batch_size", "lr", "evaluate_every")
#: To what images are made smaller for a network that was named.
LARGEST_SIDE = {"cpu": 64, "cuda": 128}


@dataclass(frozen=True)
class Plan:
    """Settings with nothing left open, the images, and why the settings are what they are."""

    config: RunSpec
    splits: Splits | None  # None for data sets that are not the user's own
    why: tuple[str, ...] = ()
    made: tuple[Splits, Imbalanced] | None = None  # the images as the run takes them, where the advice went by them
    trials: tuple[Trial, ...] = ()  # what the settings rest on, where ways to train were tried
    scores: TrialScores | None = None  # of held-out images, by the trial of the way that was taken
    final: bool = False  # whether one more training follows, on all images

    @property
    def source_hash(self) -> str | None:
        """Of the user's images as the record of a run has it; None for data sets that are not the user's own."""
        if self.splits is None:
            return None
        return (self.splits.only(self.config.classes) if self.config.classes else self.splits).hash


def planned(
    config: RunSpec,
    *,
    splits: Splits | None = None,
    machine: Machine | None = None,
    load: Sources | None = None,
) -> Plan:
    """Settings for images of the user's; those that were given stay, and so do known data sets.

    Args:
        config: the settings, with "advised" or "auto" for a method that is left open.
        splits: the images, where the user has handed them over.
        machine: where they will be trained on; default this one.
        load: lists and loads the images of runs.
    """
    if splits is None and (is_named(config.source) or config.source in PAPER):
        return Plan(_of_known_set(config), None)
    open_method = config.method in (ADVISED, AUTO)
    if open_method and config.options:
        given = ", ".join(config.options)
        raise ConfigError(f"options ({given}) received without the method they are for; name it: --method mfw")
    machine = machine or this_machine(config.device)
    natural = None
    if splits is None:
        load = load or Sources()
        recipe_of(replace(config, method="mfw") if open_method else config)  # what is wrong is said before loading
        natural, size = _size_to_load(config, machine, load)
        splits = load(replace(config, image_size=size))
        if is_files(config.source) and config.recipe == "auto":
            config = replace(config, image_size=splits.train.images.shape[1])
    return advise(config, splits, machine, natural=natural)


def _of_known_set(config: RunSpec) -> RunSpec:
    if config.method == ADVISED:
        return replace(config, method="mfw")
    if config.method == AUTO:
        _refuse_none_to_compare_on(config)
        return replace(config, hold_out=config.hold_out or HOLD_OUT)
    return config


def advise(config: RunSpec, splits: Splits, machine: Machine, *, natural: int | None) -> Plan:
    """The plan for images that are loaded, with its reasons; what the user has given stays.

    Args:
        config: what the user has given, and the size that the images have.
        splits: the images.
        machine: where they will be trained on.
        natural: the usual side of the files, if the size was chosen for them.
    """
    config, why = holding_out(config, splits)
    if natural is not None and 2 * (config.image_size or natural) <= natural:
        why.append(
            f"images made smaller, from usually {natural} pixels to {config.image_size}; if that hides what matters: "
            f"--image-size {2 * (config.image_size or natural)}, at four times the work"
        )
    # A recipe of heads and adapters stays: what training a whole network costs says nothing about these.
    is_open = config.recipe == "auto" and config.tune == "all" and any(getattr(config, name) is None for name in FILLED)
    if not is_open and config.method != ADVISED:
        return Plan(config, splits, tuple(why))
    made = imbalanced(config, splits)
    counts = _counts(*made)
    if is_open:
        shape = splits.train.images.shape[1:]
        config, reason = _with_training(config, sum(counts), shape, machine)
        why += reason
    if config.method == ADVISED:
        config = with_correction(config)
        why.append(correction_text(config))
    return Plan(config, splits, tuple(why), made)


def with_hold_out(config: RunSpec, has_val: bool) -> tuple[RunSpec, list[str]]:
    """Settings that hold images out where there is no validation set, and why.

    Who asks for none gets none; a comparison of methods, which needs some, is refused.
    """
    if has_val:
        return replace(config, hold_out=config.hold_out or 0), []
    _refuse_none_to_compare_on(config)
    if config.hold_out is not None:
        return config, []
    why = f"{100 * HOLD_OUT:g} % of each class are held out, to choose and calibrate on"
    return replace(config, hold_out=HOLD_OUT), [why]


def holding_out(config: RunSpec, splits: Splits) -> tuple[RunSpec, list[str]]:
    """Settings that hold images out where there are enough and nothing else was asked for, and why."""
    chosen, why = with_hold_out(config, splits.val is not None)
    if config.hold_out is None and config.method != AUTO and chosen.hold_out:
        try:
            trained_on(chosen, splits)
        except ConfigError as error:
            return replace(config, hold_out=0), [NONE_HELD_OUT.format(str(error).partition(";")[0])]
    return chosen, why


def _refuse_none_to_compare_on(config: RunSpec) -> None:
    if config.method == AUTO and config.hold_out == 0:
        raise ConfigError(
            f"hold_out = 0 received, but method 'auto' compares methods on images of {config.source} that are held "
            f"out; leave it out for {100 * HOLD_OUT:g} % of each class, or name a method"
        )


def trained_on(config: RunSpec, splits: Splits) -> list[int]:
    """Images per class that a run of these settings trains on, in the order of the classes."""
    return _counts(*imbalanced(config, splits))


def _counts(splits: Splits, data: Imbalanced) -> list[int]:
    return [int(n) for n in np.bincount(splits.train.labels[data.indices], minlength=len(splits.train.classes))]


def settings_at(config: RunSpec, images: int, shape: tuple[int, ...], machine: Machine) -> Settings:
    """Network, epochs and batch for images whose size is decided.

    Args:
        config: names the network, if it is not open.
        images: trained on.
        shape: (height, width, channels) of the images.
        machine: where they are trained on.
    """
    height, width, channels = shape
    side = max(height, width)
    if config.net is None:
        return from_scratch(images, side, channels, machine, resizable=False)
    return settings_of(config.net, side, images, channels, machine, pretrained=config.pretrained is not None)


def _with_training(config: RunSpec, images: int, shape: tuple[int, ...], machine: Machine) -> tuple[RunSpec, list[str]]:
    height, width, _ = shape
    chosen = settings_at(config, images, shape, machine)
    if config.batch_size is not None:
        chosen = with_batch(chosen, config.batch_size)
    epochs = _given(config.epochs, chosen.epochs)
    filled = replace(
        config,
        recipe=chosen.recipe,
        net=config.net or chosen.net,
        epochs=epochs,
        batch_size=chosen.batch_size,
        lr=_given(config.lr, chosen.lr),
        evaluate_every=_given(config.evaluate_every, max(1, epochs // EVALUATIONS)),
    )
    if filled == config:
        return config, []
    seconds = chosen.seconds * epochs / chosen.epochs
    where = "a GPU" if machine.device == "cuda" else f"a CPU with {machine.cores} core{'s' * (machine.cores > 1)}"
    length = number_of(epochs, "epoch")
    text = (
        f"{filled.net} on images of {width} x {height}, {length} in batches of {filled.batch_size}: what "
        f"{where} trains on {images} images in about {duration_text(seconds)}, {CAUTION}"
    )
    if config.epochs is None and seconds > machine.budget:
        text += "; --epochs for fewer"
    return filled, [text]


def _given(value: T | None, chosen: T) -> T:
    return chosen if value is None else value


def _size_to_load(config: RunSpec, machine: Machine, load: Sources) -> tuple[int | None, int | None]:
    """The usual length of the shorter side of image files of any sizes, and the side to load them at.

    None is for what is not looked at: other sources, and files whose size is not to be chosen.
    """
    if config.image_size is not None or config.recipe != "auto" or not is_files(config.source):
        return None, config.image_size
    listing = load.listing(config)
    if not listing.headers:
        return None, None  # loading says what is wrong with them
    return size_to_load(listing, config, machine)


def size_to_load(listing: FileListing, config: RunSpec, machine: Machine) -> tuple[int, int]:
    """The usual length of the shorter side of files with any sizes, and the side to load them at."""
    side = round(median(min(h.width, h.height) for h in listing.headers.values()))
    if config.net is not None:
        return side, min(side, LARGEST_SIDE[machine.device])
    readable = [file for file in listing.files if file.name in listing.headers]
    present = {file.split for file in readable}
    tally = Counter(file.label for file in readable if file.split == "train")
    counts = np.array(list(tally.values()), np.int64)
    if "test" not in present:
        counts = counts - shares_for_test(counts)
    share = with_hold_out(config, "val" in present)[0].hold_out
    if share:
        counts = counts - (shares(counts, share) if share < 1 else np.where(counts > share, int(share), 0))
    images = max(1, int(counts.sum()))  # near-duplicates, which are looked for later, change it a little
    return side, from_scratch(images, side, 3, machine, resizable=True).size

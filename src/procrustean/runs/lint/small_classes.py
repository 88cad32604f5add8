"""Classes that give too much to the held-out set, validation images that it replaces, classes without a test."""

from __future__ import annotations

import numpy as np

from procrustean.data.describe import some_names
from procrustean.data.imageset import ImageSet, Labels
from procrustean.engine.prepared import (
    Prepared,
)


def held_out_too_much(prepared: Prepared) -> list[str]:
    """Classes that have fewer images left than were held out from them: to train on, or to be made from."""
    data, config = prepared.data, prepared.config
    if not config.hold_out or data.held_out is None:
        return []  # a validation set that was given takes nothing away from training
    cut_before = config.imbalance != "natural" and config.hold_out_from == "source"
    left = _left_in_the_source(prepared, data.held_out) if cut_before else data.counts
    short = np.flatnonzero((data.held_out.counts > left) & (data.held_out.counts > 0))
    if not len(short):
        return []
    named = [f"{data.train.classes[c]} ({left[c]} left, {data.held_out.counts[c]} held out)" for c in short[:3]]
    more = f" and {len(short) - 3} more" if len(short) > 3 else ""
    of_the_source = "of the source " * cut_before
    before = (
        ", or --hold-out-from source, which cuts the images from the source before it is made imbalanced; every class "
        "is then made from what is left"
    )
    return [
        f"the held-out set takes more images {of_the_source}than it leaves of {', '.join(named)}{more}; hold out "
        "fewer, or a share such as --hold-out 0.15" + before * (config.imbalance != "natural" and not cut_before)
    ]


def without_a_say(prepared: Prepared) -> list[str]:
    """Classes that keep their few images: nothing that is chosen on the held-out ones is chosen for them."""
    data, config = prepared.data, prepared.config
    if not data.left_out_classes:
        return []
    instead = "hold out fewer" if (config.hold_out or 0) >= 1 else "a share needs four images of a class; add some"
    if config.imbalance != "natural" and config.hold_out_from != "source":
        instead += ", or --hold-out-from source, which cuts them before the set is made imbalanced"
    return [
        f"no images are held out of {some_names(data.left_out_classes)}, which have too few: what is chosen and "
        f"calibrated on the held-out images is so without them; {instead}"
    ]


def _left_in_the_source(prepared: Prepared, held_out: ImageSet) -> Labels:
    """Images of each class from which an imbalanced set is made, after some were held out."""
    source = prepared.splits.train
    counts = dict(zip(source.classes, source.counts, strict=True))
    whole: Labels = np.array([counts[name] for name in held_out.classes])
    return whole - held_out.counts


def unused_validation(prepared: Prepared) -> list[str]:
    """A validation set that was given, where training images are held out in its place."""
    val, hold_out = prepared.splits.val, prepared.config.hold_out
    if val is None or not hold_out:
        return []
    return [
        f"the {len(val)} validation images are not used, since --hold-out {hold_out:g} takes training images in their "
        "place; leave it out to choose and calibrate on them"
    ]


def untested(prepared: Prepared) -> list[str]:
    """Classes without a single test image."""
    data = prepared.data
    missing = [name for name, count in zip(data.test.classes, data.test.counts, strict=True) if count == 0]
    if not missing:
        return []
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return [f"there are no test images of {shown}: the results say nothing about them"]

"""The verdict: what the measurements of a run say about its classes, in words, with the numbers it rests on."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.records.class_curves import Curves, Rows
from procrustean.records.class_curves import Finding as Finding
from procrustean.report.curves import epochs_text
from procrustean.report.diagnose.suggestions import BEHIND, suggestions

#: Measured epochs from which on it can be told when something happened.
ENOUGH = 5
#: Training images below which a class's accuracy moves by more than five points with each of them.
FEW_IMAGES = 20
#: Ratio of gradient lengths up to which, either way, two groups are pulled about equally.
ABOUT_EQUAL = 1.25

Mask = npt.NDArray[np.bool_]


def verdict(curves: Curves) -> list[Finding]:
    """What the curves show, one finding per topic, of gradients one per layer, then what they suggest."""
    major, minor = curves.groups
    if not minor.any():
        text = f"All {len(curves.counts)} classes have about {curves.counts[0]} images: nothing is minor here."
        return [Finding("progress", text, {"minor_classes": 0})]
    found = [
        _progress(curves, major, minor),
        _ratio(curves),
        *(_gradients(curves, layer, major, minor) for layer in dict.fromkeys(curves.layers)),
        _deviation(curves, major, minor),
        _fit(curves, major, minor),
    ]
    numbers = {finding.topic: finding.numbers for finding in found}
    if not curves.ended:
        found.insert(0, _in_progress(curves))
    elif _few_measured(curves):
        found.insert(0, _too_few(curves))
    suggested = (Finding("suggestion", one.text, one.numbers) for one in suggestions(curves, numbers))
    return [*found, *suggested]


def group_mean(rows: Rows, group: Mask) -> npt.NDArray[np.float64]:
    """Mean over the classes of a group at every epoch, without those that are undefined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is nan, as it should be
        mean: npt.NDArray[np.float64] = np.nanmean(rows[:, group], axis=1)
    return mean


def _in_progress(curves: Curves) -> Finding:
    text = (
        f"The run has been measured up to epoch {curves.at[-1]} of {curves.epochs}: this is how it stands, no verdict."
    )
    return Finding("measured", text, {"epochs": list(curves.at)})


def _at_end(curves: Curves) -> str:
    """When the last measurement was, in words."""
    return "at the end" if curves.ended else f"after epoch {curves.at[-1]}"


def _few_measured(curves: Curves) -> bool:
    return len(curves.at) < ENOUGH


def _too_few(curves: Curves) -> Finding:
    *others, last = map(str, curves.at)
    at = f"{', '.join(others)} and {last}" if others else last
    text = (
        f"Only epoch{'s' * (len(curves.at) > 1)} {at} of {curves.epochs} {'were' if len(curves.at) > 1 else 'was'} "
        "measured, too few to tell when classes fall behind or catch up: train with --probe-every "
        f"{max(1, curves.epochs // 10)}."
    )
    return Finding("measured", text, {"epochs": list(curves.at)})


def _progress(curves: Curves, major: Mask, minor: Mask) -> Finding:
    ahead, small = group_mean(curves.train_recall, major), group_mean(curves.train_recall, minor)
    behind = (ahead[:, None] - curves.train_recall > BEHIND) & minor
    ever, never = behind.any(0), behind[-1]
    widest = int(np.nanargmax(ahead - small))
    caught = {int(c): curves.at[int(np.flatnonzero(behind[:, c])[-1]) + 1] for c in np.flatnonzero(ever & ~never)}
    numbers: dict[str, Any] = {
        "minor_classes": int(minor.sum()),
        "under_fitted": int(ever.sum()),
        "widest_gap_epoch": curves.at[widest],
        "major_then": float(ahead[widest]),
        "minor_then": float(small[widest]),
        "major_last": float(ahead[-1]),
        "caught_up": {curves.classes[c]: epoch for c, epoch in caught.items()},
        "still_behind": [curves.classes[c] for c in np.flatnonzero(never)],
        "share_of_training": _share(curves, caught.values(), ended=not never.any()),
    }
    classes = f"the {minor.sum()} minor classes"
    if not ever.any():
        when = (
            f"after epoch {curves.at[0]}, the only one that was measured"
            if len(curves.at) == 1
            else f"at each of the {len(curves.at)} measured epochs (the first is {curves.at[0]})"
        )
        text = (
            f"No class is under-fitted: {classes} stay within {100 * BEHIND:.0f} points of the major ones in training "
            f"accuracy {when}."
        )
        return Finding("progress", text, numbers)
    # With few measurements it cannot be told what was first: they may all lie near the end.
    at_first = " at first" if caught and curves.at[widest] != curves.at[-1] and not _few_measured(curves) else ""
    together = ", though not all of them together" if small[widest] >= ahead[widest] else ""
    text = (
        f"{ever.sum()} of {classes} {'are' if ever.sum() > 1 else 'is'} under-fitted{at_first}{together}: after epoch "
        f"{curves.at[widest]} of {curves.epochs} the minor classes are at {_percent(small[widest])} training accuracy, "
        f"the major ones at {_percent(ahead[widest])}."
    )
    when = "after the last epoch" if curves.ended else f"after epoch {curves.at[-1]}"
    if caught and _few_measured(curves):
        text += (
            f" {'All' if not never.any() else len(caught)} of them {'is' if len(caught) == 1 else 'are'} within "
            f"{100 * BEHIND:.0f} points {when}."
        )
    elif caught:
        first, last = min(caught.values()), max(caught.values())
        reached = f"by epoch {last}" if first == last else f"between epochs {first} and {last}"
        text += (
            f" {'All' if not never.any() else len(caught)} of them catch up to within {100 * BEHIND:.0f} points "
            f"{reached}, the last at {100 * last / curves.epochs:.0f} % of the training."
        )
    if never.any():
        at_end = ", ".join(
            f"{curves.classes[c]!r} {_percent(curves.train_recall[-1, c])}" for c in _few(np.flatnonzero(never))
        )
        catch = "never catch" if never.sum() > 1 else "never catches"
        if not curves.ended or _few_measured(curves):
            catch = "have not caught" if never.sum() > 1 else "has not caught"
        text += f" {never.sum()} {catch} up{_more(never.sum())}: {at_end} {when}."
    return Finding("progress", text, numbers)


def _share(curves: Curves, caught_up: Collection[int], *, ended: bool) -> float | None:
    """The share of the training that classes need to catch up; None if too few epochs were measured to tell."""
    if _few_measured(curves):
        return None
    return max(caught_up, default=0) / curves.epochs if ended else 1.0


def _ratio(curves: Curves) -> Finding:
    largest, smallest = curves.extremes
    first, last = curves.classification_ratio[0], curves.classification_ratio[-1]
    numbers = {
        "epoch": curves.at[0],
        "largest_then": float(first[largest]),
        "smallest_then": float(first[smallest]),
        "largest_last": float(last[largest]),
        "smallest_last": float(last[smallest]),
    }
    title = "Classification ratio (100 % is balanced)"
    large, small = (f"{curves.classes[c]!r}, {curves.counts[c]} images" for c in (largest, smallest))
    if len(curves.at) == 1:
        text = f"{title}: {large}, {_percent(last[largest])} {_at_end(curves)}; {small}, {_percent(last[smallest])}."
    else:
        text = (
            f"{title}: {large}, {_percent(first[largest])} after epoch {curves.at[0]} and {_percent(last[largest])} "
            f"{_at_end(curves)}; {small}, {_percent(first[smallest])} and {_percent(last[smallest])}."
        )
    return Finding("ratio", text, numbers)


def _gradients(whole: Curves, layer: str, major: Mask, minor: Mask) -> Finding:
    """How hard classes are pulled at a layer, in the epochs measured there: lengths at two layers do not compare."""
    curves = whole.at_layer(layer)

    def ratio(rows: Rows) -> npt.NDArray[np.float64]:
        large, small = group_mean(rows, major), group_mean(rows, minor)
        return small / np.maximum(large, np.finfo(np.float64).tiny)

    trained = curves.gradient_norm_trained
    ratios = ratio(trained)
    peak = int(np.nanargmax(group_mean(trained, minor)))
    numbers: dict[str, Any] = {
        "layer": layer,
        "epochs": list(curves.at),
        "epoch": curves.at[peak],
        "major_then": float(group_mean(trained, major)[peak]),
        "minor_then": float(group_mean(trained, minor)[peak]),
        "ratio_then": float(ratios[peak]),
        "ratio_last": float(ratios[-1]),
        "unmixed_ratio_then": float(ratio(curves.gradient_norm)[peak]),
    }
    place = layer if len(curves.at) == len(whole.at) else f"{layer}, {epochs_text(curves.at)}"
    text = (
        f"The loss pulls at the features of the minor classes ({place}) {_compared(ratios[peak])}: after epoch "
        f"{curves.at[peak]}{', when it pulls at them most,' * (len(ratios) > 1)} their gradients are "
        f"{numbers['minor_then']:.3g} long on average, those of the major classes {numbers['major_then']:.3g}, a ratio "
        f"of {ratios[peak]:.1f}"
    )
    text += "." if peak == len(ratios) - 1 else f"; {_at_end(curves)} it is {ratios[-1]:.1f}."
    if curves.mixes[peak]:
        text += f" Without the mixing the same weights would give {numbers['unmixed_ratio_then']:.1f}."
    return Finding("gradients", text, numbers)


def _compared(ratio: float) -> str:
    """How the minor classes are pulled, beside the major ones."""
    if ABOUT_EQUAL > ratio > 1 / ABOUT_EQUAL:
        return "about as hard as at those of the major ones"
    return f"{'harder' if ratio > 1 else 'less hard'} than at those of the major ones"


def _deviation(curves: Curves, major: Mask, minor: Mask) -> Finding:
    large, small = (group_mean(curves.feature_deviation, group) for group in (major, minor))
    ratio = float(small[-1] / max(large[-1], np.finfo(np.float64).tiny))
    numbers = {
        "epoch": curves.at[0],
        "major_first": float(large[0]),
        "minor_first": float(small[0]),
        "major_last": float(large[-1]),
        "minor_last": float(small[-1]),
        "ratio": ratio,
    }
    if np.isnan(ratio):
        group = "minor" if np.isnan(small[-1]) else "major"
        text = f"How far features drift cannot be compared: there are no test images of the {group} classes."
        return Finding("deviation", text, numbers)
    grown = "" if len(curves.at) == 1 else f" After epoch {curves.at[0]} they were {small[0]:.2f} and {large[0]:.2f}."
    text = (
        f"Test features of the minor classes lie {small[-1]:.2f} from their training features {_at_end(curves)}, those "
        f"of the major classes {large[-1]:.2f}: {ratio:.1f} times as far, in features of unit length.{grown}"
    )
    return Finding("deviation", text, numbers)


def _fit(curves: Curves, major: Mask, minor: Mask) -> Finding:
    train, test = curves.train_recall, curves.test_recall
    numbers = {
        f"{name}_{split}": float(group_mean(rows, group)[-1])
        for name, group in (("major", major), ("minor", minor))
        for split, rows in (("train", train), ("test", test))
    }
    text = (
        f"{_at_end(curves).capitalize()} the minor classes have {_percent(numbers['minor_train'])} training and "
        f"{_percent(numbers['minor_test'])} test accuracy, the major ones {_percent(numbers['major_train'])} and "
        f"{_percent(numbers['major_test'])}.{_few_images(curves)}"
    )
    return Finding("fit", text, numbers)


def _few_images(curves: Curves) -> str:
    """On how many images training accuracies rest, where they are few; empty where they are not."""
    few, smallest = sum(count < FEW_IMAGES for count in curves.counts), curves.extremes[1]
    if not few:
        return ""
    name, images = curves.classes[smallest], curves.counts[smallest]
    return (
        f" The training accuracy of {few} class{'es' * (few > 1)} rests on fewer than {FEW_IMAGES} images"
        f"{' each' * (few > 1)}: of {name!r}, which has {images}, one image is {100 / images:.0f} points."
    )


def _percent(value: float) -> str:
    return "an unknown" if np.isnan(value) else f"{100 * value:.1f} %"


def _few(classes: npt.NDArray[np.int64]) -> Sequence[int]:
    return [int(c) for c in classes[:5]]


def _more(count: int) -> str:
    return f" (the first 5 of {count})" if count > 5 else ""

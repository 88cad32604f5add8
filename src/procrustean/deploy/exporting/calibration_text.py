"""What calibration has done to the probabilities of the test images, for the model card."""

from __future__ import annotations

from collections.abc import Callable, Mapping

#: What a record calls the errors: those after calibration with what they are for, under the one before it.
AS_THEY_ARE = {
    "ece_default": "the class frequencies that the scores stand for",
    "ece": "those of the held-out images",
}
BALANCED = {"ece_balanced": "equally frequent classes"}


def calibration_text(test: Mapping[str, float], percent: Callable[[float], str]) -> str:
    """The calibration errors in sentences, with a remark on those that calibration has made larger.

    Args:
        test: what a run has recorded of its calibration on the test images; older ones not all of it.
        percent: how the card writes a share.
    """
    groups = [("", "ece_before", AS_THEY_ARE), ("with classes weighted equally ", "ece_balanced_before", BALANCED)]
    parts, larger = [], []
    for images, before, errors in groups:
        known = {name: what for name, what in errors.items() if name in test}
        after = [f"{percent(test[name])} % after for {what}" for name, what in known.items()]
        if after:
            parts.append(f"{images}{percent(test[before])} % before, {', '.join(after)}")
        larger += [what for name, what in known.items() if float(percent(test[name])) > float(percent(test[before]))]
    text = f"Expected calibration error on the test images: {'; '.join(parts)}."
    if larger:
        text += (
            f" For {' and for '.join(larger)}, calibration has made it larger, not smaller, as it may where the error "
            "is small before, or few images were held out."
        )
    return text

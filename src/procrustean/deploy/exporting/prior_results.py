"""What class frequencies that are built into an export do to its results, counted on the held-out images."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from procrustean.engine.probabilities import Calibration, Labels, Prior, Scores, class_frequencies

HeldOut = tuple[Scores, Labels]


def results_with_prior(
    calibration: Calibration, classes: list[str], prior: Prior, held_out: HeldOut | None, percent: Callable[..., str]
) -> str:
    """Markdown: accuracies, and recall and precision of each class where classes are as frequent as the prior says.

    Args:
        calibration: of the model.
        classes: their names as the card shows them.
        prior: the frequencies, [C].
        held_out: scores and labels of the held-out images; None if none were kept.
        percent: how the card writes a share, or None.
    """
    before = "The test results above are **without** the class frequencies that are built in here."
    if held_out is None:
        return f"{before} What they change has not been measured: no held-out images were kept."
    scores, labels = held_out
    images = np.bincount(labels, minlength=len(classes))
    found = calibration.log_probabilities(scores, prior).argmax(axis=1)
    weights = (prior / np.maximum(class_frequencies(labels, len(classes)), 1e-300))[labels]
    right = np.bincount(labels, weights * (found == labels), minlength=len(classes))
    own = np.bincount(labels, weights, minlength=len(classes))
    announced = np.bincount(found, weights, minlength=len(classes))
    recalls = np.bincount(labels, found == labels, minlength=len(classes)) / np.maximum(images, 1)
    lines = [
        f"{before} With them, on the {len(labels)} held-out images that it was calibrated on: balanced accuracy "
        f"{percent(float(recalls[images > 0].mean()))} %, accuracy where classes are that frequent "
        f"{percent(_share(right.sum(), own.sum()))} %.\n",
        "| class | built-in frequency % | held-out images | recall % | precision % |",
        "|---|---:|---:|---:|---:|",
    ]
    for c, name in enumerate(classes):
        recall = float(recalls[c]) if images[c] else None
        shown = [percent(float(prior[c])), str(images[c]), percent(recall), percent(_share(right[c], announced[c]))]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 else None

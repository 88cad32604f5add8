"""How strongly calibration holds the scale of the scores and tau back, chosen on held-out images of the digits.

    python experiments/calibration.py --work runs/calibration --output results/calibration.json

Networks of five methods on imbalanced digits hold 15 % of each class out. Calibrations under each weight of the two
priors are judged by their log loss in two ways. Across images: the held-out images are cut into five parts; what is
found on four of them is judged on the fifth. Across classes: what is found on images of the larger half of the classes
is judged on all of them, each class weighted alike, as where small classes have no image to spare. No test image of any
data set is looked at. `SCALE_WEIGHT` and `TAU_WEIGHT` in procrustean/calibration/scaling.py are the weights for which
the sum of the two is lowest in the mean. What is finished is not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from procrustean import __version__, fit
from procrustean.balance.losses import scale_of_scores, shifts_scores
from procrustean.engine.probabilities import Calibration, Labels, Scores, calibrate, log_loss
from procrustean.engine.stored_calibration import held_out_scores
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import load_result
from procrustean.runs import load_run

METHODS: tuple[dict[str, Any], ...] = (
    {"method": "erm"},
    {"method": "mfw", "drw": True},
    {"method": "ldam", "drw": True},
    {"method": "remix", "drw": True},
    {"method": "balanced_softmax"},
)
IMBALANCES: tuple[dict[str, Any], ...] = (
    {"imbalance": "long_tailed", "rho": 20},
    {"imbalance": "step", "rho": 10},
    {"imbalance": "step", "rho": 20},
)
SEEDS = range(4)
WEIGHTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
FOLDS = 5

Losses = npt.NDArray[np.float64]  # [runs, weights]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/calibration"))
    parser.add_argument("--output", type=Path, default=Path("results/calibration.json"))
    parser.add_argument("--epochs", type=int, default=None, help="fewer, to try the script")
    given = parser.parse_args()
    runs = [Calibrated(folder) for folder in trained(given.work, given.epochs)]
    record = {
        "command": "python experiments/calibration.py",
        "environment": {"python": platform.python_version(), "torch": torch.__version__, "procrustean": __version__},
        "data": "digits, 15 % of each class held out",
        "runs": len(runs),
        **{prior: study(runs, f"{prior}_weight") for prior in ("scale", "tau")},
    }
    given.output.write_text(json.dumps(record, indent=1) + "\n")


def study(runs: list[Calibrated], prior: str) -> dict[str, Any]:
    """The log losses of each weight of a prior, and the weight for which their sum is lowest in the mean."""
    images = np.array([[run.across_images(**{prior: weight}) for weight in WEIGHTS] for run in runs])
    classes = np.array([[run.across_classes(**{prior: weight}) for weight in WEIGHTS] for run in runs])
    best = WEIGHTS[int((images + classes).mean(axis=0).argmin())]
    return {"across_images": summary(images), "across_classes": summary(classes), "best": best}


def summary(losses: Losses) -> dict[str, dict[str, float]]:
    """Mean over the runs by weight, and how far it lies above the lowest one, with the error of that."""
    excess = losses - losses[:, [losses.mean(axis=0).argmin()]]
    return {
        f"{weight:g}": {
            "log_loss": round(float(losses[:, n].mean()), 5),
            "above_best": round(float(excess[:, n].mean()), 5),
            "standard_error": round(float(excess[:, n].std(ddof=1) / math.sqrt(len(losses))), 5),
        }
        for n, weight in enumerate(WEIGHTS)
    }


def trained(work: Path, epochs: int | None) -> list[Path]:
    """Run directories of all networks."""
    folders = []
    for seed in SEEDS:
        for imbalance in IMBALANCES:
            for method in METHODS:
                settings = {**imbalance, **method, "seed": seed, "hold_out": 0.15, "epochs": epochs, "device": "cpu"}
                name = "-".join(str(value) for value in {**imbalance, **method, "seed": seed}.values())
                folder = work / name
                if not (folder / "result.json").exists():
                    fit("digits", run_dir=folder, evaluate_every=1000, **settings)
                folders.append(folder)
    return folders


class Calibrated:
    """The held-out images of a run, for calibrating on a part of them and judging on others."""

    def __init__(self, folder: Path) -> None:
        directory, _, _ = RunFolder.open(folder)
        self.counts = load_result(folder).data.counts
        self.scores, self.labels = held_out_scores(directory)
        objective = load_run(folder)[0].method.stages[-1].objective
        self.method = {"corrected": shifts_scores(objective), "scale": scale_of_scores(objective)}

    def across_images(self, **weight: float) -> float:
        """Log loss on each part of a calibration that was found on the others."""
        return cross_validated(self.scores, self.labels, self.counts, **self.method, **weight)

    def across_classes(self, **weight: float) -> float:
        """Log loss on all classes, weighted alike, of a calibration that was found on the larger half of them."""
        classes = len(self.counts)
        large = np.isin(self.labels, np.argsort(self.counts, kind="stable")[classes // 2 :])
        found = calibrate(self.scores[large], self.labels[large], self.counts, **self.method, **weight)
        return balanced_log_loss(found, self.scores, self.labels)


def cross_validated(scores: Scores, labels: Labels, counts: list[int], **settings: Any) -> float:
    """Log loss on each part of a calibration that was found on the others."""
    part = np.random.RandomState(0).permutation(len(labels)) % FOLDS
    losses = []
    for left_out in range(FOLDS):
        found = calibrate(scores[part != left_out], labels[part != left_out], counts, **settings)
        # The frequencies are smoothed: a class that only the left-out part has must not have probability 0.
        seen = np.bincount(labels[part != left_out], minlength=len(counts)) + 1.0
        judged = found.log_probabilities(scores[part == left_out], seen / seen.sum())
        losses.append(log_loss(judged, labels[part == left_out]))
    return float(np.mean(losses))


def balanced_log_loss(found: Calibration, scores: Scores, labels: Labels) -> float:
    """Mean over the classes of the log loss of their images, for equally frequent classes."""
    classes = len(found.counts)
    judged = found.log_probabilities(scores, np.full(classes, 1 / classes))
    return float(np.mean([log_loss(judged[labels == label], labels[labels == label]) for label in np.unique(labels)]))


if __name__ == "__main__":
    main()

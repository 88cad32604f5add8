"""How strongly calibration holds the scale of the scores back, chosen on held-out images of the digits.

    python experiments/calibration.py --work runs/calibration --output results/calibration.json

Networks of five methods on imbalanced digits hold 15 % of each class out. The held-out images are cut into five parts;
the scale is found on four of them under each weight of its prior, and judged by the log loss on the fifth. No test
image of any data set is looked at. `SCALE_WEIGHT` in procrustean/calibration/scaling.py is the weight with the lowest
mean. What is finished is not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from procrustean import __version__, fit
from procrustean.calibration.kept import held_out_scores
from procrustean.calibration.scaling import Labels, Scores, calibrate, log_loss
from procrustean.engine.run_directory import RunDirectory

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path("runs/calibration"))
    parser.add_argument("--output", type=Path, default=Path("results/calibration.json"))
    parser.add_argument("--epochs", type=int, default=None, help="fewer, to try the script")
    given = parser.parse_args()
    losses = np.array([folds_of_run(folder) for folder in trained(given.work, given.epochs)])  # [runs, weights]
    best = WEIGHTS[int(losses.mean(axis=0).argmin())]
    excess = losses - losses[:, [WEIGHTS.index(best)]]
    record = {
        "command": "python experiments/calibration.py",
        "environment": {"python": platform.python_version(), "torch": torch.__version__, "procrustean": __version__},
        "data": "digits, 15 % of each class held out",
        "runs": len(losses),
        "weights": {
            f"{weight:g}": {
                "log_loss": round(float(losses[:, n].mean()), 5),
                "above_best": round(float(excess[:, n].mean()), 5),
                "standard_error": round(float(excess[:, n].std(ddof=1) / math.sqrt(len(losses))), 5),
            }
            for n, weight in enumerate(WEIGHTS)
        },
        "best": best,
    }
    given.output.write_text(json.dumps(record, indent=1) + "\n")


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


def folds_of_run(folder: Path) -> list[float]:
    """Log loss of each weight, in the mean over the parts."""
    directory, _, _ = RunDirectory.open(folder)
    counts = directory.read("result.json")["data"]["counts"]
    scores, labels = held_out_scores(directory)
    return [cross_validated(scores, labels, counts, weight) for weight in WEIGHTS]


def cross_validated(scores: Scores, labels: Labels, counts: list[int], weight: float) -> float:
    """Log loss on each part of a calibration that was found on the others."""
    part = np.random.RandomState(0).permutation(len(labels)) % FOLDS
    losses = []
    for left_out in range(FOLDS):
        found = calibrate(scores[part != left_out], labels[part != left_out], counts, scale_weight=weight)
        # The frequencies are smoothed: a class that only the left-out part has must not have probability 0.
        seen = np.bincount(labels[part != left_out], minlength=len(counts)) + 1.0
        judged = found.log_probabilities(scores[part == left_out], seen / seen.sum())
        losses.append(log_loss(judged, labels[part == left_out]))
    return float(np.mean(losses))


if __name__ == "__main__":
    main()

"""Features that a run has kept for pictures, read back; no torch needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.base.errors import RunError
from procrustean.data.npz import read_arrays

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class KeptFeatures:
    """Features of some training and test images after an epoch, and the linear layer behind them if it is one."""

    epoch: int  # counted from 1
    train: Array  # [n, d]
    train_labels: Array  # [n]
    test: Array  # [m, d]
    test_labels: Array  # [m]
    head_weight: Array | None  # [C, d]
    head_bias: Array | None  # [C]


def features_file(epochs: int) -> str:
    """Where the features after so many epochs are kept in a run directory."""
    return f"features-{epochs:06d}.npz"


def kept_epochs(run: Path) -> list[int]:
    """The epochs, counted from 1, whose features a run directory holds."""
    names = (re.fullmatch(r"features-(\d{6})\.npz", path.name) for path in run.glob("features-*.npz"))
    return sorted(int(name[1]) for name in names if name)


def load_features(run: Path, epoch: int | None = None) -> KeptFeatures:
    """The features after an epoch, by default the last one that was kept."""
    known = kept_epochs(run)
    if not known:
        raise RunError(f"{run} has kept no features; train with --probes, which keeps those of the last epoch")
    epoch = known[-1] if epoch is None else epoch
    if epoch not in known:
        raise RunError(
            f"{run} has no features of epoch {epoch}, only of {', '.join(map(str, known))}; "
            f"train with --features-at {epoch}"
        )
    path = run / features_file(epoch)
    try:
        arrays = read_arrays(path)
        return KeptFeatures(
            epoch=epoch,
            train=arrays["train_features"].astype(np.float32),
            train_labels=arrays["train_labels"],
            test=arrays["test_features"].astype(np.float32),
            test_labels=arrays["test_labels"],
            head_weight=arrays.get("head_weight"),
            head_bias=arrays.get("head_bias"),
        )
    except (ValueError, KeyError) as error:
        raise RunError(f"{path} is damaged ({error}); train the run again") from error

"""Train MFW with DRW on long-tailed CIFAR-10 in ways that are no options of the library, one run each.

    python experiments/other_readings.py [first-images | drw-from-160 | no-last-batch]

Others have written this training down differently in details; each reading changes one of them in the library from
outside, because nobody should choose it. docs/methods.md has what they make of the accuracy.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import tyro

from procrustean.balance import deferred
from procrustean.base import ProcrusteanError, make_reporter
from procrustean.base.progress import Reporter
from procrustean.data import EpochPlanner
from procrustean.data.epoch_plan import Arrays
from procrustean.runs import fit
from procrustean.runs.train_api import resume

Reading = Literal["first-images", "drw-from-160", "no-last-batch"]
EVERY: tuple[Reading, ...] = get_args(Reading)


@dataclass(frozen=True)
class OtherReadings:
    """Train some of the readings; a run that is finished is not repeated."""

    readings: tyro.conf.Positional[tuple[Reading, ...]] = EVERY
    """Which ones; all by default."""
    output: Path = Path("runs/other-readings")
    """Where the runs are kept."""
    seed: int = 0
    """Training seed."""
    data_dir: Path | None = None
    """Where CIFAR-10 is; default $PROCRUSTEAN_DATA or the user's cache."""


def first_images(labels: npt.ArrayLike, counts: Sequence[int], seed: int = 0) -> npt.NDArray[np.int64]:
    """The first images of each class in the order of the files, not shuffled as the LDAM-DRW builder does."""
    targets = np.asarray(labels)
    return np.concatenate([np.flatnonzero(targets == label)[:count] for label, count in enumerate(counts)])


class NoLastBatch(EpochPlanner):
    """Leaves out the incomplete last batch: other images in every epoch, those at the end of the order."""

    @property
    def images(self) -> int:
        return len(self.labels) // self.batch_size * self.batch_size

    def draw(self, seed: int, stage: int, epoch: int) -> Arrays:
        plan = super().draw(seed, stage, epoch)
        plan["index"] = EpochPlanner.draw(self._whole, seed, stage, epoch)["index"][: self.images]
        return plan

    @property
    def _whole(self) -> EpochPlanner:
        return EpochPlanner(self.labels, self.batch_size, self.augmentation)


#: What each reading puts in the place of what.
CHANGES: dict[Reading, tuple[str, Any]] = {
    "first-images": ("procrustean.data.imbalance.select", first_images),
    # The epoch of the LDAM-DRW code, whose trainings have 200.
    "drw-from-160": ("procrustean.methods.mfw.deferred", partial(deferred, start=160 / 300)),
    "no-last-batch": ("procrustean.engine.stage_training.EpochPlanner", NoLastBatch),
}
#: With PyTorch's kernels in the same run, since either might matter, and neither did.
SETTINGS: dict[Reading, dict[str, Any]] = {"no-last-batch": {"kernels": "off"}}


def _begin(reading: Reading, asked: OtherReadings, folder: Path, reporter: Reporter) -> None:
    fit(
        "cifar10",
        imbalance="long_tailed",
        rho=100,
        method="mfw",
        drw=True,
        evaluate_every=20,
        seed=asked.seed,
        **SETTINGS.get(reading, {}),
        data_dir=asked.data_dir,
        run_dir=folder,
        reporter=reporter,
    )


def main(asked: OtherReadings) -> int:
    for reading in asked.readings:
        folder = asked.output / reading
        if (folder / "result.json").exists():
            continue
        reporter = make_reporter()
        with patch(*CHANGES[reading]):  # also for the rest of a run that was stopped
            if (folder / "config.json").exists():
                resume(folder, reporter=reporter)
            else:
                _begin(reading, asked, folder, reporter)
        reporter.close()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(tyro.cli(OtherReadings, description=__doc__)))
    except ProcrusteanError as error:
        sys.exit(f"other_readings: {error}")

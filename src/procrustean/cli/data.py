"""procrustean data"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Describe:
    """Print counts, ratio, groups and hash of a data set.

    As it is or made imbalanced, with a bar per class.

    Example: procrustean data describe cifar10 --imbalance long_tailed --rho 100
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """Data set: a name of `procrustean list sources`, a folder of images (one folder per class), a .csv, .parquet or
    .npz file."""
    imbalance: Literal["natural", "long_tailed", "step"] = "natural"
    """Make the training set imbalanced: long_tailed, step, or natural to take it as it is."""
    rho: float | None = None
    """Imbalance ratio, largest over smallest class."""
    data_seed: int = 0
    """Which images of a class are kept."""
    hold_out: float = 0
    """Training images per class set aside, or below 1 their share."""
    image_size: int | None = None
    """Side length to which images of a folder are resized, or at which a data set was prepared."""
    on_bad_image: Literal["error", "skip"] = "error"
    """Refuse a folder with files that are no complete images, or leave them out and count the classes again."""
    data_dir: Path | None = None
    """Where data sets are found or downloaded to; default $PROCRUSTEAN_DATA or the user's cache."""

    def run(self) -> int:
        from procrustean.base.console import write_result
        from procrustean.base.progress import make_reporter
        from procrustean.data.describe import describe
        from procrustean.data.imbalance import build
        from procrustean.data.sources import load_source

        reporter = make_reporter()
        splits = load_source(
            self.source,
            data_dir=self.data_dir,
            image_size=self.image_size,
            data_seed=self.data_seed,
            on_bad_image=self.on_bad_image,
            say=reporter.say,
        )
        data = build(splits, imbalance=self.imbalance, rho=self.rho, data_seed=self.data_seed, hold_out=self.hold_out)
        write_result(describe(splits, data))
        return 0

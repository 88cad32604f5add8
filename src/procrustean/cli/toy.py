"""procrustean paper toy"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from procrustean.cli.outputs import check_folder


@dataclass(frozen=True)
class Toy:
    """Train and draw the paper's illustration: ERM and MFW in the plane.

    Four classes of CIFAR-10, two of them small, with features of width 2. Draws features and decision regions at four
    epochs, training above test, and compares the accuracies. It is made for a GPU: on a CPU the two trainings take
    hours.
    """

    output: Path = Path("toy")
    """Folder for the runs and the figures; runs that are there already are not repeated."""
    source: str = "cifar10"
    """Data set; with another one than cifar10, give its classes."""
    classes: tuple[str, ...] = ()
    """Four or fewer classes, the large half first; default airplane automobile bird cat."""
    rho: float = 100.0
    """Images of a large class per image of a small one."""
    net: Literal["resnet32-2d", "small-2d"] = "resnet32-2d"
    """Network with features of width 2."""
    epochs: int = 200
    """Passes over the training data."""
    seed: int = 0
    """Seed of the training."""
    data_dir: Path | None = None
    """Where data sets are found or downloaded to; default $PROCRUSTEAN_DATA or the user's cache."""
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        from procrustean.base.console import write_result
        from procrustean.base.progress import reporting
        from procrustean.paper.toy import run_toy

        check_folder(self.output)
        with reporting(quiet=self.quiet) as reporter:
            outcome = run_toy(
                self.output,
                reporter=reporter,
                source=self.source,
                classes=list(self.classes) or None,
                rho=self.rho,
                net=self.net,
                epochs=self.epochs,
                seed=self.seed,
                data_dir=self.data_dir,
            )
        write_result(outcome.table, "Pictures: " + ", ".join(map(str, outcome.figures)))
        return 0

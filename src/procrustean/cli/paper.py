"""procrustean paper claims and procrustean paper toy"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from procrustean.base.console import notify, write_result
from procrustean.base.progress import reporting
from procrustean.cli.given_runs import finished_results
from procrustean.cli.outputs import check_folder
from procrustean.cli.values import DataDir, Quiet


@dataclass(frozen=True)
class Claims:
    """Compare the paper's statements about its figures with finished runs.

    Runs on CIFAR-10 at ratio 100 count: erm and mfw without --drw, ResNet-32 with the paper's recipe, all classes and
    no images held out; mfw with several values of alpha or beta, all else being equal; and four classes, as procrustean
    paper toy trains them.

    Example: procrustean paper claims results/analysis results/cifar10-rho100
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="[RUN ...]")] = ()
    """Folders of runs, result files, or folders of either; it is said first how many of them count."""
    page: Path | None = None
    """Put the table, and the pictures in figures/analysis beside it, into this page, between its marks."""

    def run(self) -> int:
        from procrustean.paper.claims import block_for, claims_table, coverage, replaced
        from procrustean.paper.page_parts import read_page, replace_page

        results, code = finished_results(self.runs)
        # Before the table, which is long and says of each claim alike that it was not measured where no run counts.
        notify(coverage(results))
        if self.page is None:
            write_result(claims_table(results))
        else:
            page = read_page(self.page, "give --page a page that is there")
            replace_page(self.page, replaced(page, block_for(self.page, results)), "make room, or allow writing there")
        return code


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
    data_dir: DataDir = None
    quiet: Quiet = False

    def run(self) -> int:
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

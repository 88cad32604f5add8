"""procrustean demo"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from procrustean.cli.outputs import check_folder


@dataclass(frozen=True)
class Demo:
    """Train ERM, MFW and MFW-DRW on imbalanced digits: a table and a picture."""

    seeds: int = 5
    """Runs of each method; the table shows their mean and spread."""
    epochs: int = 60
    """Passes over the 525 training images."""
    output: Path = Path("demo")
    """Folder for the runs, the table and the picture; a demo that is there already is shown, not repeated."""
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        from procrustean.base.console import write_result
        from procrustean.base.progress import reporting
        from procrustean.cli.demo_run import run_demo

        check_folder(self.output)
        with reporting(quiet=self.quiet) as reporter:
            outcome = run_demo(self.output, seeds=self.seeds, epochs=self.epochs, reporter=reporter)
        write_result(outcome.summary, outcome.classes, outcome.text)
        return 0

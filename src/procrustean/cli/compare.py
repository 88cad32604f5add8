"""procrustean compare"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from procrustean.cli.results import Format, Kind, show


@dataclass(frozen=True)
class Compare:
    """Compare finished runs: mean and spread over seeds.

    For the last epoch, the epoch chosen on held-out images, and the oracle.

    Example: procrustean compare runs/* --format markdown
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    """Folders of runs, result files, or folders of either."""
    format: Format = "table"
    """table for the terminal, or markdown, csv, latex."""
    per_class: bool = False
    """Recall of every class instead of the summary."""
    intervals: bool = False
    """The 95 % interval of each run on own images instead of the summary."""
    output: Path | None = None
    """Write to a file instead of the terminal."""

    def run(self) -> int:
        kind: Kind = "intervals" if self.intervals else "per_class" if self.per_class else "summary"
        return show(self.runs, form=self.format, kind=kind, output=self.output)

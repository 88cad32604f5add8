"""procrustean claims"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from .outcome import finished_results


@dataclass(frozen=True)
class Claims:
    """Compare what the paper claims about its figures with finished runs on CIFAR-10 at ratio 100.

    Example: procrustean claims results/analysis results/cifar10-rho100
    """

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of runs, result files, or folders of either; claims without runs are said to be not measured yet."""
    page: Path | None = None
    """Put the table, and the pictures in figures/analysis beside it, into this page, between its marks."""

    def run(self) -> int:
        from ..diagnose.claims import block_for, claims_table, coverage, replaced
        from ..progress.streams import notify, write_result
        from ..report.marked_page import read_page, replace_page

        results, code = finished_results(self.runs)
        if self.page is None:
            write_result(claims_table(results))
        else:
            page = read_page(self.page, "give --page a page that is there")
            replace_page(self.page, replaced(page, block_for(self.page, results)), "make room, or allow writing there")
        notify(coverage(results, here=Path()))
        return code

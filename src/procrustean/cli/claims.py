"""procrustean paper claims"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from procrustean.cli.outcome import finished_results


@dataclass(frozen=True)
class Claims:
    """Compare the paper's statements about its figures with finished runs.

    Runs on CIFAR-10 at ratio 100 count: erm and mfw without --drw, ResNet-32 with the paper's recipe, all classes and
    no images held out; mfw with several values of alpha or beta, all else being equal; and four classes, as procrustean
    paper toy trains them.

    Example: procrustean paper claims results/analysis results/cifar10-rho100
    """

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders of runs, result files, or folders of either; it is said first how many of them count."""
    page: Path | None = None
    """Put the table, and the pictures in figures/analysis beside it, into this page, between its marks."""

    def run(self) -> int:
        from procrustean.base.console import notify, write_result
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

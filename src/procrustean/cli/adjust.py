"""procrustean adjust"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from procrustean.base.errors import ConfigError, RunError
from procrustean.cli.outputs import check_metrics_output
from procrustean.cli.tested import ABOUT_GROUPS, main_metrics, percent, write_tested

if TYPE_CHECKING:
    from procrustean.base.table_formats import Table


@dataclass(frozen=True)
class Adjust:
    """Test finished runs with scores shifted by tau * log of the class priors (post-hoc logit adjustment).

    Nothing is trained, and the runs stay as they are; prints the main metrics before and after the shift.
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Folders of runs, or folders of such folders; each run gets a table of its own."""
    tau: float | None = None
    """Strength, 0 for none; default the best of 0 to 2 on the held-out images, 1 if there are none; divided
    by what the loss multiplies the scores by, as LDAM does by 30."""
    method: tuple[str, ...] = ()
    """The files of methods and networks of your own: FILE.py ... They have to be what they were."""
    output: Path | None = None
    """JSON file to write, with all metrics; of one run."""
    json: bool = False
    """Print all metrics as JSON, for other programs; of one run."""

    def run(self) -> int:
        from procrustean.base.code_files import use_file
        from procrustean.cli.each_run import distinct_runs, for_each_run

        for method in self.method:
            use_file(method)
        runs = distinct_runs(self.runs)
        if not runs:
            raise RunError("no run to adjust; give the folder of one, or of several")
        if len(runs) > 1 and (self.json or self.output is not None):
            raise ConfigError(f"{len(runs)} runs received; --json and --output take one run at a time")
        for_each_run(runs, self._adjust, done="adjusted")
        return 0

    def _adjust(self, run: Path) -> None:
        from procrustean.deploy.adjusted_scores import adjust

        check_metrics_output(run, self.output)
        outcome = adjust(run, tau=self.tau)
        table = adjustment_table(outcome, str(run))
        write_tested(table, json.dumps(outcome, indent=1), as_json=self.json, output=self.output)


def adjustment_table(outcome: dict[str, Any], name: str) -> Table:
    """The main metrics before and after the adjustment, and by how much they differ.

    Args:
        outcome: what `procrustean.adjust` returns.
        name: of the run.
    """
    from procrustean.base.table_formats import Cell, Column, Table

    before, after = main_metrics(outcome["unadjusted"]), main_metrics(outcome["adjusted"])
    lines = {
        "unadjusted": [percent(value) for value in before.values()],
        "adjusted": [percent(value) for value in after.values()],
    }
    # Of the numbers as they are shown, so that the difference is the one a reader computes.
    lines["difference"] = [f"{float(b) - float(a):+.1f}" for a, b in zip(*lines.values(), strict=True)]
    return Table(
        title=f"Test results of {name} in %, last epoch, adjusted with tau = {outcome['tau']:g}",
        columns=(Column("scores", "scores", numeric=False), *(Column(name, name) for name in before)),
        rows=tuple((Cell(heading), *map(Cell, numbers)) for heading, numbers in lines.items()),
        note=f"How tau was chosen: {outcome['tau_chosen']}. {outcome['adjusted']['images']} test images; "
        f"{ABOUT_GROUPS}.",
    )

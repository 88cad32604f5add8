"""procrustean evaluate"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from procrustean.base.console import write_result
from procrustean.base.errors import ConfigError, RunError
from procrustean.base.json_files import to_plain
from procrustean.base.table_formats import Cell, Column, Table, table_of
from procrustean.cli.given_runs import check_own_names, distinct_runs, for_each_run, use_own_files
from procrustean.cli.outputs import METRICS, check_output, refuse_inside, write_text
from procrustean.cli.values import RunArguments

if TYPE_CHECKING:
    from procrustean.balance.metrics import Metrics
    from procrustean.deploy.adjusted_scores import Adjusted

#: Said below a table with groups.
ABOUT_GROUPS = "groups of classes are mean recalls"


@dataclass(frozen=True)
class Evaluate:
    """Test trained networks again, also with scores adjusted to class sizes.

    --adjust shifts the scores by tau * log of the class priors (post-hoc logit adjustment) and shows the main metrics
    before and after. Nothing is trained, and the runs stay as they are.

    Example: procrustean evaluate runs/cells --adjust
    """

    runs: RunArguments
    """Folders of runs, or folders of such folders; each run gets a table of its own."""
    method: tuple[str, ...] = ()
    """The files of methods of your own: FILE.py ... They have to be what they were."""
    net: tuple[str, ...] = ()
    """The files of networks of your own, likewise."""
    weights: Literal["last", "held_out", "ema", "swa"] = "last"
    """Weights of the last epoch, of the epoch chosen on the held-out set, or averages of a run with --average."""
    statistics: Literal["kept", "mixed", "clean"] = "kept"
    """Of batch normalisation: those of training, or recomputed on training batches, mixed by the method or clean."""
    adjust: bool = False
    """Also test with adjusted scores; for the last weights."""
    tau: float | None = None
    """Strength of the adjustment, which it switches on, 0 for none; default the best of 0 to 2 on the held-out images,
    1 if there are none; divided by what the loss multiplies the scores by, as LDAM does by 30."""
    source: str | None = None
    """Where the images of the run are now; default where they were when it began."""
    output: Path | None = None
    """JSON file to write, with all metrics; of one run."""
    json: bool = False
    """Print all metrics as JSON, for other programs; of one run."""

    def run(self) -> int:
        use_own_files(self.method, self.net)
        runs = distinct_runs(self.runs)
        if not runs:
            raise RunError("no run received; name at least one: procrustean evaluate RUN")
        if len(runs) > 1 and (self.json or self.output is not None):
            raise ConfigError(f"{len(runs)} runs received; --json and --output take one run at a time")
        if self._adjusts and (self.weights, self.statistics) != ("last", "kept"):
            raise ConfigError("--adjust tests the last weights as they are; leave out --weights and --statistics")

        def tested(run: Path) -> None:
            check_own_names(run, self.method, self.net)
            (self._adjusted if self._adjusts else self._evaluated)(run)

        for_each_run(runs, tested, done="tested")
        return 0

    @property
    def _adjusts(self) -> bool:
        return self.adjust or self.tau is not None

    def _evaluated(self, run: Path) -> None:
        from procrustean.runs.train_api import evaluate

        self._check_output(run)
        metrics = evaluate(run, weights=self.weights, statistics=self.statistics, source=self.source)
        tested = {"weights": self.weights, "statistics": self.statistics}
        self._write(evaluation_table(metrics, str(run), tested), {**tested, **to_plain(metrics)})

    def _adjusted(self, run: Path) -> None:
        from procrustean.deploy.adjusted_scores import adjust

        self._check_output(run)
        outcome = adjust(run, tau=self.tau, source=self.source)
        self._write(adjustment_table(outcome, str(run)), to_plain(outcome._asdict()))

    def _check_output(self, run: Path) -> None:
        refuse_inside(run, self.output)
        if self.output is not None:
            check_output(self.output, endings=METRICS)

    def _write(self, table: Table, found: Mapping[str, object]) -> None:
        """Write the table, or all metrics in its place, to the terminal, and these into a file that was asked for."""
        text = json.dumps(found, indent=1)
        if self.output is not None:
            write_text(self.output, f"{text}\n")
        if self.json:
            write_result(text)
        else:
            write_result(table, *([f"All metrics: {self.output}"] if self.output is not None else []))


def evaluation_table(metrics: Metrics, name: str, how: Mapping[str, str]) -> Table:
    """The main metrics of a network, with what was tested in the title."""

    shown = main_metrics(metrics)
    tested = f"weights: {how['weights']}, statistics of batch normalisation: {how['statistics']}"
    return Table(
        title=f"Test results of {name} in %, {tested}",
        columns=tuple(Column(heading, heading) for heading in shown),
        rows=(tuple(Cell(percent(value)) for value in shown.values()),),
        note=f"{metrics.images} test images; {ABOUT_GROUPS}.",
    )


def adjustment_table(outcome: Adjusted, name: str) -> Table:
    """The main metrics before and after the adjustment, and by how much they differ."""

    before, after = main_metrics(outcome.unadjusted), main_metrics(outcome.adjusted)
    lines = {
        "unadjusted": [percent(value) for value in before.values()],
        "adjusted": [percent(value) for value in after.values()],
    }
    # Of the numbers as they are shown, so that the difference is the one a reader computes.
    lines["difference"] = [f"{float(b) - float(a):+.1f}" for a, b in zip(*lines.values(), strict=True)]
    return table_of(
        f"Test results of {name} in %, last epoch, adjusted with tau = {outcome.tau:g}",
        {"scores": "scores", **{name: name for name in before}},
        [(heading, *numbers) for heading, numbers in lines.items()],
        note=f"How tau was chosen: {outcome.tau_chosen}. {outcome.adjusted.images} test images; {ABOUT_GROUPS}.",
    )


def main_metrics(metrics: Metrics) -> dict[str, float]:
    """What a summary shows by its headings; groups of classes where they part the classes."""
    from procrustean.report.comparison_table import FEWEST_CLASSES_FOR_MANY_MEDIUM_FEW

    found = {"accuracy": metrics.accuracy, "balanced accuracy": metrics.balanced_accuracy}
    kinds: list[tuple[str, ...]] = [("major", "minor")]
    if len(metrics.recall) >= FEWEST_CLASSES_FOR_MANY_MEDIUM_FEW:
        kinds.append(("many", "medium", "few"))
    for kind in kinds:
        groups = {name: value for name in kind if (value := metrics.groups[name]) is not None}
        found |= groups if len(groups) > 1 else {}
    return {**found, "macro-F1": metrics.macro_f1}


def percent(value: float) -> str:
    """As the tables show a metric; their title says that it is in %."""
    return f"{100 * value:.1f}"

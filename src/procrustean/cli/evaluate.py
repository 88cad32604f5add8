"""procrustean evaluate"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

from procrustean.cli.outputs import check_metrics_output
from procrustean.cli.tested import ABOUT_GROUPS, main_metrics, percent, write_tested

if TYPE_CHECKING:
    from procrustean.base.table_formats import Table


@dataclass(frozen=True)
class Evaluate:
    """Test a finished run's network again on its test set; prints the main metrics."""

    run_dir: tyro.conf.Positional[Path]
    """Folder of the run."""
    method: str | None = None
    """The file of its method, if it is one of your own: FILE.py. It has to be what it was."""
    net: str | None = None
    """The file of its network, likewise."""
    weights: Literal["last", "held_out", "ema", "swa"] = "last"
    """Weights of the last epoch, of the epoch chosen on the held-out set, or averages of a run with --average."""
    statistics: Literal["kept", "mixed", "clean"] = "kept"
    """Of batch normalisation: those of training, or recomputed on training batches, mixed by the method or clean."""
    source: str | None = None
    """Where the images of the run are now; default where they were when it began."""
    output: Path | None = None
    """JSON file to write, with all metrics."""
    json: bool = False
    """Print all metrics as JSON, for other programs."""

    def run(self) -> int:
        from procrustean.base.code_files import use_file
        from procrustean.runs.train_api import evaluate

        for file in (self.method, self.net):
            if file is not None:
                use_file(file)
        check_metrics_output(self.run_dir, self.output)
        metrics = evaluate(self.run_dir, weights=self.weights, statistics=self.statistics, source=self.source)
        outcome = {"weights": self.weights, "statistics": self.statistics, **metrics}
        table = evaluation_table(outcome, str(self.run_dir))
        write_tested(table, _as_json(outcome), as_json=self.json, output=self.output)
        return 0


def evaluation_table(outcome: dict[str, Any], name: str) -> Table:
    """The main metrics of a network, with what was tested in the title.

    Args:
        outcome: what `procrustean.evaluate` returns, with the weights and the statistics it was called with.
        name: of the run.
    """
    from procrustean.base.table_formats import Cell, Column, Table

    shown = main_metrics(outcome)
    tested = f"weights: {outcome['weights']}, statistics of batch normalisation: {outcome['statistics']}"
    return Table(
        title=f"Test results of {name} in %, {tested}",
        columns=tuple(Column(heading, heading) for heading in shown),
        rows=(tuple(Cell(percent(value)) for value in shown.values()),),
        note=f"{outcome['images']} test images; {ABOUT_GROUPS}.",
    )


def _as_json(outcome: dict[str, Any]) -> str:
    """One metric per line, and one row of the confusion matrix."""
    confusion = outcome["confusion"]
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in outcome.items() if name != "confusion"]
    rows = None if confusion is None else ",\n  ".join(json.dumps(row) for row in confusion)
    lines.append('"confusion": ' + ("null" if rows is None else f"[\n  {rows}\n ]"))
    return "{\n " + ",\n ".join(lines) + "\n}"

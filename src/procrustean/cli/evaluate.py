"""procrustean evaluate"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro


@dataclass(frozen=True)
class Evaluate:
    """Test a finished run's network again on its test set; prints all metrics as JSON."""

    run_dir: tyro.conf.Positional[Path]
    """Folder of the run."""
    weights: Literal["last", "held_out", "ema", "swa"] = "last"
    """Weights of the last epoch, of the epoch chosen on the held-out set, or averages of a run with --average."""
    statistics: Literal["kept", "mixed", "clean"] = "kept"
    """Of batch normalisation: those of training, or recomputed on training batches, mixed by the method or clean."""
    source: str | None = None
    """Where the images of the run are now; default where they were when it began."""

    def run(self) -> int:
        from ..api import evaluate
        from ..console import write_result

        metrics = evaluate(self.run_dir, weights=self.weights, statistics=self.statistics, source=self.source)
        confusion = metrics.pop("confusion")
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in metrics.items()]
        rows = None if confusion is None else ",\n  ".join(json.dumps(row) for row in confusion)
        lines.append('"confusion": ' + ("null" if rows is None else f"[\n  {rows}\n ]"))
        write_result("{\n " + ",\n ".join(lines) + "\n}")
        return 0

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
    weights: Literal["last", "held_out"] = "last"
    """Weights of the last epoch, or of the epoch chosen on the held-out set."""

    def run(self) -> int:
        from ..api import evaluate
        from ..console import write_result

        write_result(json.dumps(evaluate(self.run_dir, weights=self.weights), indent=1))
        return 0

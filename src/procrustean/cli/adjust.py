"""procrustean adjust"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from ..errors import RunError


@dataclass(frozen=True)
class Adjust:
    """Test a finished run with scores shifted by tau * log of the class priors (post-hoc logit adjustment).

    Nothing is trained, and the run stays as it is; prints all metrics, adjusted and unadjusted, as JSON.
    """

    run_dir: tyro.conf.Positional[Path]
    """Folder of the run."""
    tau: float | None = None
    """Strength, 0 for none; default the best of 0 to 2 on the held-out images, 1 if there are none."""
    output: Path | None = None
    """Write to a file instead of the terminal."""

    def run(self) -> int:
        from ..console import write_result
        from ..posthoc import adjust

        # A run's folder holds what training left, and nothing else.
        if self.output is not None and self.output.resolve().is_relative_to(self.run_dir.resolve()):
            raise RunError(f"{self.output} is inside the run {self.run_dir}, which stays as it is; give another place")
        text = json.dumps(adjust(self.run_dir, tau=self.tau), indent=1)
        if self.output is None:
            write_result(text)
            return 0
        try:
            self.output.write_text(text + "\n")
        except OSError as error:
            raise RunError(f"cannot write {self.output} ({error.strerror})") from error
        return 0

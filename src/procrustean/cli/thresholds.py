"""procrustean thresholds"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from ..errors import RunError


@dataclass(frozen=True)
class Thresholds:
    """From which probability on a class may be announced, for a wanted precision or recall on the held-out images.

    Example: procrustean thresholds runs/cells --precision 0.95
    """

    model: tyro.conf.Positional[Path]
    """Folder of a run, of a comparison by --method auto, or of an export."""
    precision: float | None = None
    """Wanted share of right announcements, 0 to 1."""
    recall: float | None = None
    """Wanted share of the images of the class that are announced, 0 to 1."""
    prior: str | None = None
    """Class frequencies where the model is used, as for predict; default those built into an export, else those of
    the held-out images."""

    output: Path | None = None
    """CSV file to write, with unrounded numbers; default the terminal."""

    def run(self) -> int:
        from ..console import write_result
        from ..predicting.thresholds import table_of, thresholds_of
        from ..report.formats import to_csv

        found = thresholds_of(self.model, precision=self.precision, recall=self.recall, prior=self.prior)
        wanted = f"precision {self.precision}" if self.precision is not None else f"recall {self.recall}"
        table = table_of(found, wanted)
        if self.output is None:
            write_result(table)
        else:
            try:
                self.output.write_text(to_csv(table), encoding="utf-8", errors="surrogateescape")
            except OSError as error:
                raise RunError(f"cannot write {self.output} ({error.strerror})") from error
        few = [t.name for t in found if t.images < 30]
        if few:
            write_result(f"Fewer than 30 held-out images of {', '.join(few)}: their lines are rough.")
        return 0

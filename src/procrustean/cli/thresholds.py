"""procrustean thresholds"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro


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

    def run(self) -> int:
        from ..console import write_result
        from ..predicting.thresholds import thresholds_of
        from ..report.formats import Cell, Column, Table

        def number(value: float | None, digits: int, factor: float = 1) -> Cell:
            return Cell("-" if value is None else f"{factor * value:.{digits}f}")

        found = thresholds_of(self.model, precision=self.precision, recall=self.recall, prior=self.prior)
        wanted = f"precision {self.precision}" if self.precision is not None else f"recall {self.recall}"
        rows = tuple(
            (
                Cell(t.name),
                number(t.value, 4),
                number(t.precision, 1, 100),
                number(t.recall, 1, 100),
                Cell(str(t.images)),
            )
            for t in found
        )
        columns = ("class", "announce from", "precision %", "recall %", "held-out images")
        headings = tuple(Column(c, c, numeric=c != "class") for c in columns)
        write_result(Table(f"Thresholds for {wanted}", headings, rows))
        few = [t.name for t in found if t.images < 30]
        if few:
            write_result(f"Fewer than 30 held-out images of {', '.join(few)}: their lines are rough.")
        return 0

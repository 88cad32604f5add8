"""procrustean thresholds"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from .outputs import check_output, write_table

if TYPE_CHECKING:
    from ..calibration.thresholds import Threshold


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
    """Class frequencies where the model is used, the same as for predict; without it the probabilities are those that
    predict gives without it, and precision is counted on the held-out images as they are."""
    output: Path | None = None
    """CSV file to write, with unrounded numbers; default the terminal."""

    def run(self) -> int:
        from ..predicting.thresholds import table_of, thresholds_of
        from ..report.formats import to_csv
        from ..streams import write_result

        if self.output is not None:
            check_output(self.output, [self.prior] if self.prior else [])
        found = thresholds_of(self.model, precision=self.precision, recall=self.recall, prior=self.prior)
        wanted = f"precision {self.precision}" if self.precision is not None else f"recall {self.recall}"
        table = table_of(found, wanted)
        if self.output is not None:
            write_table(self.output, to_csv(table))
        remarks = "\n".join(self._remarks(found))
        write_result(*([table] if self.output is None else []), remarks)
        return 0

    def _remarks(self, found: Sequence[Threshold]) -> Iterator[str]:
        """What to know before the numbers are used, and how to use them."""
        from ..console import command_text

        few = [t.name for t in found if t.images < 30]
        if few:
            yield f"Fewer than 30 held-out images of {', '.join(few)}: their lines are rough."
        prior = "without --prior" if self.prior is None else f"with --prior {self.prior}"
        yield (
            f"These are for the probabilities that predict gives {prior}. A class is announced for every image whose "
            "probability of it reaches the number, so an image may have several classes, or none."
        )
        if self.prior is not None:
            yield "Precision is counted as if the classes of the held-out images were as frequent as it says."
        if self.precision is not None:
            yield (
                "Each number is the lowest that keeps the precision, not a recommendation: a class that is hardly ever "
                "taken for another keeps it at probabilities at which other classes are far more likely."
            )
        if any(t.always for t in found):
            yield "always: even announced for every held-out image, the class has what is wanted."
        if self.output is not None:
            same_prior = [] if self.prior is None else ["--prior", self.prior]
            words = ("predict", self.model, "PATH", "--thresholds", self.output, *same_prior)
            yield f"To apply them: {command_text(*words)}"

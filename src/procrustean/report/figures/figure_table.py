"""The table of figures: what each shows, where it is drawn, and what runs need to have for it.

Nothing here imports matplotlib or numpy: the command line needs the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What a run has only if it was trained for it: `probes` what `--probes` or `diagnose` measured, `features` those that
#: `--probes` or `--features-at` kept, `plane` features of two numbers, `tracking` the accuracies of `--track-training`.
Need = Literal["probes", "features", "plane", "tracking"]


@dataclass(frozen=True)
class Entry:
    """A line of the table. The function that draws it has its name."""

    shows: str
    file: str  # module of the folder, imported when the figure is drawn
    needs: tuple[Need, ...] = ()  # with "probes" it is drawn from panels, one per setting, else from results
    each_run: bool = False  # whether every run has a picture of its own
    folder: str = "procrustean.report.figures"


FIGURES: dict[str, Entry] = {
    "progress": Entry(
        "training accuracy and classification ratio along the epochs", file="epoch_curves", needs=("probes",)
    ),
    "gradients": Entry(
        "norm of the loss gradient at the mixing layer along the epochs", file="epoch_curves", needs=("probes",)
    ),
    "deviation": Entry(
        "distance between training and test features along the epochs", file="epoch_curves", needs=("probes",)
    ),
    "tsne": Entry(
        "t-SNE of training and test features, largest and smallest class",
        file="end_of_training",
        needs=("probes", "features"),
    ),
    "bars": Entry("training and test accuracy of every class at the end", file="end_of_training", needs=("probes",)),
    "classes": Entry("training accuracy of every class along the epochs", file="classes", needs=("tracking",)),
    "plane": Entry(
        "features in the plane and decision regions along the epochs, of networks like resnet32-2d",
        file="plane",
        needs=("features", "plane"),
        each_run=True,
    ),
    "option": Entry("accuracy along the option of a method that --over names", file="accuracy_along"),
    "imbalance": Entry("accuracy along the imbalance ratio", file="accuracy_along"),
}

"""The lines of a panel of training accuracies: one per class, or where classes have few sizes, one thick per size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SIZES = 3
#: From the largest size to the smallest, for two sizes and for three; told apart by colour-blind readers too.
SIZE_COLOURS = {2: ("#0072b2", "#d55e00"), 3: ("#0072b2", "#009e73", "#d55e00")}


@dataclass(frozen=True)
class Curves:
    """Training accuracies in percent at the epochs (counted from 1) that all runs of a setting have measured."""

    epochs: NDArray[np.float64]
    values: NDArray[np.float64]  # [runs, epochs, classes]

    def of(self, classes: Sequence[int]) -> NDArray[np.float64]:
        """Mean over some classes, [runs, epochs]."""
        return np.asarray(self.values[:, :, list(classes)].mean(axis=2))


def sizes_of(counts: Sequence[int]) -> dict[int, list[int]]:
    """Classes by size, the largest first, where there are two or three sizes of several classes each; else nothing.

    >>> sizes_of([100, 100, 5, 5]), sizes_of([100, 50, 5])
    ({100: [0, 1], 5: [2, 3]}, {})
    """
    sizes: dict[int, list[int]] = {}
    for index in sorted(range(len(counts)), key=lambda index: (-counts[index], index)):
        sizes.setdefault(counts[index], []).append(index)
    few = 2 <= len(sizes) <= MOST_SIZES and all(len(classes) > 1 for classes in sizes.values())
    return sizes if few else {}


def draw_sizes(panel: Axes, curves: Curves, sizes: dict[int, list[int]]) -> None:
    """A thick line with a band for the mean of the classes of each size, a thin pale one for each class."""
    for colour, classes in zip(SIZE_COLOURS[len(sizes)], sizes.values(), strict=True):
        for index in classes:
            _line(panel, curves.epochs, curves.of([index]), colour, width=0.7, alpha=0.35)
        _line(panel, curves.epochs, curves.of(classes), colour, width=2.4, zorder=4)
        _band(panel, curves.epochs, curves.of(classes), colour)


def draw_classes(panel: Axes, curves: Curves, order: Sequence[int], colours: Sequence[object], *, width: float) -> None:
    """A line with a band for each class."""
    for rank, (index, colour) in enumerate(zip(order, colours, strict=True)):
        _line(panel, curves.epochs, curves.of([index]), colour, width=width, zorder=3 + rank / len(order))
        _band(panel, curves.epochs, curves.of([index]), colour)


def _line(
    panel: Axes,
    epochs: NDArray[np.float64],
    runs: NDArray[np.float64],
    colour: object,
    *,
    width: float,
    alpha: float = 1.0,
    zorder: float = 3.0,
) -> None:
    panel.plot(
        epochs,
        runs.mean(axis=0),
        color=colour,
        linewidth=width,
        alpha=alpha,
        marker="o" if len(epochs) == 1 else None,
        markersize=4,
        zorder=zorder,
        solid_capstyle="round",
    )


def _band(panel: Axes, epochs: NDArray[np.float64], runs: NDArray[np.float64], colour: object) -> None:
    """One standard deviation over the runs on either side of their mean."""
    if len(runs) < 2:
        return
    mean, sd = runs.mean(axis=0), runs.std(axis=0, ddof=1)
    low, high = np.clip(mean - sd, 0, 100), np.clip(mean + sd, 0, 100)
    panel.fill_between(epochs, low, high, color=colour, alpha=0.15, linewidth=0, zorder=2)

"""Runs as panels of a figure: repeats of a setting together, with mean and spread of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from procrustean.base.errors import RunError
from procrustean.records.class_curves import Curves, Rows, common_epochs, curves_of, stacked
from procrustean.records.groups import Group, group_results
from procrustean.records.run_labels import distinct_labels
from procrustean.records.run_record import Result
from procrustean.report.comparison_table import HEADLINES, common_headline
from procrustean.report.figures.canvas import shortened

KINDS = {"long_tailed": "Long-tailed", "step": "Step", "natural": "As found"}


@dataclass(frozen=True)
class Panel:
    """The repeats of one setting."""

    title: str
    curves: tuple[Curves, ...]
    run: Path | None  # the folder of the first run, where its features are; None if it was never saved

    @property
    def first(self) -> Curves:
        return self.curves[0]

    @property
    def seeds(self) -> str:
        return f"{len(self.curves)} seeds" if len(self.curves) > 1 else ""

    @property
    def epochs(self) -> tuple[int, ...]:
        """Those that all runs have measured."""
        return common_epochs(self.curves)

    @property
    def along(self) -> str:
        """What there is to say about curves along the epochs."""
        only = f"only epoch {self.epochs[0]}" if len(self.epochs) == 1 else ""
        return ", ".join(filter(None, (only, self.seeds)))

    @property
    def folder(self) -> Path:
        """The same; RunError if there is none."""
        if self.run is None:
            raise RunError(f"{self.title} was never saved, so it has no features to draw")
        return self.run

    @property
    def layers(self) -> tuple[str, ...]:
        """Where gradients were measured at these epochs, each layer once, in the order of the training."""
        return tuple(dict.fromkeys(self.first.where([at in self.epochs for at in self.first.at]).layers))

    def at_layer(self, layer: str) -> Panel:
        """The epochs whose gradients were measured at a layer."""
        return replace(self, curves=tuple(curves.at_layer(layer) for curves in self.curves))

    def measured(self, name: str) -> tuple[Rows, Rows, Rows]:
        """The epochs, mean and sample standard deviation of a curve there, [E, C]."""
        values = stacked(self.curves, name)
        spread = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1:])
        return np.array(self.epochs, dtype=np.float64), values.mean(axis=0), spread


def panels_of(results: Sequence[Result]) -> list[Panel]:
    """One panel per setting, in the order of first appearance; titled as in the paper where the data differ."""
    groups = group_results(results)
    labels = distinct_labels(groups)
    several = len({_data_name(group) for group in groups}) > 1
    return [
        Panel(
            title=f"{_data_name(group)} ({label})" if several else label,
            curves=tuple(map(curves_of, group.results)),
            run=None if (path := group.results[0].path) is None else path.parent,
        )
        for group, label in zip(groups, labels, strict=True)
    ]


def accuracy_name(groups: Sequence[Group]) -> str:
    """What an axis along which test accuracies are drawn measures: balanced accuracy where a test set is not."""
    return f"test {HEADLINES[common_headline(groups)]} (%)"


def class_name(curves: Curves, index: int) -> str:
    """A class with its training images."""
    return f"{shortened(curves.classes[index])} ({curves.counts[index]:,} images)"


def extreme_names(panels: Sequence[Panel]) -> list[str]:
    """The largest and the smallest class by name, or, where they are not the same in all panels, by their part."""
    names = []
    for rank, part in enumerate(("largest class", "smallest class")):
        own = {class_name(panel.first, panel.first.extremes[rank]) for panel in panels}
        names.append(own.pop() if len(own) == 1 else part)
    return names


def _data_name(group: Group) -> str:
    return KINDS.get(group.data.kind, group.data.kind)

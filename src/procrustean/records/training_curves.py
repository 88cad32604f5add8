"""What was measured along a training, as a record holds it: one number or row per epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from procrustean.balance.metrics import Count, Share
from procrustean.base.epochs import EpochRecord, PerClass, Probed


class TrainingCurves(Struct, frozen=True, kw_only=True):
    """Loss and rate of every epoch, and what was measured after those that were evaluated."""

    loss: list[float | None]
    lr: list[float | None]
    evaluated: list[Count]  # epochs, from 0
    test_accuracy: list[Share]
    test_balanced_accuracy: list[Share]
    held_out_balanced_accuracy: list[Share] | None
    test_recall: list[list[Share | None]]
    train_recall: list[list[Share | None] | None]

    @classmethod
    def of(cls, epochs: Sequence[EpochRecord]) -> TrainingCurves:
        """The curves of a training, from its epochs."""
        evaluated = [epoch for epoch in epochs if epoch.test is not None]
        tested = [epoch.test for epoch in evaluated if epoch.test is not None]
        held_out = [epoch.held_out.balanced_accuracy for epoch in evaluated if epoch.held_out is not None]
        return cls(
            loss=[epoch.loss for epoch in epochs],
            lr=[epoch.lr for epoch in epochs],
            evaluated=[epoch.epoch for epoch in evaluated],
            test_accuracy=[test.accuracy for test in tested],
            test_balanced_accuracy=[test.balanced_accuracy for test in tested],
            held_out_balanced_accuracy=held_out if len(held_out) == len(evaluated) else None,
            test_recall=[test.recall for test in tested],
            train_recall=[None if epoch.train is None else epoch.train.recall for epoch in evaluated],
        )


class Probes(Struct, frozen=True, kw_only=True):
    """What was measured per class on the way, after some of the epochs."""

    epochs: list[Count]  # from 0
    layer: list[str]  # where gradients were measured
    train_recall: list[PerClass]
    test_recall: list[PerClass]
    classification_ratio: list[PerClass]
    gradient_norm: list[PerClass]
    gradient_norm_mixed: list[PerClass]  # None for epochs that do not mix
    feature_deviation: list[PerClass]

    @property
    def per_class(self) -> dict[str, list[PerClass]]:
        """The measurements by their names."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("epochs", "layer")}

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            same_length(name, getattr(self, name), "epochs", self.epochs)

    @classmethod
    def of(cls, measured: Mapping[int, Probed]) -> Probes | None:
        """What was measured after several epochs, counted from 0; None if nothing was."""
        epochs = sorted(measured)
        columns: dict[str, Any] = {
            name: [getattr(measured[epoch], name) for epoch in epochs] for name in Probed.__struct_fields__
        }
        return cls(epochs=epochs, **columns) if epochs else None

    def by_epoch(self) -> dict[int, Probed]:
        """The reverse of `of`."""
        names = Probed.__struct_fields__
        return {
            epoch: Probed(**{name: getattr(self, name)[row] for name in names}) for row, epoch in enumerate(self.epochs)
        }


def same_length(name: str, values: Sequence[object], of: str, others: Sequence[object]) -> None:
    """ValueError unless both have the same length."""
    if len(values) != len(others):
        raise ValueError(f"{name} has {len(values)} values for {len(others)} {of}")

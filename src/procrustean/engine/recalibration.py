"""Batch-norm statistics of a trained network recomputed on the batches of its own training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from procrustean.balance.batch_statistics import averaged_statistics, batch_norms
from procrustean.engine.engines import Engine
from procrustean.engine.image_stores import AnyImages
from procrustean.engine.stage_order import stage_epochs
from procrustean.engine.stage_training import StageRun
from procrustean.engine.step import precision
from procrustean.nets.classifier import Classifier

if TYPE_CHECKING:
    from procrustean.engine.prepared import (
        Prepared,
    )

#: "kept" are those of training; "mixed" and "clean" are recomputed, with the mixing of the method and without.
Statistics = Literal["kept", "mixed", "clean"]


def recompute_statistics(prepared: Prepared, net: Classifier, on: Statistics, images: AnyImages | None = None) -> None:
    """Recompute the statistics of a network in place, over the batches of the last epoch of its training.

    Args:
        prepared: the run.
        net: its network, with any weights.
        on: "mixed" shows the batches as the method does, "clean" without its mixing; "kept" changes nothing.
        images: the training images on the device, where they are there already.
    """
    if on == "kept" or not batch_norms(net):
        return
    number = len(prepared.method.stages) - 1
    epochs = stage_epochs(prepared.method, prepared.recipe.epochs)[number]
    low = prepared.placement.low_precision
    run = StageRun(
        prepared.method.stages[number],
        number,
        net=net,
        train=prepared.data.train,
        images=images or prepared.stores().training(prepared.data.train),
        recipe=prepared.recipe,
        epochs=epochs,
        seed=prepared.config.seed,
        placement=prepared.placement,
        engine=Engine("eager", "a single pass"),
    )
    try:
        run.begin_epoch(epochs - 1)
        with averaged_statistics(net) as coming:
            for part in run.steps:
                for _ in range(part.inputs.steps):
                    for feed in run.feeds.values():
                        feed.advance()
                    batch = part.batch()
                    coming(part.inputs.batch)
                    with precision(prepared.placement.device, low):
                        if on == "mixed":
                            run.objective.show(net, batch, run.clock)
                        else:
                            net(batch.x)
                    part.inputs.cursor.add_(1)
        run.finish()
    finally:
        run.close()
    net.eval()


@torch.no_grad()
def statistics_change(before: Classifier, after: Classifier) -> list[dict[str, float | str]]:
    """How far the statistics of two states of one network lie apart, layer by layer, in the order of the network.

    "spread" is the mean over the channels of the ratio of standard deviations, after to before; "shift" that of the
    difference of the means, in standard deviations of before.
    """
    names = [name for name, module in before.named_modules() if module in set(batch_norms(before))]
    changes: list[dict[str, float | str]] = []
    for name, one, other in zip(names, batch_norms(before), batch_norms(after), strict=True):
        assert one.running_mean is not None
        assert one.running_var is not None
        assert other.running_mean is not None
        assert other.running_var is not None
        deviation = (one.running_var + one.eps).sqrt()
        spread = (other.running_var + other.eps).sqrt() / deviation
        shift = (other.running_mean - one.running_mean).abs() / deviation
        changes.append({"layer": name, "spread": float(spread.mean()), "shift": float(shift.mean())})
    return changes

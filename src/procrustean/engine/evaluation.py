"""Test a network on a set of images, with the batch-norm statistics of its training or recomputed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from procrustean.balance.batch_statistics import averaged_statistics, batch_norms
from procrustean.balance.metrics import LARGEST_STORED_CONFUSION, Metrics, metrics_from_confusion, metrics_from_totals
from procrustean.engine.engines import Engine
from procrustean.engine.image_stores import AnyImages
from procrustean.engine.stage_order import stage_epochs
from procrustean.engine.stage_training import StageRun
from procrustean.engine.step import precision
from procrustean.nets.classifier import Classifier

if TYPE_CHECKING:
    from procrustean.data.imageset import ImageSet
    from procrustean.engine.frozen_features import FeatureStores
    from procrustean.engine.image_stores import ImageStores
    from procrustean.engine.prepared_run import Prepared

    Stores = ImageStores | FeatureStores

#: Images larger than this are tested in smaller batches, which take the same memory.
LARGEST_SIDE = 64

#: Scores [n, C] and labels [n] of a set of images, by the batch.
Scored = list[tuple[Tensor, Tensor]]


@contextmanager
def evaluation_mode(net: nn.Module) -> Iterator[None]:
    """Evaluation mode inside, the mode of before outside."""
    before = net.training
    net.eval()
    try:
        yield
    finally:
        net.train(before)


def evaluation_batch(images: AnyImages) -> int:
    """Images at a time where no gradients are taken."""
    # Large batches fill a GPU; a CPU is as fast with those that stay in its cache.
    most = 2000 if images.labels.device.type == "cuda" else 250
    height, width = images.augmentation.tested
    return max(1, min(most, most * LARGEST_SIDE**2 // (height * width)))


@torch.no_grad()
def predictions(
    net: nn.Module, images: AnyImages, low_precision: torch.dtype | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Scores and labels by the batch, in order: ([n, C] float32, [n])."""
    with evaluation_mode(net):
        for x, labels in images.clean_batches(evaluation_batch(images)):
            with precision(images.labels.device, low_precision):
                scores = net(x)
            yield scores.float(), labels


def scored(prepared: Prepared, net: nn.Module, images: ImageSet, stores: Stores | None = None) -> Scored:
    """Scores and labels of a set of images, by the batch; `stores` are those of its training, while it goes on."""
    store = (stores or prepared.stores()).evaluation(images)
    return list(predictions(net, store, prepared.placement.low_precision))


def confusion(batches: Iterable[tuple[Tensor, Tensor]], classes: int) -> tuple[Tensor, Tensor]:
    """Confusion matrix [C, C] (rows: true class) and the number of images whose class is among the top 5, 0-d.

    Args:
        batches: scores and labels, as `predictions` yields them.
        classes: C.
    """
    matrix, top5 = torch.zeros(classes * classes, dtype=torch.int64), torch.zeros((), dtype=torch.int64)
    for scores, labels in batches:
        matrix, top5 = matrix.to(labels.device), top5.to(labels.device)
        matrix += torch.bincount(labels * classes + scores.argmax(1), minlength=classes * classes)
        top5 += _among_top5(scores, labels)
    return matrix.view(classes, classes), top5


def class_totals(batches: Iterable[tuple[Tensor, Tensor]], classes: int) -> tuple[Tensor, Tensor]:
    """Images of each class that are classified correctly, that there are, and that are predicted to be of it, [3, C],
    and the number of images whose class is among the top 5, 0-d: all that metrics need where C x C is too much.
    """
    totals, top5 = torch.zeros(3, classes, dtype=torch.int64), torch.zeros((), dtype=torch.int64)
    for scores, labels in batches:
        totals, top5 = totals.to(labels.device), top5.to(labels.device)
        found = scores.argmax(1)
        # The wrong ones are counted in a class of their own: indexing by which are right would wait for the device.
        right = torch.where(found == labels, labels, classes)
        totals += torch.stack([torch.bincount(of, minlength=classes + 1)[:classes] for of in (right, labels, found)])
        top5 += _among_top5(scores, labels)
    return totals, top5


def _among_top5(scores: Tensor, labels: Tensor) -> Tensor:
    """How many images have fewer than five classes before their own; of equal scores the first class wins, as in
    argmax: else the ties of bf16 would all count as right."""
    own = scores.gather(1, labels[:, None])
    earlier = torch.arange(scores.shape[1], device=scores.device) < labels[:, None]
    return (((scores > own) | ((scores == own) & earlier)).sum(1) < 5).sum()


def metrics_of(batches: Iterable[tuple[Tensor, Tensor]], counts: Sequence[int]) -> Metrics:
    """All metrics of scores and labels, as `predictions` yields them; `counts` are the training images per class."""
    classes = len(counts)
    if classes > LARGEST_STORED_CONFUSION:
        totals, top5 = class_totals(batches, classes)
        correct, true, predicted = totals.cpu().numpy()
        return metrics_from_totals(correct, true, predicted, counts, top5_correct=int(top5))
    matrix, top5 = confusion(batches, classes)
    return metrics_from_confusion(matrix.cpu().numpy(), counts, top5_correct=int(top5) if classes > 5 else None)


def evaluate_net(
    net: nn.Module, images: AnyImages, counts: Sequence[int], low_precision: torch.dtype | None
) -> Metrics:
    """All metrics of a network on a set of images; `counts` are the training images per class."""
    return metrics_of(predictions(net, images, low_precision), counts)


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

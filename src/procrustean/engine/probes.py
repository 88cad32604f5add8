"""Probes: the paper's measurements of a network in the course of its training."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.layers import find_layer
from procrustean.balance.mixing import Mix
from procrustean.balance.objectives import Classify, Mixer
from procrustean.balance.types import Batch, Clock
from procrustean.base.epochs import Probed
from procrustean.base.random_numbers import Stream, torch_seed
from procrustean.data.epoch_plan import sampled
from procrustean.data.imageset import positions_by_class
from procrustean.engine.class_measures import classification_ratio, feature_deviation, gradient_norms_at, mean_per_class
from procrustean.engine.evaluation import evaluation_batch, evaluation_mode
from procrustean.engine.image_stores import AnyImages
from procrustean.engine.step import precision
from procrustean.engine.stored_features import features_file
from procrustean.methods.method import Stage
from procrustean.nets.classifier import Classifier
from procrustean.records.run_folder import RunFolder

#: Most images per class whose gradients are computed; draws of training images in the feature deviation.
GRADIENT_IMAGES, ROUNDS = 256, 1000


@dataclass(frozen=True)
class Measurement:
    """What a probe found, per class, largest class first."""

    values: Probed
    train_features: Tensor  # [N, d], in the order of the training set
    test_features: Tensor  # [M, d]


class Probe:
    """Measures networks on the images of one run.

    What it finds is a function of the weights, the images and the seed: it draws from streams of its own and always
    the same numbers, and it leaves the network as it was. So a run with probes is the same run as one without, and
    weights that were kept can be measured later.

    Args:
        train: training images.
        test: test images.
        classes: C.
        seed: that of the run; chooses the images whose gradients are computed, and whom they are mixed with.
        low_precision: format of the network's arithmetic, None for float32.
    """

    def __init__(
        self, *, train: AnyImages, test: AnyImages, classes: int, seed: int, low_precision: torch.dtype | None
    ) -> None:
        self.train, self.test, self.classes = train, test, classes
        self.seed, self.low_precision = seed, low_precision
        self.device = train.labels.device
        self.labels = train.labels.cpu().numpy()
        self.chosen = chosen_per_class(self.labels, classes, GRADIENT_IMAGES, seed)
        # A GPU is filled by batches of about a thousand small images, of which half are companions.
        largest = 512 if self.device.type == "cuda" else 128
        self.batch_size = min(largest, max(8, (1 << 19) // math.prod(train.augmentation.tested)))

    def measure(self, net: Classifier, stage: Stage, clock: Clock) -> Generator[None, None, Measurement]:
        """Measure a network as it stands in a stage; yields between batches, so that other runs can take turns.

        Args:
            net: the network.
            stage: how it is trained.
            clock: at the epoch it was trained in last, for stages that mix in some epochs only.
        """
        train_features, train_predicted = yield from self.features(net, self.train)
        test_features, test_predicted = yield from self.features(net, self.test)
        layer = gradient_layer(net, stage)
        norms, mixed = (yield from self.gradient_norms(net, stage, layer, None)), None
        if _mixer(stage) is not None:
            mixed = yield from self.gradient_norms(net, stage, layer, clock)
        generator = torch.Generator(self.device).manual_seed(torch_seed(self.seed, "probe.deviation"))
        deviation = feature_deviation(
            train_features, self.train.labels, test_features, self.test.labels, ROUNDS, None, generator
        )
        values = Probed(
            layer=layer,
            train_recall=self.recall(train_predicted, self.train.labels),
            test_recall=self.recall(test_predicted, self.test.labels),
            classification_ratio=plain(classification_ratio(train_predicted, self.train.labels, self.classes)),
            gradient_norm=norms,
            gradient_norm_mixed=mixed,
            feature_deviation=plain(F.pad(deviation, (0, self.classes - len(deviation)), value=math.nan)),
        )
        return Measurement(values, train_features, test_features)

    def features(self, net: Classifier, images: AnyImages) -> Generator[None, None, tuple[Tensor, Tensor]]:
        """Features [n, d] before the last layer and predicted classes [n] of clean images."""
        features, predicted = [], []
        for x, _ in images.clean_batches(evaluation_batch(images)):
            with evaluation_mode(net), torch.no_grad(), precision(self.device, self.low_precision):
                f = net.features_of(x)
                predicted.append(net.head(f).argmax(1))
            features.append(f.float())
            yield
        return torch.cat(features), torch.cat(predicted)

    def recall(self, predicted: Tensor, labels: Tensor) -> list[float | None]:
        """Share of the images of each class that are classified correctly."""
        return plain(mean_per_class((predicted == labels).double(), labels, self.classes))

    def gradient_norms(
        self, net: Classifier, stage: Stage, layer: str, clock: Clock | None
    ) -> Generator[None, None, list[float | None]]:
        """Mean length of the gradient at the layer for each class, mixed as training does then or not at all."""
        norms = []
        for number, start in enumerate(range(0, len(self.chosen), self.batch_size)):
            batch = self._batch(self.chosen[start : start + self.batch_size], number, stage)
            if clock is None:
                norms.append(_norms(net, stage, layer, None, _every_second(batch), self.low_precision))
            else:
                norms.append(_norms(net, stage, layer, clock, batch, self.low_precision)[::2])
            yield
        labels = self.train.labels[torch.from_numpy(self.chosen).to(self.device)]
        return plain(mean_per_class(torch.cat(norms), labels, self.classes))

    def _batch(self, chosen: npt.NDArray[np.int64], number: int, stage: Stage) -> Batch:
        """Chosen images, each followed by a companion drawn as training draws images; everybody's partner is the next.

        A chosen image is then mixed with one companion and into another: its gradient has the parts it has in a batch
        of the training, where most partners are of large classes. Partners among the chosen alone would not be.
        """
        n = 2 * len(chosen)
        stream = Stream(self.seed, "probe.companions", number)
        if stage.sampler is None:
            companions = stream.integers(len(self.labels), len(chosen))
        else:
            companions = sampled(stage.sampler, self.labels, len(chosen), stream)
        index = torch.from_numpy(np.stack([chosen, companions], axis=1).reshape(-1)).to(self.device)
        order = torch.arange(n, device=self.device)
        u = {
            name: torch.from_numpy(Stream(self.seed, "probe.u", name, number).uniforms(n, *shape)).to(self.device)
            for name, shape in stage.objective.draws.items()
        }
        x = self.train.clean_at(index)
        x = x if self.low_precision is None else x.to(self.low_precision)
        return Batch(x, self.train.labels[index], order.roll(-1), order.roll(1), u)


def gradient_layer(net: Classifier, stage: Stage) -> str:
    """Where gradients are measured: where the method mixes, if that is one layer, else the paper's second group."""
    mixer = _mixer(stage)
    return mixer.at[0] if mixer is not None and len(mixer.at) == 1 else net.second_group


def _mixer(stage: Stage) -> Mixer | None:
    return stage.objective.mixer if isinstance(stage.objective, Classify) else None


def chosen_per_class(
    labels: npt.NDArray[np.int64], classes: int, most: int, seed: int, purpose: str = "probe.images"
) -> npt.NDArray[np.int64]:
    """Positions of at most `most` images of each class in random order, the same ones whenever it is asked."""
    order = Stream(seed, purpose).permutation(len(labels))
    first = np.concatenate([order[found[:most]] for found in positions_by_class(labels[order], classes)])
    return order[np.isin(order, first)]


def plain(values: Tensor) -> list[float | None]:
    """Numbers for JSON, six digits each; None for those that are undefined."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in values.tolist()]


def _norms(
    net: Classifier, stage: Stage, layer: str, clock: Clock | None, batch: Batch, low_precision: torch.dtype | None
) -> Tensor:
    objective = stage.objective
    mixes: tuple[tuple[nn.Module, Mix], ...] = ()
    label_weight: Tensor | None = None
    if clock is not None and isinstance(objective, Classify) and objective.mixer is not None:
        mixture = objective.mixture(batch, clock)
        assert mixture is not None
        label_weight = mixture.label_weight
        places = zip(objective.mixer.at, mixture.mixes, strict=True)
        mixes = tuple((find_layer(net, name), mix) for name, mix in places)

    def per_sample(scores: Tensor, y: Tensor) -> Tensor:
        if isinstance(objective, Classify):
            return objective.sample_loss(scores, y, batch)
        return F.cross_entropy(scores.float(), y, reduction="none")

    def summed(scores: Tensor) -> Tensor:
        own = per_sample(scores, batch.y)
        if label_weight is None:
            return own.sum()
        return ((1 - label_weight) * own + label_weight * per_sample(scores, batch.y[batch.partner])).sum()

    forward = precision(batch.x.device, low_precision)
    return gradient_norms_at(net, find_layer(net, layer), batch.x, summed, mixes, forward)


def _every_second(batch: Batch) -> Batch:
    """The chosen images of a batch without their companions."""
    u = {name: values[::2] for name, values in batch.u.items()}
    order = torch.arange(len(batch.y) // 2, device=batch.y.device)
    return Batch(batch.x[::2], batch.y[::2], order, order, u)


class Cost(NamedTuple):
    """What probes take on a kind of device, and may take."""

    forward: float  # for an image, relative to training on it once
    gradients: float  # of an image at a layer, unmixed and mixed, likewise
    share: float  # of the training's time, at the default spacing


#: A GPU trains by captured steps and kernels of its own, which probes do without; and its first probe takes up to
#: five times as long as the others, which the smaller share makes up for. docs/analysis.md has what was measured.
COSTS = {"cpu": Cost(forward=0.5, gradients=2.1, share=0.1), "cuda": Cost(forward=0.37, gradients=5.0, share=0.07)}
#: Most images per class whose features are kept for pictures.
FEATURE_IMAGES = 250


def default_spacing(counts: Sequence[int], test_images: int, device: str = "cpu") -> int:
    """Epochs between probes that keep their time below a tenth of the training's.

    >>> counts = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    >>> default_spacing(counts, 10_000), default_spacing(counts, 10_000, "cuda")
    (13, 22)
    """
    cost = COSTS[device]
    gradients = sum(min(count, GRADIENT_IMAGES) for count in counts)
    work = cost.forward * (sum(counts) + test_images) + cost.gradients * gradients
    return max(1, math.ceil(work / sum(counts) / cost.share))


class Probing:
    """Measures a run's network at chosen epochs.

    Args:
        probe: what measures.
        every: epochs between two probes; the last epoch of a stage is always measured.
        features_at: epochs, counted from 1, after which features are kept too; those of the last epoch always are.
        directory: where they are kept.
    """

    def __init__(self, probe: Probe, *, every: int, features_at: Sequence[int], directory: RunFolder) -> None:
        self.probe, self.every, self.directory = probe, every, directory
        self.features_at = frozenset(features_at)

    def due(self, epoch: int, last: bool) -> bool:
        """Whether the network is measured after this epoch, counted from 0; `last` of its stage."""
        return last or (epoch + 1) % self.every == 0 or epoch + 1 in self.features_at

    def measure(
        self, net: Classifier, stage: Stage, clock: Clock, epoch: int, last: bool
    ) -> Generator[None, None, Probed]:
        """The measurements for the record of an epoch, counted from 0 in all stages; yields between batches."""
        found = yield from self.probe.measure(net, stage, clock)
        if last or epoch + 1 in self.features_at:
            self.directory.save_arrays(features_file(epoch + 1), self.kept_features(net, found))
        return found.values

    def kept_features(self, net: Classifier, found: Measurement) -> dict[str, npt.NDArray[Any]]:
        """Features and labels of some images of each class, and the linear layer that classifies them."""
        probe = self.probe
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, features, images in (
            ("train", found.train_features, probe.train),
            ("test", found.test_features, probe.test),
        ):
            labels = images.labels.cpu().numpy()
            kept = np.sort(chosen_per_class(labels, probe.classes, FEATURE_IMAGES, probe.seed, f"probe.{name}"))
            # Half precision is plenty for a picture; features in the plane are the picture, and cost nothing.
            kind = np.float32 if features.shape[1] <= 2 else np.float16
            arrays[f"{name}_features"] = _host(features)[kept].astype(kind)
            arrays[f"{name}_labels"] = labels[kept].astype(np.int32)
        if isinstance(net.head, nn.Linear):
            arrays |= {"head_weight": _host(net.head.weight), "head_bias": _host(net.head.bias)}
        return arrays


def _host(values: Tensor) -> npt.NDArray[np.float32]:
    array: npt.NDArray[np.float32] = values.detach().to("cpu", torch.float32).numpy()
    return array

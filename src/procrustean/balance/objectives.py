"""What is minimised in a training step: from a batch to a scalar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from procrustean.balance.layers import find_layer, published_layers
from procrustean.balance.losses import CrossEntropy, States
from procrustean.balance.mixing import Mix, MixPoint
from procrustean.balance.types import Batch, Clock
from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.own_code import code_name, returned_text


class Mixture(NamedTuple):
    """What a mixer decides for a batch."""

    mixes: tuple[Mix, ...]  # one for each layer of the mixer
    label_weight: Tensor | None  # [B] the partner's share of the label; None keeps the labels


class Mixer(nn.Module):
    """Decides who is mixed with whom, how strongly, and where."""

    at: tuple[str, ...] = ()  # layers, by published name or module path
    draws: Mapping[str, tuple[int, ...]] = {}  # uniforms needed per sample: name -> shape

    def forward(self, batch: Batch) -> Mixture:
        raise TypeError(f"{type(self).__name__} does not say how it mixes: override forward")


def check_mixture(mixture: Mixture, mixer: Mixer, batch: Batch) -> None:
    """ConfigError for what a mixer may not return. Of tensors only shapes are asked, for which nothing waits."""
    if not isinstance(mixture, Mixture) or not all(isinstance(mix, Mix) for mix in mixture.mixes):
        raise ConfigError(
            f"the mixer {code_name(mixer)} returns {returned_text(mixture)}; return Mixture(mixes, label_weight), "
            "with a Mix(partner, inverse, weight) for each layer, from procrustean.balance"
        )
    if len(mixture.mixes) != len(mixer.at):
        raise ConfigError(
            f"the mixer {code_name(mixer)} returns {len(mixture.mixes)} mixes for the {len(mixer.at)} layers in its "
            f"`at`, {mixer.at!r}; return one for each"
        )
    numbers = [(name, values) for mix in mixture.mixes for name, values in mix._asdict().items()]
    if mixture.label_weight is not None:
        numbers.append(("label_weight", mixture.label_weight))
    for name, values in numbers:
        if not isinstance(values, Tensor) or values.shape != batch.y.shape:
            raise ConfigError(
                f"the mixer {code_name(mixer)} returns {returned_text(values)} as {name}, but one number per sample is "
                f"needed, {tuple(batch.y.shape)}; one for the whole batch is repeated by share.expand(len(batch.y))"
            )


Reduction = Literal["weighted_mean", "mean"]


class Objective(States, nn.Module):
    """Everything that happens before backward. Subclasses override forward, and bind if they place hooks."""

    #: False for objectives whose shapes or control flow depend on the data; they run eagerly, runs say so.
    capturable = True
    #: False for objectives that torch.compile cannot turn into one graph.
    compilable = True
    #: Why `show` cannot do what it says after the training, if so.
    not_shown_again = ""
    #: Which of several steps is taken at present; set by the trainer from `phase_at`.
    phase = 0
    #: Uniforms needed per sample, name -> shape; the trainer draws them ahead.
    draws: Mapping[str, tuple[int, ...]] = {}

    def bind(self, net: nn.Module) -> None:
        """Resolve layer names and place hooks; fails early on a wrong name."""

    def unbind(self) -> None:
        """Take the hooks off again."""

    def phase_at(self, epoch: int, epochs: int) -> int:
        """Which step an epoch of the stage takes, for objectives whose steps differ in more than numbers.

        A step is captured anew when this changes, so it should change once or twice; numbers that change over time
        belong on the clock.
        """
        return 0

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say what it minimises: override forward")

    def show(self, net: nn.Module, batch: Batch, clock: Clock) -> None:
        """Let the network see a batch as in a training step, for the statistics of batch normalisation.

        There are no gradients then; objectives whose forward differentiates override this.
        """
        if self.not_shown_again:
            raise ConfigError(
                f"statistics = 'mixed' received, but {self.not_shown_again}; accepted here: 'kept', 'clean'"
            )
        self(net, batch, clock)


class Classify(Objective):
    """The standard objective: mix, forward, per-sample loss, class weights, mean.

    Args:
        loss: per-sample loss, (logits [B, C], labels [B]) -> [B], such as those of `procrustean.balance` with
            reduction="none"; cross-entropy by default.
        weight: class weights as a function of the clock, or None.
        mixer: what to mix where, or None.
        reduction: "weighted_mean" divides by the sum of the weights, as F.cross_entropy(weight=...) does;
            "mean" by the batch size, which shrinks the gradient while weights are small.
    """

    def __init__(
        self,
        *,
        loss: nn.Module | None = None,
        weight: nn.Module | None = None,
        mixer: Mixer | None = None,
        reduction: Reduction = "weighted_mean",
    ) -> None:
        super().__init__()
        if reduction not in ("weighted_mean", "mean"):
            raise ConfigError(f"reduction = {reduction!r} received; accepted: 'weighted_mean', 'mean'")
        if getattr(loss, "reduction", "none") != "none":
            raise ConfigError(
                f"a {type(loss).__name__} that reduces by itself received; classes are weighted and samples mixed "
                "before the mean: build it with reduction='none'"
            )
        self.loss = CrossEntropy(reduction="none") if loss is None else loss
        self.weight = weight
        self.mixer = mixer
        self.reduction = reduction
        self.points: list[MixPoint] = []
        self.draws = {**getattr(self.loss, "draws", {}), **(mixer.draws if mixer else {})}

    def unbind(self) -> None:
        for point in self.points:
            point.remove()
        self.points = []

    def bind(self, net: nn.Module) -> None:
        self.unbind()
        published, paths = published_layers(net), dict(net.named_modules())
        for name in self.mixer.at if self.mixer else ():
            if published and name not in published and name not in paths:
                inside = min((path for path in paths if path.endswith(f".{name}")), key=len, default="")
                example = f", such as {inside}" if inside else ""
                raise ConfigError(
                    f"layer {name!r} received, but this network mixes at {', '.join(published)}. "
                    f"{did_you_mean(name, published)} Any other layer is named by its path{example}"
                )
            self.points.append(MixPoint(find_layer(net, name), name))

    def mixture(self, batch: Batch, clock: Clock) -> Mixture | None:
        """How a batch is mixed at that time; None where there is no mixer."""
        if self.mixer is None:
            return None
        mixture: Mixture = self.mixer(batch)
        check_mixture(mixture, self.mixer, batch)
        return mixture

    def class_weights(self, clock: Clock, scores: Tensor) -> Tensor | None:
        """The weights of the classes at that time, [C]; None where there are none."""
        if self.weight is None:
            return None
        weights: Tensor = self.weight(clock)
        if not isinstance(weights, Tensor) or weights.shape != scores.shape[1:]:
            raise ConfigError(
                f"{code_name(self.weight)} returns {returned_text(weights)} for the class weights, but one number per "
                f"class is needed, {tuple(scores.shape[1:])}"
            )
        return weights

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        mixture = self.mixture(batch, clock)
        if mixture is None:
            scores = net(batch.x)
            weights = self.class_weights(clock, scores)
            return self.reduce(self.sample_loss(scores, batch.y, batch), batch.y, weights)
        for point, mix in zip(self.points, mixture.mixes, strict=True):
            point.mix = mix
        logits = net(batch.x)
        for point in self.points:
            point.mix = None
        weights = self.class_weights(clock, logits)
        own = self.sample_loss(logits, batch.y, batch)
        if mixture.label_weight is None:
            return self.reduce(own, batch.y, weights)
        other_y = batch.y[batch.partner]
        other = self.sample_loss(logits, other_y, batch)
        # Each term carries the class weight of its own label; the partners' labels are the same labels in
        # another order, so both terms have the same sum of weights.
        return self.reduce((1 - mixture.label_weight) * own, batch.y, weights) + self.reduce(
            mixture.label_weight * other, other_y, weights
        )

    def sample_loss(self, logits: Tensor, y: Tensor, batch: Batch) -> Tensor:
        """Per-sample loss [B]; a loss that needs random numbers is handed them, in the order of its `draws`."""
        losses: Tensor = self.loss(logits, y, *(batch.u[name] for name in getattr(self.loss, "draws", ())))
        # A single number would train, and class weights would cancel out of it unseen.
        if not isinstance(losses, Tensor) or losses.shape != y.shape or not losses.is_floating_point():
            raise ConfigError(
                f"the loss {code_name(self.loss)} returns {returned_text(losses)}, but one number per sample is "
                f"needed, {tuple(y.shape)}: classes are weighted and samples mixed before the mean; leave the mean "
                'out, for example F.cross_entropy(..., reduction="none")'
            )
        return losses

    def reduce(self, losses: Tensor, y: Tensor, weights: Tensor | None) -> Tensor:
        """From per-sample losses to the scalar that is minimised."""
        if weights is None:
            return losses.mean()
        own = weights[y]
        return torch.sum(own * losses) / (own.sum() if self.reduction == "weighted_mean" else len(y))

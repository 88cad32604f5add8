"""Losses for imbalanced classes, for any training loop: `loss(logits, labels)`.

In yours:

    loss = LDAM(class_counts).to(device)
    loss(model(images), labels).backward()

Each is an nn.Module and takes `reduction="mean"` (the default) or `"none"`. The arithmetic is float32 whatever the
precision of the logits, also under autocast, and float64 for float64 logits. What a loss derives from the class counts
moves with `.to(device)` and is no part of the state dict, so a model that holds a loss keeps the keys it has without
it; it is rounded to seven digits for float64 logits, too.

Here are the losses that several methods use. The loss of a single method is in the method's file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.class_tensors import HoldsConstants, check_label_range, widened
from procrustean.balance.count_facts import checked_counts
from procrustean.base.errors import ConfigError, DataError, one_of


class States:
    """A loss or an objective; its subclasses state what they do to the scores, as attributes."""

    #: What the scores are multiplied by before the softmax; cosines are multiplied by 10 to 100, as a rule.
    scale: float = 1.0
    #: Whether they are shifted by the class sizes in training alone, so that the plain ones make up for these.
    shifts_scores: bool = False
    #: Whether samples of small classes count more.
    weights_classes: bool = False


def scale_of_scores(objective: nn.Module) -> float:
    """What an objective multiplies the network's scores by before the softmax; ConfigError where its parts disagree."""
    scales = sorted({part.scale for part in _stating(objective) if part.scale != 1})
    if len(scales) > 1:
        raise ConfigError(
            f"{type(objective).__name__}: parts that state the scales {' and '.join(f'{scale:g}' for scale in scales)} "
            "received, but the scores of a network are calibrated and adjusted by one; give all losses the same"
        )
    return scales[0] if scales else 1.0


def shifts_scores(objective: nn.Module) -> bool:
    """Whether an objective trains with scores that are shifted by the class sizes."""
    return any(part.shifts_scores for part in _stating(objective))


def weights_classes(objective: nn.Module) -> bool:
    """Whether samples of small classes count more in the losses of an objective."""
    return any(part.weights_classes for part in _stating(objective))


def _stating(objective: nn.Module) -> Iterator[States]:
    return (module for module in objective.modules() if isinstance(module, States))


Reduction = Literal["mean", "none"]


#: A label that cannot be: no sample is left out.
NO_LABEL = -(2**62)


class Loss(States, HoldsConstants):
    """A loss of scores [B, C] and class indices [B]; a subclass says what each sample costs.

    Args:
        classes: number of classes the loss was made for; None takes any.
        reduction: "mean" over the batch, or "none" for a loss per sample.
    """

    #: Uniforms needed per sample, name -> shape; they follow the labels, a tensor each, in this order.
    draws: Mapping[str, tuple[int, ...]] = {}

    def __init__(self, *, classes: int | None = None, reduction: Reduction = "mean") -> None:
        super().__init__()
        one_of("reduction", reduction, ("mean", "none"))
        self.classes = classes
        self.reduction = reduction

    def forward(self, logits: Tensor, labels: Tensor, *uniforms: Tensor) -> Tensor:
        """The loss, a scalar or [B]; logits are [B, C], labels integers [B], uniforms those of `draws`."""
        self.check(logits, labels)
        self.follow(logits.device)
        losses = self.per_sample(widened(logits), labels.long(), *uniforms)
        return losses.mean() if self.reduction == "mean" else losses

    def _unsaid(self, logits: Tensor, labels: Tensor, *uniforms: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say what a sample costs: override per_sample")

    #: The loss of each sample, [B], of logits in float32 or float64, labels in int64 and the uniforms, if any.
    per_sample: Callable[..., Tensor] = _unsaid

    def check(self, logits: Tensor, labels: Tensor) -> None:
        """Refuse shapes and types that would broadcast into something else, and labels that name no class."""
        if logits.dim() != 2 or labels.shape != logits.shape[:1]:
            raise DataError(
                f"logits of shape {tuple(logits.shape)} and labels of shape {tuple(labels.shape)} received; "
                "give logits [batch, classes] and one class index per row"
            )
        if labels.is_floating_point() or labels.dtype == torch.bool:
            raise DataError(f"labels of type {labels.dtype} received; give class indices, integers")
        check_label_range(labels, logits.shape[1])
        if self.classes is not None and logits.shape[1] != self.classes:
            raise DataError(f"logits for {logits.shape[1]} classes received by a loss made for {self.classes}")

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}" if self.classes is None else f"classes={self.classes}"


class CrossEntropy(Loss):
    """Softmax cross-entropy, -log softmax(z)_y.

    >>> CrossEntropy()(torch.zeros(2, 4), torch.tensor([0, 3]))
    tensor(1.3863)
    """

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        # PyTorch's default would take a label of -100 for a sample that costs nothing, and the mean would count it.
        return F.cross_entropy(logits, labels, reduction="none", ignore_index=NO_LABEL)


Form = Literal["softmax", "sigmoid"]


class Focal(CrossEntropy):
    """(1 - p)^gamma * -log p, p the probability of what is true.

    Args:
        gamma: focus; 0 is cross-entropy.
        form: "softmax", one term, p = softmax(z)_y; or "sigmoid", the sum over all classes of a yes-or-no question
            each, p = sigmoid(z_y) for the label and sigmoid(-z_c) for the others. A network trained with the second
            should start with biases of -log(C - 1), see `procrustean.nets.classifier.SigmoidHead`.
        reduction: "mean" or "none".

    >>> Focal(gamma=2.0)(torch.zeros(1, 4), torch.tensor([0]))  # (3/4)^2 * log 4
    tensor(0.7798)
    """

    def __init__(self, gamma: float = 1.0, *, form: Form = "softmax", reduction: Reduction = "mean") -> None:
        super().__init__(reduction=reduction)
        one_of("form", form, ("softmax", "sigmoid"))
        if not 0 <= gamma < math.inf:
            raise ConfigError(f"gamma = {gamma!r} received; the focus has to be 0 (cross-entropy) or more")
        self.gamma, self.form = gamma, form

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.form == "sigmoid":
            # z of the true answer to each question: p = sigmoid(z), 1 - p = sigmoid(-z).
            true = logits * (2 * F.one_hot(labels, logits.shape[1]) - 1)
            return -((self.gamma * F.logsigmoid(-true)).exp() * F.logsigmoid(true)).sum(1)
        losses = super().per_sample(logits, labels)
        # 1 - exp(-ce) by expm1: for a well-classified sample the difference would round to 0, with a gradient
        # of NaN for gamma < 1.
        return (-torch.expm1(-losses)).clamp_min(torch.finfo(losses.dtype).tiny) ** self.gamma * losses


class LDAM(CrossEntropy):
    """Cross-entropy of scale * (z - m_y e_y), m_c = max_margin * (n_min / n_c)^(1/4).

    The scores have to be cosines between features and class vectors (`procrustean.nets.CosineHead`); on those
    of a linear layer the loss diverges.

    Args:
        counts: training images per class, index = label.
        max_margin: margin of the smallest class.
        scale: factor before the softmax.
        reduction: "mean" or "none".

    >>> LDAM([5000, 50]).margins
    tensor([0.1581, 0.5000])
    """

    margins: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        max_margin: float = 0.5,
        scale: float = 30.0,
        *,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(classes=len(counts), reduction=reduction)
        if not (0 <= max_margin < math.inf and 0 < scale < math.inf):
            raise ConfigError(f"max_margin = {max_margin!r}, scale = {scale!r} received; need >= 0 and > 0")
        checked = checked_counts(counts)
        margins = [max_margin * (min(checked) / n) ** 0.25 for n in checked]
        self.hold("margins", lambda: torch.tensor(margins, dtype=torch.float32))
        self.scale = scale

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        own = F.one_hot(labels, logits.shape[1])
        return super().per_sample(self.scale * (logits - own * self.margins), labels)


class VS(CrossEntropy):
    """Vector scaling: cross-entropy of z_c / a_c + tau * log(n_c / N), a_c = (n_max / n_c)^gamma.

    Only the training loss is adjusted; predict with the plain scores.

    Args:
        counts: training images per class, index = label.
        gamma: exponent of the temperatures a; 0 leaves `LogitAdjusted`.
        tau: strength of the shift; 0 leaves `CDT`.
        reduction: "mean" or "none".

    >>> loss = VS([30, 10])
    >>> loss.temperatures, loss.shifts
    (tensor([1.0000, 1.2457]), tensor([-0.3452, -1.6636]))
    """

    temperatures: Tensor
    shifts: Tensor

    def __init__(
        self, counts: Sequence[int], gamma: float = 0.2, tau: float = 1.2, *, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(classes=len(counts), reduction=reduction)
        for name, value in (("gamma", gamma), ("tau", tau)):
            if not 0 <= value < math.inf:
                raise ConfigError(f"{name} = {value!r} received; it has to be 0 (no adjustment) or more")
        checked = checked_counts(counts)
        most, total = max(checked), sum(checked)
        temperatures = [(most / n) ** gamma for n in checked]
        shifts = [tau * math.log(n / total) for n in checked]
        self.hold("temperatures", lambda: torch.tensor(temperatures, dtype=torch.float32))
        self.hold("shifts", lambda: torch.tensor(shifts, dtype=torch.float32))
        self.shifts_scores = tau > 0

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().per_sample(logits / self.temperatures + self.shifts, labels)


class CDT(VS):
    """Class-dependent temperatures (Ye et al. 2020): cross-entropy of z_c / a_c, a_c = (n_max / n_c)^gamma.

    Args:
        counts: training images per class, index = label.
        gamma: exponent of the temperatures; 0 is cross-entropy.
        reduction: "mean" or "none".
    """

    def __init__(self, counts: Sequence[int], gamma: float = 0.2, *, reduction: Reduction = "mean") -> None:
        super().__init__(counts, gamma=gamma, tau=0.0, reduction=reduction)


class LogitAdjusted(VS):
    """Logit adjustment (Menon et al. 2021): cross-entropy of z_c + tau * log(n_c / N).

    Args:
        counts: training images per class, index = label.
        tau: strength; 0 is cross-entropy, 1 is consistent for balanced accuracy.
        reduction: "mean" or "none".
    """

    def __init__(self, counts: Sequence[int], tau: float = 1.0, *, reduction: Reduction = "mean") -> None:
        super().__init__(counts, gamma=0.0, tau=tau, reduction=reduction)


class BalancedSoftmax(LogitAdjusted):
    """Balanced softmax (Ren et al. 2020): cross-entropy of z_c + log n_c, which is `LogitAdjusted` with tau = 1.

    Args:
        counts: training images per class, index = label.
        reduction: "mean" or "none".
    """

    def __init__(self, counts: Sequence[int], *, reduction: Reduction = "mean") -> None:
        super().__init__(counts, tau=1.0, reduction=reduction)


class LabelAwareSmoothing(Loss):
    """(1 - e_y) * -log p_y + e_y * mean_c(-log p_c), p = softmax(z).

    e_c = tail + (head - tail) * sin(pi/2 * (n_c - n_min) / (n_max - n_min)): `head` for the largest class, `tail` for
    the smallest; `head` for all if they are equal.

    Args:
        counts: training images per class, index = label.
        head: smoothing of the largest class.
        tail: smoothing of the smallest class, at most `head`; 0 for both is cross-entropy.
        reduction: "mean" or "none".

    >>> LabelAwareSmoothing([500, 255, 10], head=0.3, tail=0.1).smoothing
    tensor([0.3000, 0.2414, 0.1000])
    """

    smoothing: Tensor

    def __init__(
        self, counts: Sequence[int], head: float = 0.3, tail: float = 0.0, *, reduction: Reduction = "mean"
    ) -> None:
        super().__init__(classes=len(counts), reduction=reduction)
        if not 0 <= tail <= head < 1:
            raise ConfigError(
                f"head = {head!r}, tail = {tail!r} received; need 0 <= tail <= head < 1, "
                "since it is the large classes whose scores are over-confident"
            )
        checked = checked_counts(counts)
        least, span = min(checked), max(checked) - min(checked)
        heights = [math.sin(math.pi / 2 * (n - least) / span) if span else 1.0 for n in checked]
        smoothing = [tail + (head - tail) * height for height in heights]
        self.hold("smoothing", lambda: torch.tensor(smoothing, dtype=torch.float32))

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        log_p = logits.log_softmax(1)
        own = F.nll_loss(log_p, labels, reduction="none")
        smoothing = self.smoothing[labels]
        return (1 - smoothing) * own - smoothing * log_p.mean(1)

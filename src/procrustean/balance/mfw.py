"""Major Feature Weakening (Ye, Zhan, Chao 2021), for any training loop.

In yours:

    mfw = MFW(class_counts)
    handle = mfw.attach(model, "layer1")
    for images, labels in loader:
        with handle(labels):
            loss = criterion(model(images), labels)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from procrustean.balance.averaged_models import let_averages_follow
from procrustean.balance.class_tensors import HoldsConstants, refuse_outside
from procrustean.balance.count_facts import (
    Counts,
    Kind,
    Spread,
    checked_counts,
    geometric_mean,
    imbalance_kind,
    spread,
)
from procrustean.balance.mfw_attach import Attachment, recomputes
from procrustean.balance.mfw_layer_checks import attachable, gives_scores
from procrustean.balance.mixing import (
    Mix,
    beta_quantiles,
    blend,
    distributed_rank,
    draws_of_rank,
    from_uniform,
    inverse_permutation,
)
from procrustean.base.errors import ConfigError, DataError, one_of

#: Paper Sec. 5.2 (beta) and the best column of its alpha table.
DEFAULT_ALPHA: dict[Kind, float] = {"long_tailed": 1.0, "step": 5.0}
DEFAULT_BETA: dict[Kind, float] = {"long_tailed": 2.0, "step": 0.01}

SOFT_LABELS = (
    "labels that are no one-hot rows received (mixup, CutMix or label smoothing?): MFW mixes features and keeps each "
    "label whole; of a label of several classes it takes the mean strength, a combination in which the paper found no "
    "gain. Leave the mixing of labels out, or hand over class indices"
)

SCORES = (
    "gives the scores of the classes, and MFW is made for features: mixed scores weaken nothing that is learnt before "
    "them. Attach it to a layer further in front; procrustean.balance.suggest(model, images) names one"
)


def strength_of(counts: tuple[int, ...], *, beta: float, std: Spread = "geometric") -> list[float]:
    """s(N_c) of Eq. 7: 0.5 * sigmoid((N_c - mu) / (beta * gamma)), from 0 (minor) to 0.5 (major).

    With "log", N_c, mu and gamma are their logarithms. Equal counts have nothing to weaken: all zero.
    """
    if min(counts) == max(counts):
        return [0.0] * len(counts)
    mean, scale = geometric_mean(counts), beta * spread(counts, std)
    above = [math.log(n / mean) if std == "log" else n - mean for n in counts]
    # 0.5 * sigmoid(a) written with tanh, which saturates instead of overflowing: a reaches hundreds.
    return [0.25 * (1.0 + math.tanh(0.5 * distance / scale)) for distance in above]


class MFW(HoldsConstants):
    """Mixes a sample's feature with another's, the more so the larger its class; labels stay as they are.

    Args:
        counts: training images of each class, index = label.
        alpha: Beta(alpha, alpha) of the mixing share; 1.0 for long-tailed, 5.0 for step counts by default.
        beta: softness of the class strength; 2.0 for long-tailed, 0.01 for step counts by default
            (paper Sec. 5.2).
        kind: "long_tailed", "step", or "auto": decided by `procrustean.balance.count_facts.imbalance_kind`.
        std: which standard deviation Eq. 7 means, "geometric" or "arithmetic", or "log", the z-score of the logarithms
            of the counts, by which the strength falls evenly along a long tail.
        draw: "sample" draws one share per sample (Algorithm 1), "batch" one per batch.
        strength: s per class in [0, 0.5], instead of the formula.
        rank: whose random numbers to draw of processes that are seeded alike; that of torch.distributed by default.
            Processes that hold parts of the same samples, as under tensor parallelism, need one number for all.

    >>> mfw = MFW([5000, 5000, 50, 50])
    >>> mfw.kind, mfw.alpha, mfw.strength.tolist()
    ('step', 5.0, [0.5, 0.5, 0.0, 0.0])
    """

    strength: Tensor
    quantiles: Tensor

    def __init__(
        self,
        counts: Counts,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        kind: Literal["auto", "long_tailed", "step"] = "auto",
        std: Spread = "geometric",
        draw: Literal["sample", "batch"] = "sample",
        strength: Iterable[float] | Tensor | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__()
        one_of("kind", kind, ("auto", "long_tailed", "step"))
        one_of("std", std, get_args(Spread))
        one_of("draw", draw, ("sample", "batch"))
        self.counts = checked_counts(counts)
        self.kind: Kind = imbalance_kind(self.counts) if kind == "auto" else kind
        self.alpha = DEFAULT_ALPHA[self.kind] if alpha is None else float(alpha)
        self.beta = DEFAULT_BETA[self.kind] if beta is None else float(beta)
        self.std, self.draw, self.rank = std, draw, rank
        if not self.beta > 0:
            raise ConfigError(f"beta = {beta!r} received; the softness of the class strength has to be above 0")
        if strength is None:
            values = strength_of(self.counts, beta=self.beta, std=std)
        else:
            values = [float(s) for s in strength]
            if len(values) != len(self.counts) or any(not 0.0 <= s <= 0.5 for s in values):
                raise ConfigError(f"strength {values} received; give a number in [0, 0.5] for each class")
        self.hold("strength", lambda: torch.tensor(values, dtype=torch.float32))
        self.hold("quantiles", lambda: beta_quantiles(self.alpha))
        self.idle = not any(values)
        self._cuda_labels_checked = False
        self._warned: set[str] = set()
        if self.idle:
            self._warn("every class has strength 0 (equal counts or strength=0): MFW changes nothing")

    def extra_repr(self) -> str:
        settings = f"kind={self.kind}, alpha={self.alpha}, beta={self.beta}, std={self.std}, draw={self.draw}"
        return f"classes={len(self.counts)}, {settings}"

    def forward(self, z: Tensor, labels: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The weakened feature in training mode, z itself in evaluation; z is [B, ...], labels [B]."""
        if not self.training:
            return z
        if generator is not None and recomputes():
            raise ConfigError(
                "gradient checkpointing calls mfw(z, labels, generator) a second time, which would draw other numbers "
                "from that generator than the first; leave the generator out, call it outside the checkpointed part, "
                "or attach MFW to the layer: handle = mfw.attach(model, layer)"
            )
        mix = self.sample(labels, generator)
        if not self.idle and z.shape[:1] != labels.shape[:1]:
            raise DataError(f"{labels.shape[0]} labels for a feature of shape {tuple(z.shape)}; one label per row")
        return z if mix is None else blend(z, mix)

    def sample(self, labels: Tensor, generator: torch.Generator | None = None) -> Mix | None:
        """Draw partner and share for a batch of labels; None where there is nothing to mix.

        Args:
            labels: class indices [B], or class probabilities [B, C] of a loop that mixes its labels already.
            generator: source of the random numbers, on the labels' device, for any rank; the global one by default.
        """
        self._check_labels(labels)
        if generator is not None and not isinstance(generator, torch.Generator):
            raise ConfigError(f"generator = {generator!r} received; give a torch.Generator, or none")
        size, device = labels.shape[0], labels.device
        if self.idle:
            return None
        if size < 2:
            if size == 1:
                self._warn("a batch of one sample has no partner and passes unchanged")
            return None
        partner = torch.randperm(size, generator=generator, device=device)
        u = torch.rand(size if self.draw == "sample" else 1, generator=generator, device=device)
        if generator is None and (rank := distributed_rank() if self.rank is None else self.rank):
            partner, u = draws_of_rank(rank, partner, u)
        return Mix(partner, inverse_permutation(partner), self.share(labels, u))

    def share(self, labels: Tensor, u: Tensor) -> Tensor:
        """lambda of Algorithm 1, s(N_y) * Beta quantile, [B]; u: uniforms, [B] or [1] for one per batch."""
        self.follow(labels.device)
        if labels.dim() == 2:
            # Not `@`: autocast would round the strengths to bf16.
            own = (labels.to(self.strength.dtype) * self.strength).sum(1)
        else:
            own = self.strength[labels.long()]  # uint8 labels would be taken for a mask
        return own * from_uniform(self.quantiles, u)

    def attach(self, model: nn.Module, layer: str, *, labels: str | None = None) -> Attachment:
        """Weaken the output of a named layer of any model; returns the handle that takes the labels.

        Attach before torch.compile, gradient checkpointing or DistributedDataParallel wrap the model.

        Args:
            model: any module; its state dict stays as it is.
            layer: name of a layer, as `named_modules()` lists; `procrustean.balance.suggest` shows which there are.
            labels: for a model that is called with its labels, the name of that argument ("labels"); its loop then
                needs no `with handle(labels)`.
        """
        module = attachable(model, layer, labels)
        if gives_scores(model, module, len(self.counts)):
            self._warn(f"layer {layer!r} {SCORES}")
        handle = Attachment(self, model, module, layer)
        let_averages_follow()
        if labels is not None:
            handle.take_labels(model, labels)
        return handle

    def _check_labels(self, labels: Tensor) -> None:
        classes = len(self.counts)
        if not isinstance(labels, Tensor):
            raise DataError(f"labels of type {type(labels).__name__} received; give a tensor of class indices")
        if labels.dim() == 2 and labels.is_floating_point():
            if labels.shape[1] != classes:
                raise DataError(f"label probabilities of shape {tuple(labels.shape)} for {classes} classes")
            self._check_mixed(labels)
            return
        if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
            raise DataError(
                f"labels of shape {tuple(labels.shape)} and type {labels.dtype} received; give class indices, integers "
                "of shape [batch], or class probabilities, one-hot for example, as floats of shape [batch, classes]"
            )
        if self._may_read(labels):
            refuse_outside(labels, classes)

    def _check_mixed(self, labels: Tensor) -> None:
        """Say once that mixed labels are not what MFW was made for; one-hot rows are as good as indices."""
        if not self._may_read(labels):
            return
        sums = labels.sum(1, dtype=torch.float32)
        # The slack is for probabilities in bf16. NaN is refused, too: no comparison with it is true.
        if not bool((labels >= 0).all() & ((sums - 1).abs() < 0.01).all()):
            raise DataError(
                f"label rows with values from {float(labels.min()):g} to {float(labels.max()):g} and sums from "
                f"{float(sums.min()):g} to {float(sums.max()):g} received; class probabilities are 0 or more and add "
                "up to 1 in each row. Divide rows of samples with several classes by their sums, or hand over indices"
            )
        if SOFT_LABELS not in self._warned and bool(((labels != 0) & (labels != 1)).any()):
            self._warn(SOFT_LABELS, level=5)

    def _may_read(self, labels: Tensor) -> bool:
        if torch.compiler.is_compiling():
            return False  # a compiled model reads no values
        if labels.device.type == "cpu":
            return True
        # Reading device labels waits for the device: once is affordable, every batch is not.
        before, self._cuda_labels_checked = self._cuda_labels_checked, True
        return not before

    def _warn(self, text: str, level: int = 3) -> None:
        if text not in self._warned and not torch.compiler.is_compiling():  # compiled code cannot warn
            self._warned.add(text)
            warnings.warn(text, stacklevel=level)

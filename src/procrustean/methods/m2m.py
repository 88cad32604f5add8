"""M2m (Kim et al. 2020): images of large classes are translated into small ones, as a first network sees them."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.losses import LDAM
from procrustean.balance.objectives import Classify
from procrustean.balance.samplers import class_balanced
from procrustean.balance.types import Batch, Clock, Problem
from procrustean.base.epochs import whole_epochs
from procrustean.base.errors import ConfigError
from procrustean.base.random_numbers import scrambled
from procrustean.data.recipes import PAPER, ldam_schedule, published
from procrustean.methods.method import Method, Stage
from procrustean.nets.build import restart
from procrustean.nets.classifier import Classifier
from procrustean.nets.heads import CosineHead

#: Share of the epochs of f before it sees translated images; steps of a translation, their length; length of the noise.
START, STEPS, LENGTH, NOISE = 0.8, 10, 0.1, 0.5


class Translating(Classify):
    """The usual loss at first; then of the second stream, in which some images are replaced by translated ones."""

    compilable = False  # the network changes its mode within a step
    not_shown_again = "the batches of M2m are translated by a first network, which a run does not keep"
    counts: Tensor

    def __init__(self, counts: Sequence[int], *, beta: float, gamma: float, lam: float, loss: nn.Module | None) -> None:
        super().__init__(loss=loss)
        self.register_buffer("counts", torch.tensor(counts))
        self.beta, self.gamma, self.lam = beta, gamma, lam
        self.first: nn.Module = nn.Identity()  # g of the formula, once it is trained
        self.draws = {**self.draws, "translate": (4,)}

    def keep(self, net: nn.Module) -> None:
        """Take a copy of the network as g."""
        self.first = copy.deepcopy(net).eval().requires_grad_(False)

    def phase_at(self, epoch: int, epochs: int) -> int:
        return int(epoch >= whole_epochs(START, epochs))

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        if self.phase == 0:
            return super().forward(net, batch, clock)
        assert batch.extra is not None
        x, y = batch.extra
        return self.sample_loss(net(self.translated(net, batch).to(x.dtype)), y, batch).mean()

    def chances(self, y: Tensor) -> Tensor:
        """q of the formula: how welcome image j is as the origin of one of the class of image i, [B, B]."""
        more = (self.counts[y][None, :] - self.counts[y][:, None]).clamp(min=0)
        return -torch.expm1(more * math.log(self.beta))

    def translated(self, net: nn.Module, batch: Batch) -> Tensor:
        """The second stream with translated images in the places where they succeeded."""
        assert batch.extra is not None
        x, y = batch.extra
        mark, pick, accept, noise = batch.u["translate"].unbind(1)
        chances = self.chances(y)
        sums = chances.cumsum(1)
        origin = (sums <= (pick * sums[:, -1])[:, None]).sum(1).clamp(max=len(y) - 1)
        marked = (mark < 1 - self.counts[y] / self.counts.max()) & (sums[:, -1] > 0)
        black, white = batch.pixels or (x.new_zeros(()), x.new_ones(()))
        pixels = (x[origin] - black) / (white - black)
        # The authors' noise has a length per channel of the whole batch, so that of an image falls with their number.
        length = NOISE * math.sqrt(x.shape[1]) / marked.sum().clamp(min=1).sqrt()
        pixels = (pixels + length * _directions(noise, pixels)).clamp(0, 1)
        net.eval()
        for _ in range(STEPS):
            pixels = pixels.detach().requires_grad_()
            seen = black + pixels * (white - black)
            of_origin = net(seen).gather(1, y[origin][:, None]).sum()
            energy = F.cross_entropy(self.first(seen), y, reduction="sum") + self.lam * of_origin
            with torch.autocast(x.device.type, enabled=False):
                (slope,) = torch.autograd.grad(energy, pixels)
            slope = slope / (slope.flatten(1).norm(dim=1)[:, None, None, None] + 1e-10)
            pixels = (pixels - LENGTH * slope).detach().clamp(0, 1)
        net.train()
        seen = black + pixels * (white - black)
        with torch.no_grad():
            sure = self.first(seen).float().softmax(1).gather(1, y[:, None])[:, 0] >= self.gamma
        welcome = accept < chances.gather(1, origin[:, None])[:, 0]
        return torch.where((marked & sure & welcome)[:, None, None, None], seen, x)


def _directions(u: Tensor, like: Tensor) -> Tensor:
    """A direction of unit length per image: a hash of its random number and of the place of each pixel."""
    key = (u * 2**24).long()[:, None]
    bits = scrambled(key * 0x9E3779B1 + torch.arange(like[0].numel(), device=u.device) * 0x85EBCA77)
    return F.normalize(bits / 2.0**31 - 1, dim=1).view(like.shape)


def m2m(problem: Problem, *, beta: float = 0.999, gamma: float = 0.9, lam: float = 0.5, ldam: bool = False) -> Method:
    """Major-to-minor translation: images made for small classes, by descent on pixels, from those of large ones.

    Formula: g by ERM; f by ERM for 80 % of its epochs, then on classes drawn uniformly, where x_i of class k is
    replaced with probability 1 - N_k / N_max: x = x_j + noise, j ~ q_ij = 1 - beta^max(N_{y_j} - N_k, 0), then 10 times
    x <- x - 0.1 d / |d|, d = grad_x (CE(g(x), k) + lam * f(x)_{y_j}); used if softmax(g(x))_k >= gamma, and with
    probability q_ij; else x_i stays.

    Args:
        beta: how much larger the class of origin has to be; towards 1, by more images.
        gamma: probability of the new class by g from which a translated image is used.
        lam: weight of the score of the class of origin, which f is to lose.
        ldam: train f by the LDAM loss on a cosine classifier; g keeps a linear one.
    """
    if not (0 < beta < 1 and 0 <= gamma <= 1):
        raise ConfigError(f"beta = {beta!r}, gamma = {gamma!r} received; both lie between 0 and 1 (0.999, 0.9)")
    loss = LDAM(problem.counts, 0.5, 30.0, reduction="none") if ldam else None
    objective = Translating(problem.counts, beta=beta, gamma=gamma, lam=lam, loss=loss)

    def start_again(net: Classifier) -> None:
        objective.keep(net)
        if ldam:
            net.head = CosineHead(net.backbone.features, problem.classes)
        restart(net)

    second = Stage(objective, name="f", share=0.5, extra=class_balanced, reshape=start_again)
    longer = 2.0 if problem.source in PAPER else 1.0
    own = published(problem.source, {**ldam_schedule(), "epochs": 400})
    return Method((Stage(Classify(), name="g", share=0.5), second), "M2m" + "-LDAM" * ldam, longer=longer, own=own)

"""Stochastic gradient descent with momentum on flat parameters, deaf to non-finite values."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from procrustean.engine.parameters import FlatBuffers, FlatParameters


class SGD:
    """PyTorch's SGD (momentum, L2 weight decay, no dampening) as a few operations on one flat tensor.

    A non-finite loss, gradient, weight or statistic clears `healthy`; from then on updates change nothing, so the
    weights of the step before are kept. Nothing is read by the host.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        buffers: FlatBuffers,
        *,
        lr: Tensor,
        momentum: float,
        nesterov: bool,
        weight_decay: float,
        rates: Mapping[str, float] | None = None,
        no_decay: tuple[str, ...] = (),
    ) -> None:
        self.parameters, self.buffers = parameters, buffers
        self.lr, self.momentum, self.nesterov = lr, momentum, nesterov
        # Vectors along the flat tensor where a stage gives parameters rates or decays of their own.
        self.rate = parameters.by_name(rates) if rates else None
        self.decay = parameters.by_name(dict.fromkeys(no_decay, 0.0)) * weight_decay if no_decay else weight_decay
        self.velocity = torch.zeros_like(parameters.master)
        self.healthy = torch.ones((), dtype=torch.bool, device=lr.device)
        # Foreign networks may keep infinities on purpose, as masks; of those nothing can be told from the sum.
        self.watches_statistics = bool(torch.isfinite(buffers.flat).all())

    @torch.no_grad()
    def step(self, loss: Tensor, gradients: tuple[Tensor, ...]) -> None:
        """One update; `buffers.remember()` was called before the forward pass."""
        master, velocity = self.parameters.master, self.velocity
        gradient = self.parameters.collect(gradients)
        if isinstance(self.decay, Tensor):
            gradient.addcmul_(master, self.decay)
        else:
            gradient.add_(master, alpha=self.decay)
        faster = torch.add(gradient, velocity, alpha=self.momentum)
        descent = gradient.add(faster, alpha=self.momentum) if self.nesterov else faster
        if isinstance(self.rate, Tensor):
            descent = descent * self.rate
        updated = torch.addcmul(master, descent, self.lr, value=-1)
        # What is wrong with a gradient or a velocity shows in the weights they lead to, also an overflow of the update
        # itself. Statistics are summed up: they can overflow while the loss is finite, because batch normalisation
        # turns an infinite variance into zeros. The largest weight is not finite if any is not, and one comparison of a
        # single number is one small kernel; isfinite on all weights would be four large ones.
        watched = torch.linalg.vector_norm(updated, torch.inf) + loss
        if self.watches_statistics:
            watched = watched + self.buffers.flat.sum()
        self.healthy.logical_and_(watched.abs() < torch.inf)
        torch.where(self.healthy, faster, velocity, out=velocity)
        torch.where(self.healthy, updated, master, out=master)
        self.buffers.restore_unless(self.healthy)
        self.parameters.refresh()

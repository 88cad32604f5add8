"""A step of gradient descent that is only tried out, and can be differentiated: what two-level methods learn from."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.func import functional_call


class Lookahead:
    """A network with parameters that may be functions of others; its own parameters and statistics stay as they are."""

    def __init__(self, net: nn.Module, parameters: Mapping[str, Tensor] | None = None) -> None:
        self.net = net
        learns = {name: parameter for name, parameter in net.named_parameters() if parameter.requires_grad}
        self.parameters: Mapping[str, Tensor] = learns if parameters is None else parameters

    def scores(self, x: Tensor) -> Tensor:
        """What the network makes of images, normalised as it is while training."""
        statistics = {name: buffer.clone() for name, buffer in self.net.named_buffers()}
        scores: Tensor = functional_call(self.net, {**self.parameters, **statistics}, (x,))
        return scores

    def after(self, loss: Tensor, rate: Tensor) -> Lookahead:
        """The network after one plain step (no momentum, no weight decay) on a loss of these parameters."""
        # Gradients have the types of the forward pass; autocast must not cast once more.
        with torch.autocast(loss.device.type, enabled=False):
            gradients = torch.autograd.grad(loss, tuple(self.parameters.values()), create_graph=True)
            moved = {
                name: _wide(parameter) - rate * _wide(gradient)
                for (name, parameter), gradient in zip(self.parameters.items(), gradients, strict=True)
            }
        return Lookahead(self.net, moved)


def _wide(values: Tensor) -> Tensor:
    """At least float32: the step would be lost in the rounding of bf16 weights."""
    return values.to(torch.promote_types(values.dtype, torch.float32))

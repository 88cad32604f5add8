"""A step of gradient descent that is only tried out: what it would do to other samples, which two-level methods learn
from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from procrustean.balance.class_tensors import widened
from procrustean.balance.types import Batch
from procrustean.nets.blocks import library_kernels


def effects(net: nn.Module, batch: Batch, minimised: Callable[[Tensor], Tensor], rate: Tensor) -> tuple[Tensor, Tensor]:
    """The losses l_i of a batch, [B], and how much more of each would help or harm the batch's second stream, [B].

    With w' = w - rate * grad_w L for L = minimised(l), a plain step, and m the mean cross-entropy of w' on the second
    stream, the second are the derivatives of m by dL/dl_i: -rate * <grad m(w'), grad l_i(w)>. These products with the
    gradients of single samples are the derivatives of all losses along one direction, grad m(w'): one pass of forward
    differentiation, where differentiating the step itself would go backwards through a backward pass.
    """
    assert batch.extra is not None
    weights = {name: parameter for name, parameter in net.named_parameters() if parameter.requires_grad}
    losses = F.cross_entropy(_scores(net, weights, batch.x), batch.y, reduction="none")
    slopes = _gradients(minimised(losses), weights.values())
    ahead = {
        # Widened, the step is rounded once, not twice.
        name: (widened(weight) - rate * widened(slope)).to(weight.dtype).detach().requires_grad_()
        for (name, weight), slope in zip(weights.items(), slopes, strict=True)
    }
    direction = _gradients(
        F.cross_entropy(_scores(net, ahead, batch.extra.x), batch.extra.y), ahead.values()
    )  # fmt: skip
    # Of the kernels, the library's can be differentiated forwards, ours not, and of those for attention the plain one.
    with forward_ad.dual_level(), library_kernels(net), sdpa_kernel(SDPBackend.MATH):
        duals = {
            name: forward_ad.make_dual(weight.detach(), along)
            for (name, weight), along in zip(weights.items(), direction, strict=True)
        }
        along = F.cross_entropy(_scores(net, duals, batch.x), batch.y, reduction="none")
        derivatives: Tensor = forward_ad.unpack_dual(along).tangent
    return losses.detach(), -rate * derivatives


def _scores(net: nn.Module, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """What the network makes of images with these weights, normalised as in training; its own statistics stay."""
    statistics = {name: buffer.clone() for name, buffer in net.named_buffers()}
    scores: Tensor = functional_call(net, {**weights, **statistics}, (x,))
    return scores


def _gradients(loss: Tensor, weights: Iterable[Tensor]) -> tuple[Tensor, ...]:
    # Gradients have the types of the forward pass; autocast must not cast once more.
    with torch.autocast(loss.device.type, enabled=False):
        return torch.autograd.grad(loss, tuple(weights))

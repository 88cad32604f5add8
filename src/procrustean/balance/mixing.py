"""Blend the samples of a batch with their partners, at any layer, by shares from a Beta distribution.

MFW, mixup, manifold mixup and Remix are this one mechanism with different weights, layers and labels.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from procrustean.base.errors import ConfigError, LayerError
from procrustean.base.random_numbers import scrambled


class Mix(NamedTuple):
    """Sample n becomes (1 - weight[n]) * own + weight[n] * that of sample partner[n]."""

    partner: Tensor  # [B] int64, a permutation
    inverse: Tensor  # [B] int64, its inverse: the backward pass gathers instead of scattering
    weight: Tensor  # [B] float32, the partner's share


def inverse_permutation(partner: Tensor) -> Tensor:
    """The permutation that undoes `partner`, [B]."""
    inverse = torch.empty_like(partner)
    return inverse.scatter_(0, partner, torch.arange(len(partner), device=partner.device))


class _Combine(torch.autograd.Function):
    """own[n] * rows[n] + other[n] * rows[index[n]] for a permutation `index`.

    Its gradient is the same operation with the inverse permutation: a gather, deterministic, without atomics.
    """

    @staticmethod
    def forward(rows: Tensor, own: Tensor, other: Tensor, index: Tensor, inverse: Tensor) -> Tensor:
        if not torch.compiler.is_compiling() and rows.is_cuda and _has_kernel():
            from procrustean.balance.mix_kernel import combine_rows, covers

            if covers(rows):
                return combine_rows(rows, own, other, index)
        # index_select returns its result in the default layout; a channels-last map is gathered as [B, H, W, C].
        if rows.dim() == 4 and rows.is_contiguous(memory_format=torch.channels_last):
            gathered = rows.permute(0, 2, 3, 1).index_select(0, index).permute(0, 3, 1, 2)
        else:
            gathered = rows.index_select(0, index)
        shape = (-1, *[1] * (rows.dim() - 1))
        combined = rows * own.view(shape) + gathered * other.view(shape)
        # Not `.to` where nothing is to be done: it would give one tensor two names, and of a Function that has such a
        # tensor PyTorch 2.11 loses the gradient when it is compiled, without a word (pytorch#180642).
        return combined if combined.dtype == rows.dtype else combined.to(rows.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        own, other, index, inverse = ctx.saved_tensors
        combined = _Combine.apply(gradients[0], own, other[inverse], inverse, index)  # type: ignore[no-untyped-call]
        return combined, None, None, None, None


@cache
def _has_kernel() -> bool:
    return find_spec("triton") is not None


def blend(z: Tensor, mix: Mix) -> Tensor:
    """(1 - weight) * z + weight * z[partner], the gradient flowing through both; z is [B, ...]."""
    weight = mix.weight.to(torch.promote_types(z.dtype, torch.float32))
    blended: Tensor = _Combine.apply(z, 1 - weight, weight, mix.partner, mix.inverse)  # type: ignore[no-untyped-call]
    return blended


def feature_of(output: Any) -> Tensor | None:
    """What is mixed of a layer's output: the tensor, or the first of a tuple or list; None where nothing can be.

    Blocks of transformers return (hidden states, attention weights, ...), of which the first goes on to the next block.
    Where another element is a feature too, as the branches of an HRNet, a class token beside the others or the last
    state of a GRU are, the first alone would be the network mixed in part: nothing is, then.
    """
    first = output[0] if isinstance(output, tuple | list) and len(output) else output
    if not isinstance(first, Tensor) or not first.is_floating_point():
        return None
    return None if first is not output and _another_feature(output[1:], first) else first


def with_feature(output: Any, feature: Tensor) -> Any:
    """The output of a layer with another feature in place of its own; everything else as it was."""
    if isinstance(output, Tensor):
        return feature
    kind, elements = type(output), (feature, *output[1:])
    return kind(*elements) if hasattr(output, "_fields") else kind(elements)  # the first is a named tuple


def _another_feature(elements: Any, first: Tensor) -> bool:
    """Whether a feature of the same samples is among them, or in tuples and lists among them."""
    for element in elements:
        if isinstance(element, tuple | list):
            if _another_feature(element, first):
                return True
        elif isinstance(element, Tensor) and element.is_floating_point() and _of_the_same_samples(element, first):
            return True
    return False


def _of_the_same_samples(tensor: Tensor, first: Tensor) -> bool:
    """Whether a tensor goes on beside the first, with the batch in front; losses and attention weights do not.

    Nor do weights of the layer, such as a codebook, which may happen to have as many rows as the batch.
    """
    if tensor.dim() < 2 or first.dim() < 2 or isinstance(tensor, nn.Parameter) or _is_attention(tensor, first):
        return False
    # The states of recurrent layers have the batch as their second dimension, whatever the output has.
    return first.shape[0] in (tensor.shape[:2] if tensor.dim() == first.dim() else tensor.shape[:1])


def _is_attention(tensor: Tensor, first: Tensor) -> bool:
    """Whether a tensor has a row and a column for every token of [B, T, C], or place of a map [B, C, H, W]."""
    places = first.shape[1] if first.dim() == 3 else math.prod(first.shape[2:])
    return tensor.dim() > 2 and tensor.shape[-2] == places and tensor.shape[-1] == places


class MixPoint:
    """A forward hook on one layer that blends its output with the current mix; without one it does nothing.

    It is a hook, not a wrapper, so the keys of the state dict stay as they are.
    """

    def __init__(self, module: nn.Module, name: str) -> None:
        self.name = name
        self.mix: Mix | None = None
        self._registration = module.register_forward_hook(self._hook)

    def _hook(self, module: nn.Module, args: Any, output: Any) -> Any:
        mix = self.current(module, output)
        return output if mix is None else with_feature(output, blend(self.checked(output, len(mix.partner)), mix))

    def current(self, module: nn.Module, output: Any) -> Mix | None:
        """The mix to apply now, to this output."""
        return self.mix

    def checked(self, output: Any, labels: int) -> Tensor:
        """The feature in the layer's output if it can be mixed by so many labels, else a LayerError."""
        feature = feature_of(output)
        if feature is None:
            raise LayerError(
                f"layer {self.name!r} returns {_kind_of(output)}; choose a layer whose output is one tensor with the "
                "batch as its first dimension, or a tuple that begins with one and has no other like it"
            )
        if feature.dim() == 0 or feature.shape[0] != labels:
            raise LayerError(
                f"layer {self.name!r} returns shape {tuple(feature.shape)} for {labels} labels; "
                "its first dimension has to be the batch the labels belong to (nn.DataParallel splits it, "
                "DistributedDataParallel does not)"
            )
        return feature

    def remove(self) -> None:
        """Take the hook off the layer."""
        self._registration.remove()


def _kind_of(output: Any) -> str:
    """What a layer returns that cannot be mixed, in words."""
    if not isinstance(output, tuple | list):
        return f"{type(output).__name__}, not a floating-point tensor"
    if output and isinstance(output[0], Tensor) and output[0].is_floating_point():
        return f"{type(output).__name__} with several features, of which the first alone would be mixed"
    return f"{type(output).__name__} that does not begin with a floating-point tensor"


#: Shares are looked up in a table: one device operation that draws the same numbers on CPU and GPU, takes any
#: generator, and can be captured or compiled. The samplers behind torch.distributions.Beta do none of these reliably.
TABLE_SIZE = 4096
_GRID = 1 << 16


@lru_cache(maxsize=64)
def _quantiles(alpha: float) -> Tensor:
    """Mid-quantiles of Beta(alpha, alpha), float64 [TABLE_SIZE]."""
    # On the logit scale v = log(x / (1 - x)) the density (x (1 - x))^alpha is smooth for any alpha; on [0, 1]
    # it has poles for alpha < 1. Its tails fall like exp(-alpha |v|), its core is sqrt(2 / alpha) wide.
    reach = 40.0 / alpha + 8.0 * (2.0 / alpha) ** 0.5
    # On the CPU whatever the default device is: the table is kept for models of any device.
    v = torch.linspace(-reach, reach, _GRID, dtype=torch.float64, device="cpu")
    log_x, log_rest = torch.nn.functional.logsigmoid(v), torch.nn.functional.logsigmoid(-v)
    density = (alpha * (log_x + log_rest + 2 * math.log(2.0))).exp()
    cumulative = torch.cat([density.new_zeros(1), torch.cumulative_trapezoid(density, v)])
    cumulative = cumulative / cumulative[-1]
    wanted = (torch.arange(TABLE_SIZE, dtype=torch.float64, device="cpu") + 0.5) / TABLE_SIZE
    right = torch.searchsorted(cumulative, wanted).clamp(1, _GRID - 1)
    left = right - 1
    share = (wanted - cumulative[left]) / (cumulative[right] - cumulative[left])
    return torch.sigmoid(torch.lerp(v[left], v[right], share))


def beta_quantiles(alpha: float) -> Tensor:
    """Table of Beta(alpha, alpha) quantiles, float32 [4096]; every entry is equally likely.

    >>> table = beta_quantiles(1.0)
    >>> table.shape, round(table.mean().item(), 4)
    (torch.Size([4096]), 0.5)
    """
    if not 0.001 <= alpha <= 10_000:
        raise ConfigError(f"alpha = {alpha!r} received; Beta(alpha, alpha) needs alpha from 0.001 to 10000")
    return _quantiles(float(alpha)).to(torch.get_default_device(), torch.float32)


def from_uniform(table: Tensor, u: Tensor) -> Tensor:
    """Beta draws for uniforms u in [0, 1), same shape as u."""
    return table[(u * TABLE_SIZE).long().clamp_(max=TABLE_SIZE - 1)]


def distributed_rank() -> int:
    """The rank of this process; 0 where there is but one."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def draws_of_rank(rank: int, partner: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Partners and uniforms of a rank above 0, made of those that all ranks have drawn.

    Not drawn from a generator of its own: the global one is what recomputation restores and CUDA graphs capture, and it
    goes on alike on all ranks. Both numbers are used, because compiled code leaves out draws that nobody uses.
    """
    own = scrambled((u * 2**24).long() + rank * 0x9E3779B1)
    order = scrambled(own + (partner + 1) * 0x85EBCA77)
    return order.argsort(), (own >> 8) * 2.0**-24

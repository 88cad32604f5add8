"""The unit that small residual networks are made of, with a plain and a fast way to compute it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from procrustean.nets.kernels.passes import Norm


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation without the counter of batches, which costs a kernel per layer and step and is only read
    when the momentum is None."""

    def __init__(self, channels: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__(channels, eps, momentum)
        self.num_batches_tracked = None

    def _load_from_state_dict(self, state_dict, prefix, *args) -> None:  # type: ignore[no-untyped-def]
        state_dict.pop(prefix + "num_batches_tracked", None)
        # The parent's version would ask for the counter again.
        nn.Module._load_from_state_dict(self, state_dict, prefix, *args)


class FusableUnit(nn.Module):
    """relu(norm(conv3x3(x)) + residual), by PyTorch's operations or by hand-written kernels."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.norm = norm
        self.stride = stride
        self.fused = False  # set by use_fused_kernels
        self._tickets: Tensor | None = None

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        if not self.can_fuse(x):
            y = self.norm(self.conv(x))
            return F.relu(y if residual is None else y + residual)
        if residual is not None:
            residual = residual.to(x.dtype).contiguous(memory_format=torch.channels_last)
        return self.by_kernels(x.contiguous(memory_format=torch.channels_last), residual)

    def can_fuse(self, x: Tensor) -> bool:
        """Whether the hand-written kernels may take this unit's place for this input."""
        if not (self.fused and self.training):  # evaluation uses the running statistics
            return False
        # The kernels bypass the two modules, so a hook on them would be lost.
        if any(module._forward_hooks or module._forward_pre_hooks for module in (self.conv, self.norm)):
            return False
        return self.covered(x)

    def covered(self, x: Tensor) -> bool:
        """Whether there are kernels for this layer and input."""
        raise TypeError(f"{type(self).__name__} does not say which layers its kernels cover: override covered")

    def by_kernels(self, x: Tensor, residual: Tensor | None) -> Tensor:
        """The output; both inputs are channels last."""
        raise TypeError(f"{type(self).__name__} has no kernels: override by_kernels")

    @property
    def tickets(self) -> Tensor:
        """[2] int32, zeros between launches: what the programs of a launch count each other with."""
        if self._tickets is None or self._tickets.device != self.conv.weight.device:
            self._tickets = torch.zeros(2, dtype=torch.int32, device=self.conv.weight.device)
        return self._tickets


class ConvNormReLU(FusableUnit):
    """The unit with batch normalisation."""

    norm: BatchNorm

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, stride, BatchNorm(outputs))

    def covered(self, x: Tensor) -> bool:
        from procrustean.nets.kernels.passes import supported

        return supported(x, self.conv.weight, self.stride)

    def by_kernels(self, x: Tensor, residual: Tensor | None) -> Tensor:
        from procrustean.nets.kernels.conv_bn_relu import ConvBnReLU

        norm = self.norm
        out: Tensor = ConvBnReLU.apply(  # type: ignore[no-untyped-call]
            x, self.conv.weight, norm.weight, norm.bias, residual, self.kernel_norm(), self.stride
        )
        return out

    def kernel_norm(self) -> Norm:
        """What the kernels need of the normalisation."""
        from procrustean.nets.kernels.passes import Norm

        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.momentum is not None
        return Norm(
            norm.weight, norm.bias, norm.running_mean, norm.running_var, norm.momentum, norm.eps, self.tickets
        )  # fmt: skip


class ConvGroupNormReLU(FusableUnit):
    """The unit with group normalisation: no statistics of batches."""

    norm: nn.GroupNorm

    def __init__(self, inputs: int, outputs: int, stride: int = 1, *, groups: int) -> None:
        super().__init__(inputs, outputs, stride, nn.GroupNorm(groups, outputs))

    def covered(self, x: Tensor) -> bool:
        from procrustean.nets.kernels.conv_gn_relu import supported

        return supported(x, self.conv.weight, self.stride)

    def by_kernels(self, x: Tensor, residual: Tensor | None) -> Tensor:
        from procrustean.nets.kernels.conv_gn_relu import ConvGnReLU

        norm = self.norm
        out: Tensor = ConvGnReLU.apply(  # type: ignore[no-untyped-call]
            x, self.conv.weight, norm.weight, norm.bias, residual, norm.num_groups, norm.eps, self.tickets, self.stride
        )
        return out


def use_fused_kernels(net: nn.Module, on: bool) -> None:
    """Compute the units of a network by hand-written kernels where they apply, or by PyTorch's."""
    for module in net.modules():
        if isinstance(module, FusableUnit):
            module.fused = on


@contextmanager
def library_kernels(net: nn.Module) -> Iterator[None]:
    """Inside it the units are computed by PyTorch's kernels, whatever computes them otherwise."""
    fused = [module for module in net.modules() if isinstance(module, FusableUnit) and module.fused]
    for module in fused:
        module.fused = False
    try:
        yield
    finally:
        for module in fused:
            module.fused = True

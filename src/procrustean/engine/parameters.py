"""The state of a network as flat tensors: float32 masters, bf16 working copies, gradients, statistics.

One tensor each instead of a hundred: an update is a handful of operations, a NaN check one more, and saving
and restoring are copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

#: Layers whose arithmetic autocast does in low precision; all others keep float32 parameters.
_LOW_PRECISION_LAYERS = (nn.Linear, nn.modules.conv._ConvNd)


class FlatParameters:
    """Owns the storage of a network's trainable parameters.

    Each parameter becomes a view of one flat tensor, in channels-last order for convolutions. With
    `low_precision` the weights of convolutions and linear layers are bf16 copies of float32 masters, so that
    autocast has nothing to cast.
    """

    def __init__(self, net: nn.Module, names: Sequence[str], low_precision: torch.dtype | None) -> None:
        low = _low_precision_names(net) if low_precision else set()
        parameters = dict(net.named_parameters())
        # Low-precision ones first, so that refreshing them is one copy of a contiguous part of the masters.
        self.names = sorted(names, key=lambda name: name not in low)
        self.parameters = [parameters[name] for name in self.names]
        device = self.parameters[0].device
        sizes = [p.numel() for p in self.parameters]
        self.master = torch.empty(sum(sizes), device=device)
        self.gradient = torch.zeros_like(self.master)
        self.views = [_like(part, p) for part, p in zip(self.master.split(sizes), self.parameters, strict=True)]
        self._low_count = sum(name in low for name in self.names)
        count = sum(size for name, size in zip(self.names, sizes, strict=True) if name in low)
        self._low = torch.empty(count, device=device, dtype=low_precision or torch.float32)
        low_parts = iter(self._low.split([s for n, s in zip(self.names, sizes, strict=True) if n in low]))
        with torch.no_grad():
            for name, parameter, view in zip(self.names, self.parameters, self.views, strict=True):
                view.copy_(parameter)
                parameter.data = _like(next(low_parts), parameter) if name in low else view
        self.refresh()

    @torch.no_grad()
    def collect(self, gradients: Sequence[Tensor]) -> Tensor:
        """Gather the gradients of all parameters into one flat float32 tensor."""
        # Two concatenations and one cast, instead of a copy kernel for each of a hundred parameters.
        flat = [_flattened(gradient) for gradient in gradients]
        if self._low_count:
            self.gradient[: len(self._low)].copy_(torch.cat(flat[: self._low_count]))
        if self._low_count < len(flat):
            torch.cat(flat[self._low_count :], out=self.gradient[len(self._low) :])
        return self.gradient

    @torch.no_grad()
    def refresh(self) -> None:
        """Bring the working copies up to date with the masters."""
        if len(self._low):
            self._low.copy_(self.master[: len(self._low)])

    def named(self, flat: Tensor) -> Iterator[tuple[str, Tensor]]:
        """The parts of a flat tensor of this layout by parameter name, in the parameters' shapes."""
        sizes = [p.numel() for p in self.parameters]
        for name, part, parameter in zip(self.names, flat.split(sizes), self.parameters, strict=True):
            yield name, _like(part, parameter)

    def by_name(self, factors: Mapping[str, float]) -> Tensor:
        """A flat tensor with the factor whose key a parameter's name begins with, by the longest key; 1 without one."""
        flat = torch.empty_like(self.master)
        for name, part in self.named(flat):
            keys = [key for key in factors if name == key or name.startswith(key + ".")]
            part.fill_(factors[max(keys, key=len)] if keys else 1.0)
        return flat

    def release(self) -> None:
        """Give the network ordinary float32 parameters of its own again."""
        for parameter, view in zip(self.parameters, self.views, strict=True):
            parameter.data = view.clone(memory_format=torch.contiguous_format)


class FlatBuffers:
    """A network's floating-point buffers (batch-norm statistics) as views of one flat tensor."""

    def __init__(self, net: nn.Module, device: torch.device) -> None:
        found = [
            (path, module, key, buffer)
            for path, module in net.named_modules()
            for key, buffer in module._buffers.items()
            if buffer is not None and buffer.is_floating_point()
        ]
        self.names = [f"{path}.{key}" if path else key for path, _, key, _ in found]
        self.shapes = [buffer.shape for *_, buffer in found]
        places = [(module, key, buffer) for _, module, key, buffer in found]
        self.flat = torch.empty(sum(b.numel() for _, _, b in places), device=device)
        self.previous = torch.empty_like(self.flat)
        parts = self.flat.split([b.numel() for _, _, b in places]) if places else ()
        for (module, key, buffer), part in zip(places, parts, strict=True):
            # As .data: views share one count of changes, and autograd would take a change of any buffer during the
            # forward pass for a change of the statistics that batch normalisation has saved.
            module._buffers[key] = part.view(buffer.shape).copy_(buffer).data

    def named(self, flat: Tensor) -> Iterator[tuple[str, Tensor]]:
        """The parts of a flat tensor of this layout by buffer name, in the buffers' shapes."""
        parts = flat.split([shape.numel() for shape in self.shapes]) if self.shapes else ()
        for name, part, shape in zip(self.names, parts, self.shapes, strict=True):
            yield name, part.view(shape)

    def remember(self) -> None:
        """Keep the values of now."""
        self.previous.copy_(self.flat)

    def restore(self) -> None:
        """Go back to the remembered values."""
        self.flat.copy_(self.previous)

    def restore_unless(self, good: Tensor) -> None:
        """Go back to the remembered values where `good` (0-d bool) is false."""
        torch.where(good, self.flat, self.previous, out=self.flat)


def _low_precision_names(net: nn.Module) -> set[str]:
    return {
        f"{path}.{name}" if path else name
        for path, module in net.named_modules()
        if isinstance(module, _LOW_PRECISION_LAYERS)
        for name, _ in module.named_parameters(recurse=False)
    }


def _like(part: Tensor, parameter: Tensor) -> Tensor:
    """View a flat part in the parameter's shape, 4-d ones channels last."""
    if parameter.dim() == 4:
        out, inputs, height, width = parameter.shape
        return part.view(out, height, width, inputs).permute(0, 3, 1, 2)
    return part.view(parameter.shape)


def _flattened(gradient: Tensor) -> Tensor:
    """A gradient in the order of its part of the flat tensor; a view where it is channels last already."""
    return (gradient.permute(0, 2, 3, 1) if gradient.dim() == 4 else gradient).reshape(-1)

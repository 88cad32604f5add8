"""Tensors that follow from a module's settings, such as a number for each class, and are no part of its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn


class HoldsConstants(nn.Module):
    """Has constants as attributes that move with the module, as its weights do.

    They are no buffers. A state dict has no place for these, so where a model is built without memory and filled from a
    file (`to_empty`, `from_pretrained` of transformers), such buffers are left with whatever the memory held before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._constants: dict[str, Tensor] = {}  # the originals, on the CPU

    def hold(self, name: str, make: Callable[[], Tensor]) -> None:
        """Make a constant the attribute `name`; on the default device, unless that has no memory."""
        with torch.device("cpu"):
            original = make()
        device = torch.get_default_device()
        self._constants[name] = original
        setattr(self, name, original if device.type == "meta" else original.to(device))

    def follow(self, device: torch.device) -> None:
        """Move the module to a device, if its constants are not there."""
        if any(getattr(self, name).device != device for name in self._constants):
            self.to(device)

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Self:
        super()._apply(fn, *args, **kwargs)  # type: ignore[no-untyped-call]
        for name, original in self._constants.items():
            now = getattr(self, name)
            # Of what `fn` makes of a tensor, device and type are all that counts: it may leave the values behind.
            then = fn(torch.empty(0, dtype=now.dtype, device="cpu" if now.is_meta else now.device))
            setattr(self, name, original.to(then.device, then.dtype))
        return self

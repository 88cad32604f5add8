"""Numbers for each class: tensors that move with a module, labels that index them, the precision of their sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from procrustean.base.errors import DataError


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


def check_label_range(labels: Tensor, classes: int) -> None:
    """Refuse labels outside of 0 to classes - 1.

    Values are read on the CPU alone, where that waits for nothing; on a GPU PyTorch's own kernels stop at them.
    """
    if labels.device.type == "cpu" and not torch.compiler.is_compiling():
        refuse_outside(labels, classes)


def refuse_outside(labels: Tensor, classes: int) -> None:
    """Refuse labels outside of 0 to classes - 1, wherever they are."""
    if not labels.numel():
        return
    # As int64: PyTorch compares no unsigned integers of 16 bits or more.
    lowest, highest = (int(value) for value in labels.long().aminmax())
    if lowest < 0 or highest >= classes:
        raise DataError(
            f"labels from {lowest} to {highest} received, but there are {classes} classes; labels count from 0, one "
            "class count each, and rows without a label have to be left out: none is ignored"
        )


def widened(values: Tensor) -> Tensor:
    """In float32, or float64 if they are."""
    return values.to(torch.promote_types(values.dtype, torch.float32))

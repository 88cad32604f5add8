"""Labels that name no class, which indexing would take for another one or end in a bare error."""

from __future__ import annotations

import torch
from torch import Tensor

from procrustean.base.errors import DataError


def check_label_range(labels: Tensor, classes: int) -> None:
    """Refuse labels outside of 0 to classes - 1.

    Values are read on the CPU alone, where that waits for nothing; on a GPU PyTorch's own kernels stop at them.
    """
    if labels.device.type != "cpu" or torch.compiler.is_compiling() or not labels.numel():
        return
    # As int64: PyTorch compares no unsigned integers of 16 bits or more.
    lowest, highest = (int(value) for value in labels.long().aminmax())
    if lowest < 0 or highest >= classes:
        raise DataError(
            f"label {lowest if lowest < 0 else highest} received, but there are {classes} classes; labels count from "
            "0, and rows without a label have to be left out: none is ignored"
        )

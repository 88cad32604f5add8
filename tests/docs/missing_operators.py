"""What lets torchvision be imported beside a PyTorch without CUDA: none of its wheels on PyPI loads there.

Its compiled part is missing then, and with it two operators that its Python part registers shapes for. Declared, but
never called, they are enough for the models; timm, Lightning and transformers import torchvision too.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch

_kept = []  # a library's operators go away with it


def declare_missing_operators() -> None:
    """Declare them, if torchvision is installed and its own do not load."""
    spec = find_spec("torchvision")
    if _kept or spec is None or spec.origin is None:
        return
    try:
        for compiled in Path(spec.origin).parent.glob("_C*.so"):
            torch.ops.load_library(compiled)
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept.append(library)

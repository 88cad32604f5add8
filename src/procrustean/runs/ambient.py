"""What a program has set for its own use of torch, kept out of the runs that it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside, gradients are on, autocast is off, new tensors are float32 and on the CPU, whatever holds outside.

    Products of float32 matrices are computed in float32, too, and convolutions on a GPU as PyTorch does by default.

    A run computes the same in every program, or `precision` and the seed would not say what it is.
    """
    before = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))  # a generator of another device draws other weights
        stack.enter_context(_whole_products())
        stack.enter_context(_usual_convolutions())
        stack.callback(torch.set_default_dtype, before)
        torch.set_default_dtype(torch.float32)
        yield


@contextmanager
def _whole_products() -> Iterator[None]:
    """Undo `torch.set_float32_matmul_precision`, by which programs allow TF32 and bf16 in products of float32."""
    if (before := _products()) == "highest":
        yield
        return
    parts = (torch.backends.mkldnn.matmul, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
    each = [part.fp32_precision for part in parts]
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        for part, precision in zip(parts, each, strict=True):
            part.fp32_precision = precision


@contextmanager
def _usual_convolutions() -> Iterator[None]:
    """Undo what programs say of float32 in cuDNN's convolutions, which take TF32 unless they are told otherwise."""
    cudnn: Any = torch.backends.cudnn
    usual: bool | str
    try:
        before = cudnn.allow_tf32
        place, name, usual = cudnn, "allow_tf32", True
    except RuntimeError:  # set by the newer name, beside which the older one cannot be asked for
        before = cudnn.conv.fp32_precision
        place, name, usual = cudnn.conv, "fp32_precision", "tf32"
    setattr(place, name, usual)
    try:
        yield
    finally:
        setattr(place, name, before)


def _products() -> str | None:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # set for one kind of device alone, which has no common name
        return None

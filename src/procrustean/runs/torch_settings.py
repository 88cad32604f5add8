"""What a program has set for its own use of torch, kept out of the runs that it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside, gradients are on, autocast is off, new tensors are float32 and on the CPU, whatever holds outside.

    Products of float32 matrices are computed in float32, too, and convolutions as PyTorch does by default.

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
        stack.enter_context(_usual_float32())
        stack.callback(torch.set_default_dtype, before)
        torch.set_default_dtype(torch.float32)
        yield


@contextmanager
def _usual_float32() -> Iterator[None]:
    """Undo what programs say of float32: for all operations, for those of a library, for single kinds of operations.

    The general settings come first. Without them a kind of operation shows what was set for itself, and gets that back:
    what it had inherited, once set for itself, would no longer follow when the program changes the general setting.
    """
    backends: Any = torch.backends
    with ExitStack() as stack:
        for general in (backends, backends.cudnn, backends.mkldnn):
            stack.enter_context(_precision(general, "none"))
        stack.enter_context(_whole_products())
        stack.enter_context(_precision(backends.mkldnn.conv, "none"))
        stack.enter_context(_usual_cudnn())
        yield


@contextmanager
def _precision(place: Any, wanted: str) -> Iterator[None]:
    """A setting of float32, put back afterwards; one that is as wanted is left alone, as its default may be."""
    if (before := place.fp32_precision) == wanted:
        yield
        return
    place.fp32_precision = wanted
    try:
        yield
    finally:
        place.fp32_precision = before


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
def _usual_cudnn() -> Iterator[None]:
    """Undo what programs say of float32 in cuDNN's convolutions, which take TF32 unless they are told otherwise."""
    cudnn: Any = torch.backends.cudnn
    try:
        allowed = cudnn.allow_tf32
    except RuntimeError:  # set by the newer names, beside which the older one cannot be asked for
        allowed = None
    if allowed is not False:
        with _precision(cudnn.conv, "tf32"):
            yield
        return
    each = [(part, part.fp32_precision) for part in (cudnn.conv, cudnn.rnn)]
    cudnn.allow_tf32 = True  # by the name that the program used, or it could not be asked for meanwhile
    try:
        yield
    finally:
        cudnn.allow_tf32 = False
        for part, precision in each:
            part.fp32_precision = precision


def _products() -> str | None:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:  # set for one kind of device alone, which has no common name
        return None

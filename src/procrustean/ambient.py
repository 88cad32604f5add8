"""What a program has set for its own use of torch, kept out of the runs that it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside, gradients are on, autocast is off, new tensors are float32 and on the CPU, whatever holds outside.

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
        stack.callback(torch.set_default_dtype, before)
        torch.set_default_dtype(torch.float32)
        yield

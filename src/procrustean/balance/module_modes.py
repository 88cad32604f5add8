"""Training and evaluation mode of the parts of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def kept_modes(model: nn.Module) -> Iterator[None]:
    """Whatever happens to the modes inside, each part has its own again outside: a frozen part stays in evaluation."""
    before = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in before:
            module.training = training

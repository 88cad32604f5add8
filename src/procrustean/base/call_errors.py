"""Whether a model can be called with given arguments, told apart from what goes wrong inside it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn


def call_mismatch(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    """Why a model's forward pass does not take these arguments; None if it does, or if that cannot be told.

    A TypeError of the call itself and one inside the model read alike. Only the former is a matter of the arguments.

    >>> call_mismatch(nn.ReLU(), (), {"images": 1})
    "missing a required argument: 'input'"
    >>> call_mismatch(nn.ReLU(), ("not even a tensor",), {})
    """
    try:
        signature = inspect.signature(_innermost(model).forward)
    except (TypeError, ValueError):  # of code that is not Python's
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None


def _innermost(model: nn.Module) -> nn.Module:
    """The model inside PyTorch's own wrappers (compiled, averaged, parallel), which hand on whatever they are given."""
    while type(model).__module__.startswith("torch."):
        inner = getattr(model, "_orig_mod", getattr(model, "module", None))
        if not isinstance(inner, nn.Module):
            break
        model = inner
    return model

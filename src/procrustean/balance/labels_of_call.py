"""Labels for MFW out of the call of a model, in place of `with handle(labels)`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from procrustean.balance.recomputation import recomputes
from procrustean.base.errors import LayerError

if TYPE_CHECKING:
    from procrustean.balance.mfw_attach import Attachment

WRITE = "write `with handle(labels): model(images)`"


class LabelsOfCall:
    """Hooks on a model that is called with its labels, as those of Hugging Face are: `model(images, labels=labels)`."""

    def __init__(self, handle: Attachment, model: nn.Module, argument: str) -> None:
        parameters = self.parameters(model, argument)
        self.handle, self.argument, self.model = handle, argument, type(model).__name__
        self.position = list(parameters).index(argument) if argument in parameters else None
        self._registrations = (
            model.register_forward_pre_hook(self.before, with_kwargs=True),
            model.register_forward_hook(self.after, always_call=True),
        )

    @staticmethod
    def parameters(model: nn.Module, argument: str) -> Mapping[str, inspect.Parameter]:
        """What the model can be called with, or a LayerError if the argument is not among it."""
        parameters = inspect.signature(model.forward).parameters
        accepted = argument in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if not accepted:
            raise LayerError(
                f"{type(model).__name__} takes no argument {argument!r} (it takes {', '.join(parameters)}); leave "
                f"labels= out and {WRITE}"
            )
        return parameters

    def before(self, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        if not model.training or self.handle.idle:
            return
        labels = kwargs.get(self.argument)
        if labels is None and self.position is not None and self.position < len(args):
            labels = args[self.position]
        if recomputes() and labels is not None:
            # The layer has the mix of the first pass; drawn all the same, for random numbers that come after these.
            self.handle.mfw.sample(labels)
            return
        if labels is None:
            raise LayerError(
                f"{self.model} was called in training mode without {self.argument}=, which MFW at layer "
                f"{self.handle.name!r} needs; write model(..., {self.argument}={self.argument}), or call model.eval()"
            )
        self.handle.begin(labels)

    def after(self, model: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if self.handle.idle or recomputes():
            return
        if output is None or not model.training:  # without an output the forward pass has failed
            self.handle.end()
        else:
            self.handle.finish()

    def remove(self) -> None:
        for registration in self._registrations:
            registration.remove()

"""MFW on a layer of somebody's model: who hands over the labels, and what is refused instead of going wrong."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from procrustean.balance.mixing import Mix, MixPoint, feature_of
from procrustean.base.errors import LayerError

if TYPE_CHECKING:
    from procrustean.balance.mfw_module import MFW


def recomputes() -> bool:
    """Whether a forward pass runs inside backward, as gradient checkpointing lets it."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1


class LayerPlace:
    """The place of a layer in the module that holds it."""

    def __init__(self, model: nn.Module, layer: nn.Module, path: str) -> None:
        holder, _, self._name = path.rpartition(".")
        self._holder, self._layer = weakref.ref(model.get_submodule(holder)), layer

    def newcomer(self) -> nn.Module | None:
        """What stands there now, if it has weights that the layer has not.

        A wrapper without weights, as of gradient checkpointing, torch.compile or FSDP, gives what the layer gives.
        """
        now = getattr(self._holder(), self._name, None)
        if now is self._layer or not isinstance(now, nn.Module):
            return None
        own = {id(weight) for weight in self._layer.parameters()}
        return now if any(id(weight) not in own for weight in now.parameters()) else None


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
        if self.handle.is_new and not torch.compiler.is_compiling():
            attachments(model)
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


class Attachment(MixPoint):
    """MFW on one layer of a model: `with handle(labels): logits = model(images)`."""

    def __init__(self, mfw: MFW, model: nn.Module, module: nn.Module, name: str) -> None:
        super().__init__(module, name)
        self.mfw = mfw
        self.module = module
        # Weakly: a copy of the layer alone should not have the whole model in it.
        self._model: weakref.ref[nn.Module] | None = None
        self._place: LayerPlace | None = None
        self._path = next(path for path, inside in model.named_modules() if inside is module)
        self.found_in(model, self._path)
        self.open = False
        self.called = False  # whether the layer has run since the labels came
        self.advice: str | None = None  # what to do where labels are missing, of who hands them over in its own way
        self.idle = False  # leaves the layer alone, and asks for no labels
        self.removed = False
        self._recent: list[Mix] = []
        self._replayed = False
        self._left_unmixed = False  # whether a pass with gradients was, of which a recomputation knows nothing
        self._labels: LabelsOfCall | None = None
        self._number: int | None = None  # of labels that a mix was to be drawn for; None in evaluation mode
        self._trains = False  # whether gradients were on when the labels came
        _set_apart(module)

    def __call__(self, labels: Tensor, generator: torch.Generator | None = None) -> AbstractContextManager[None]:
        """The context in which the model sees these labels; entering it draws the random numbers."""
        return _Labelled(self, labels, generator)

    def __repr__(self) -> str:
        return f"<MFW at layer {self.name!r} ({type(self.module).__name__}): {self._state()}>"

    def __getstate__(self) -> dict[str, Any]:
        """Without the batch, which belongs to this model and not to a copy of it, or to what is kept of it."""
        of_this_model = ("mix", "_number", "_model", "_place")
        of_its_batches = ("open", "called", "_replayed", "_left_unmixed", "_trains")
        return {**self.__dict__, **dict.fromkeys(of_this_model), **dict.fromkeys(of_its_batches, False), "_recent": []}

    @property
    def is_new(self) -> bool:
        """Whether it is a copy that has not been found in its model yet."""
        return self._place is None

    def found_in(self, model: nn.Module, path: str) -> None:
        """Keep the model, and the place of the layer in it, unless they are known; a copy does not know them.

        What has been put around the layer by now stands under the name that the layer had when MFW was attached.
        """
        if self._place is None and path:
            parts, name = path.split("."), self._path.rpartition(".")[2]
            while name in parts and parts[-1] != name:
                parts.pop()
            self._model, self._place = weakref.ref(model), LayerPlace(model, self.module, ".".join(parts))

    def take_labels(self, model: nn.Module, argument: str) -> None:
        """From now on the labels are those that `model` is called with."""
        self._labels = LabelsOfCall(self, model, argument)

    @property
    def labels_argument(self) -> str | None:
        """The argument by which the model is called with its labels; None where `with handle(labels)` has them."""
        return None if self._labels is None else self._labels.argument

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """In it the layer is left alone, in training mode too, unless `with handle(labels)` asks for mixing."""
        before, self.idle = self.idle, True
        try:
            yield
        finally:
            self.idle = before

    def begin(self, labels: Tensor, generator: torch.Generator | None = None) -> None:
        """Draw for a batch; the hook then only gathers and blends."""
        self._trains = torch.is_grad_enabled()
        if self.removed and (self._trains or self.module.training):
            raise LayerError(
                f"the handle of layer {self.name!r} was removed, so nothing would be mixed; attach MFW again, or leave "
                "`with handle(labels)` out"
            )
        if self.module.training:
            self._check_place()
        self.mix = self.mfw.sample(labels, generator) if self.module.training else None
        self._number = len(labels) if self.module.training else None
        self.open, self.called = True, False
        # A batch without a mix is not kept: its recomputation may end before it comes to this layer.
        if self.mix is not None and self._trains:
            if self._replayed:
                self._recent, self._replayed = [], False
            self._recent = [*self._recent[-1:], self.mix]

    def end(self) -> None:
        """Forget the batch."""
        self.mix, self.open = None, False

    def finish(self) -> None:
        """Forget the batch; an error if its forward pass has not come by."""
        self.end()
        if not self.called and (self._trains or self.module.training):
            raise LayerError(
                f"layer {self.name!r} has MFW attached but was not called while it had its labels, so nothing was "
                "mixed; call the model inside `with handle(labels):`, attach to a layer that its forward pass calls "
                "(procrustean.balance.suggest lists them), and attach before torch.compile. What is exported or traced "
                "of the model, or was copied before MFW was attached, trains without it"
            )

    def current(self, module: nn.Module, output: Any) -> Mix | None:
        if not module.training:
            if self.open:
                self._evaluated()
            return None
        self.called = True
        # Backward may run inside the context too; it need not belong to the batch of the context.
        if recomputes():
            return self._recomputed(output)
        if self.open:
            return self._of_the_batch(output)
        if self.idle:
            if not torch.compiler.is_compiling():
                self._left_unmixed |= torch.is_grad_enabled()
            return None
        raise LayerError(f"layer {self.name!r} has MFW attached but got no labels{self._remedy()}")

    def remove(self) -> None:
        """Take the hooks off the model."""
        super().remove()
        if not self.removed:
            _no_longer_apart(self.module)
        self.removed = True
        if self._labels is not None:
            self._labels.remove()
            self._labels = None

    def _state(self) -> str:
        if self.removed:
            return "removed"
        if not self.module.training:
            return "in evaluation mode, changes nothing"
        return "has labels" if self.open else "waits for labels"

    def _check_place(self) -> None:
        newcomer = None if self._place is None else self._place.newcomer()
        if newcomer is not None:
            kind = type(newcomer)
            raise LayerError(
                f"layer {self.name!r} was wrapped or replaced after MFW was attached: "
                f"{kind.__module__}.{kind.__name__}, which stands there now, has weights of its own (LoRA, an "
                "adapter?), and their part would not be mixed; call remove() on this handle, and attach MFW again now"
            )

    def _model_trains(self) -> bool:
        model = None if self._model is None else self._model()
        return model is not None and model.training

    def _evaluated(self) -> None:
        """Nothing is to be mixed if nothing trains: a pass without gradients, of a model that is not in training."""
        if torch.is_grad_enabled() or (self._trains and self._model_trains()):
            raise self._in_evaluation_mode()
        self.called = True

    def _of_the_batch(self, output: Any) -> Mix | None:
        """The mix of the labels that have come; None where they leave nothing to mix, as those of one sample do."""
        if self.mix is not None:
            return self.mix
        if self._number is None:
            raise LayerError(
                f"layer {self.name!r} was in evaluation mode when its labels came and is in training mode now, so "
                "nothing was drawn for it; call model.train() before `with handle(labels)`"
            )
        if not self.mfw.idle:
            self.checked(output, self._number)
        return None

    def _in_evaluation_mode(self) -> LayerError:
        return LayerError(
            f"layer {self.name!r} is in evaluation mode, where MFW changes nothing, but has labels and gradients as in "
            "training; to train, call model.train() first and attach to a layer that is not frozen in evaluation mode; "
            "to evaluate, call model.eval() on the whole model and use torch.no_grad(), or leave handle(labels) out"
        )

    def _remedy(self) -> str:
        if self.advice is not None:
            return f"; {self.advice}"
        if not torch.is_grad_enabled():
            return (
                ", in training mode and without gradients. To evaluate, call model.eval(); for the predictions of a "
                "teacher or for pseudo-labels, write `with handle.suspended()` (the handle of a copied model: "
                "procrustean.balance.attachments(model)). If this is torch.optim.swa_utils.update_bn, its statistics "
                "of unmixed batches would undo what MFW has trained: call procrustean.recalibrate(model, "
                "loader) in its place, also if update_bn has reset the statistics by now"
            )
        if self._labels is not None:
            return (
                f"; its labels are those that {self._labels.model} is called with as {self._labels.argument}=, "
                "so call that one, not a part of it, or call model.eval() to evaluate"
            )
        return f"; {WRITE}, call model.eval() to evaluate, or leave a pass unmixed by `with handle.suspended()`"

    def _recomputed(self, output: Any) -> Mix | None:
        # Gradient checkpointing runs the forward pass again inside backward, usually after the context.
        feature = feature_of(output)
        alone = feature is not None and feature.dim() > 0 and len(feature) == 1
        if alone or self.mfw.idle:  # a batch that nothing was drawn for
            return None
        self._replayed = True
        if self._left_unmixed:
            raise LayerError(
                f"gradient checkpointing recomputes layer {self.name!r}, and cannot tell passes inside "
                "`with handle.suspended()`, now or earlier, from the others; do without one of the two, and put "
                "torch.no_grad() around passes that need no gradients. Attaching anew forgets earlier ones"
            )
        if len(self._recent) != 1:
            raise LayerError(
                "gradient checkpointing recomputes this layer, but several batches went forward since the "
                "last backward; call backward once for each `with handle(labels)`, or inside it"
            )
        return self._recent[0]


class _Labelled:
    def __init__(self, handle: Attachment, labels: Tensor, generator: torch.Generator | None) -> None:
        self.handle, self.labels, self.generator = handle, labels, generator

    def __enter__(self) -> None:
        self.handle.begin(self.labels, self.generator)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.handle.finish()
        else:
            self.handle.end()


def attachments(model: nn.Module) -> dict[str, Attachment]:
    """The handles of every MFW on a model, by the path of its layer; a copied model has handles of its own.

    >>> import copy
    >>> from procrustean import MFW
    >>> model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    >>> handle = MFW([50, 5]).attach(model, "0")
    >>> attachments(model)["0"] is handle, attachments(copy.deepcopy(model))["0"] is handle
    (True, False)
    """
    found = {
        path: hook.__self__
        for path, module in model.named_modules()
        for hook in module._forward_hooks.values()
        if isinstance(getattr(hook, "__self__", None), Attachment)
    }
    for path, handle in found.items():
        handle.found_in(model, path)
    return found


def _set_apart(module: nn.Module) -> None:
    """Let compiled code tell a layer with MFW from one without, which it does not by their hooks.

    torch.compile runs the code of an equal model that it has compiled before, with MFW on it or not. What it does look
    at is whether a layer has a `forward` of its own; the one put here is that of its class.
    """
    if not isinstance(module, torch.jit.ScriptModule):
        module.__dict__.setdefault("forward", module.forward)


def _no_longer_apart(module: nn.Module) -> None:
    own = module.__dict__.get("forward")
    if own is not None and getattr(own, "__func__", None) is type(module).forward:  # not one that somebody else has put
        del module.__dict__["forward"]

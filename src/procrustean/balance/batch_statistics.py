"""Batch normalisation after training: its statistics recomputed, on batches like those the network was trained on.

A network trained with MFW expects statistics of batches whose major features were mixed. Recomputing them on clean
images, as torch.optim.swa_utils.update_bn does, can undo what MFW has gained: docs/mfw-and-normalisation.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from procrustean.balance.counting import label_of
from procrustean.balance.layer_trace import kept_modes
from procrustean.balance.mfw_attach import attachments
from procrustean.base.errors import DataError, LayerError, one_of

On = Literal["mixed", "clean"]


def recalibrate(model: nn.Module, batches: Iterable[Any], *, on: On = "mixed") -> int:
    """Recompute the statistics of batch normalisation over some batches, for averaged or changed weights.

    Returns the number of layers recomputed: 0 for a network without batch normalisation, which needs no batches.

    Args:
        model: in any mode, which it keeps; an average of a model that MFW is attached to has MFW attached too. Layers
            in evaluation mode within a model in training mode are frozen, and keep their statistics.
        batches: (images, labels), or mappings of the model's arguments; of training data, augmented as in training.
            One epoch is plenty.
        on: "mixed" lets the attached MFW mix the features as in training, "clean" leaves them alone. A copy that was
            made before MFW was attached has none, and looks like a model that was trained without; it takes "clean".

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    >>> recalibrate(model, [(torch.randn(8, 2), torch.zeros(8, dtype=torch.long))], on="clean")
    1
    """
    one_of("on", on, ("mixed", "clean"))
    handles, mixed, layers = list(attachments(model).values()), on == "mixed", batch_norms(model)
    if layers and mixed and not handles:
        raise LayerError(
            "no MFW is attached to this model, so nothing can be mixed; attach it as it was in training, "
            "mfw.attach(model, layer), before an average or another copy is made of it, or say on='clean' for a model "
            "that was trained without"
        )
    if handles and not mixed and not all(handle.mfw.idle for handle in handles):
        warnings.warn(
            "statistics recomputed on clean batches for a model that MFW is attached to: it was trained with those of "
            "mixed batches, and its gain may be lost; on='mixed' recomputes them as in training",
            stacklevel=2,
        )
    if not layers:
        return 0
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    passed = 0
    with ExitStack() as stack:
        coming = stack.enter_context(averaged_statistics(model))
        for handle in handles:
            stack.enter_context(handle.suspended())
        for batch in batches:
            args, kwargs, size = _call(batch, device)
            coming(size)
            with ExitStack() as labelled:
                for handle in handles:
                    if not mixed and handle.labels_argument is None:
                        continue
                    labels = label_of(batch)  # what is no tensor is refused by MFW
                    labels = labels.to(device) if isinstance(labels, Tensor) else labels
                    if handle.labels_argument is not None:
                        kwargs.setdefault(handle.labels_argument, labels)
                    if mixed:
                        labelled.enter_context(handle(labels))
                model(*args, **kwargs)
            passed += 1
        if not passed:
            raise DataError("no batches received to compute statistics on; give those of an epoch of training")
    return len(layers)


def batch_norms(model: nn.Module) -> list[_BatchNorm]:
    """Layers that keep statistics of batches for evaluation, but for those that are frozen in a model that trains."""
    found = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
    return [m for m in found if m.training or not model.training]


@contextmanager
def averaged_statistics(model: nn.Module) -> Iterator[Callable[[int], None]]:
    """In it, statistics are the mean over the batches that pass, in training mode and without gradients.

    Yields a function that is told the size of each coming batch, by which it is weighted. A layer that several batches
    pass in one step, as in a network with two streams, weighs them alike. After an error the statistics are those of
    before.
    """
    layers = batch_norms(model)
    momenta = [layer.momentum for layer in layers]
    before = [tuple(value.clone() for value in _statistics(layer)) for layer in layers]
    size = 0
    seen = dict.fromkeys(layers, 0)

    def coming(images: int) -> None:
        nonlocal size
        size = images

    def weigh(layer: nn.Module, _: object) -> None:
        assert isinstance(layer, _BatchNorm)
        seen[layer] += size
        layer.momentum = size / seen[layer]

    frozen = [m for m in model.modules() if isinstance(m, _BatchNorm) and model.training and not m.training]
    hooks = [layer.register_forward_pre_hook(weigh) for layer in layers]
    try:
        with kept_modes(model), torch.no_grad():
            model.train()
            for layer in frozen:
                layer.eval()
            for layer in layers:
                mean, var = _statistics(layer)
                mean.zero_()  # what a momentum of 1 multiplies by 0 must not be infinite
                var.fill_(1)
            yield coming
    except BaseException:
        with torch.no_grad():
            for layer, values in zip(layers, before, strict=True):
                for target, value in zip(_statistics(layer), values, strict=True):
                    target.copy_(value)
        raise
    finally:
        for hook in hooks:
            hook.remove()
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum


def _statistics(layer: _BatchNorm) -> tuple[Tensor, Tensor]:
    assert layer.running_mean is not None
    assert layer.running_var is not None
    return layer.running_mean, layer.running_var


def _call(batch: Any, device: torch.device) -> tuple[tuple[Any, ...], dict[str, Any], int]:
    """How the model is called with a batch: arguments, keyword arguments, and the number of samples."""
    if isinstance(batch, Mapping):
        values = {name: v.to(device) if isinstance(v, Tensor) else v for name, v in batch.items()}
        sizes = [len(v) for v in values.values() if isinstance(v, Tensor) and v.dim()]
        if not sizes:
            raise DataError(f"a batch without tensors received (it has {', '.join(batch)})")
        return (), values, sizes[0]
    images = batch[0] if isinstance(batch, tuple | list) and batch else batch
    if not isinstance(images, Tensor):
        raise DataError(
            f"a batch of type {type(batch).__name__} received; give (images, labels), or a mapping of the arguments "
            "that the model is called with"
        )
    return (images.to(device),), {}, len(images)

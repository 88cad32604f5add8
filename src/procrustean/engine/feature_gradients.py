"""How hard a loss pulls at the features of each class: the norm of its gradient at a layer (paper, Fig. 4)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from procrustean.balance.layer_trace import kept_modes
from procrustean.balance.layers import find_layer
from procrustean.balance.losses import CrossEntropy
from procrustean.balance.mfw import MFW
from procrustean.balance.mixing import Mix, MixPoint
from procrustean.balance.precision import widened
from procrustean.base.errors import DataError, LayerError
from procrustean.engine.ratio import check_class_indices


def feature_gradient_norms(
    model: nn.Module,
    layer: str,
    images: Tensor,
    labels: Tensor,
    *,
    mfw: MFW | None = None,
    loss: Callable[[Tensor, Tensor], Tensor] | None = None,
    batch_size: int = 128,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The length of the gradient of the loss at g(x), the output of a layer, for every image.

    The losses of a batch are added up, not averaged, so the numbers do not depend on the batch size. The model is
    in evaluation mode meanwhile: an image has a gradient of its own, not one through the statistics of its batch.

    Args:
        model: returns scores [B, C].
        layer: its name in the model; g(x) is what it returns.
        images: [N, ...].
        labels: [N].
        mfw: weaken the features at that layer, as training with it does. The gradient at g(x) then has the part of
            the image's own loss and that of the image it was mixed into; whom an image meets matters, so give images
            as training draws them. None mixes nothing.
        loss: (scores [B, C], labels [B]) -> losses [B]; cross-entropy by default.
        batch_size: images at a time; partners are drawn within a batch.
        generator: source of the mixing, on the labels' device; by default one of its own with a fixed seed.

    Returns:
        [N], float64 for a float64 layer, else float32.
    """
    module = find_layer(model, layer)
    if not isinstance(images, Tensor) or images.dim() < 2 or len(images) != len(labels):
        raise DataError("give images [N, ...] with one label each, [N]")
    if batch_size < 1:
        raise DataError(f"batch_size = {batch_size} received; at least one image has to fit")
    per_sample = loss or CrossEntropy(reduction="none")
    if generator is None:
        generator = torch.Generator(labels.device).manual_seed(0)
    norms = []
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):

        def summed(scores: Tensor, y: Tensor = y) -> Tensor:
            return per_sample(scores, y).sum()

        mix = None if mfw is None else mfw.sample(y, generator)
        mixes = () if mix is None else ((module, mix),)
        norms.append(gradient_norms_at(model, module, x, summed, mixes))
    return torch.cat(norms)


def mean_per_class(values: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Mean of the values of each class, float64 [C]; nan for a class without any.

    >>> mean_per_class(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]), 2).tolist()
    [2.0, 5.0]
    """
    check_class_indices("labels", labels, classes)
    sums = values.new_zeros(classes, dtype=torch.float64).index_add_(0, labels.long(), values.double())
    counts = torch.bincount(labels.long(), minlength=classes)
    return sums / counts.where(counts > 0, torch.nan)


def gradient_norms_at(
    model: nn.Module,
    module: nn.Module,
    images: Tensor,
    loss: Callable[[Tensor], Tensor],
    mixes: tuple[tuple[nn.Module, Mix], ...] = (),
    forward: AbstractContextManager[object] | None = None,
) -> Tensor:
    """The length of the gradient at the output of a module, before it is mixed, for one batch, [B].

    Args:
        model: put into evaluation mode meanwhile.
        module: part of it.
        images: [B, ...].
        loss: from the model's scores to the sum of the losses.
        mixes: what is mixed where.
        forward: context of the forward pass and the loss, such as autocast.
    """
    outputs: list[Tensor] = []

    def keep(part: nn.Module, args: Any, output: Any) -> Tensor:
        if not isinstance(output, Tensor) or not output.is_floating_point() or len(output) != len(images):
            raise LayerError(
                f"the layer returns {type(output).__name__}, not one floating-point tensor with the batch as its first "
                "dimension; choose another layer"
            )
        if outputs:
            raise LayerError("the layer is used twice in one pass, so its output is not one; choose another layer")
        # As a leaf: nothing before the layer is differentiated.
        outputs.append(output.detach().requires_grad_())
        return outputs[0]

    with ExitStack() as stack:
        stack.enter_context(kept_modes(model))
        model.eval()
        stack.enter_context(torch.enable_grad())
        # First, so that the kept output is the one before mixing.
        stack.callback(module.register_forward_hook(keep).remove)
        for number, (place, mix) in enumerate(mixes):
            point = MixPoint(place, f"layer {number}")
            stack.callback(point.remove)
            point.mix = mix
        with forward or nullcontext():
            scores = model(images)
            if not isinstance(scores, Tensor):
                raise DataError(f"the model returns {type(scores).__name__}; wrap it to return the scores alone")
            if not outputs:
                raise LayerError("the layer is not used when the model is called; choose another layer")
            total = loss(scores)
        (gradient,) = torch.autograd.grad(total, outputs[0])
    norms: Tensor = widened(gradient).flatten(1).norm(dim=1)
    return norms

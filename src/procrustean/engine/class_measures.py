"""The paper's measurements of every class: classification ratio, feature deviation, gradients at a layer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.class_tensors import check_label_range, widened
from procrustean.balance.layer_trace import kept_modes
from procrustean.balance.layers import find_layer
from procrustean.balance.losses import CrossEntropy
from procrustean.balance.mfw_module import MFW
from procrustean.balance.mixing import Mix, MixPoint
from procrustean.base.errors import DataError, LayerError


def classification_ratio(predictions: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Images classified into each class, divided by the images of the class; 1 is balanced.

    Weighted by the class sizes, the ratios add up to the number of images. A class without images has none: nan.

    Args:
        predictions: predicted classes [N].
        labels: true classes [N].
        classes: C.

    Returns:
        float64 [C].

    >>> classification_ratio(torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1]), 2).tolist()
    [1.5, 0.5]
    """
    for values in (predictions, labels):
        check_label_range(values, classes)
    if len(predictions) != len(labels):
        raise DataError(f"{len(predictions)} predictions received for {len(labels)} labels; give one for each image")
    own = torch.bincount(labels, minlength=classes).double()
    return torch.bincount(predictions, minlength=classes) / own.where(own > 0, torch.nan)


Array = npt.NDArray[Any]

#: Most numbers that are held at once: rounds are worked off in parts where a class is large.
LARGEST_PART = 1 << 24


def feature_deviation(
    train_features: Tensor | Array,
    train_labels: Tensor | Array,
    test_features: Tensor | Array,
    test_labels: Tensor | Array,
    rounds: int = 1000,
    size: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """dis(c): the mean distance between the mean of K training features and the mean of all test features of a class.

    Every feature is scaled to unit length first. The K training images are drawn anew, without replacement, in each
    round, and the distances are averaged. A class that has no images in one of the sets has no deviation: nan.

    Args:
        train_features: [N, d], a tensor or an array, as all four.
        train_labels: [N].
        test_features: [M, d].
        test_labels: [M].
        rounds: R, how often K training images are drawn.
        size: K; by default the size of the smallest class of the training set.
        generator: source of the draws, on the features' device; by default one of its own with a fixed seed.

    Returns:
        [C], C one more than the largest label, float64 for float64 features, else float32.

    >>> one, other = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> feature_deviation(one, torch.tensor([0, 0]), other, torch.tensor([0])).tolist()
    [1.4142135381698608]
    """
    train, train_labels, test, test_labels = (
        torch.as_tensor(given) for given in (train_features, train_labels, test_features, test_labels)
    )
    train_labels, test_labels = train_labels.long(), test_labels.long()
    classes = int(torch.cat([train_labels, test_labels]).max()) + 1
    kind = torch.promote_types(train.dtype, torch.float32)
    train, test = (F.normalize(features.to(kind), dim=1) for features in (train, test))
    counts = torch.bincount(train_labels, minlength=classes).tolist()
    smallest = min(count for count in counts if count)
    size = smallest if size is None else size
    if not 1 <= size <= smallest:
        raise DataError(f"size = {size} received; the smallest class allows 1 to {smallest} images to be drawn")
    if generator is None:
        generator = torch.Generator(train.device).manual_seed(0)
    tested = torch.bincount(test_labels, minlength=classes).tolist()
    deviations = []
    for label in range(classes):
        if counts[label] and tested[label]:
            centre = test[test_labels == label].mean(0)
            deviations.append(_mean_distance(train[train_labels == label], centre, rounds, size, generator))
        else:
            deviations.append(train.new_full((), torch.nan))
    return torch.stack(deviations)


def _mean_distance(rows: Tensor, centre: Tensor, rounds: int, size: int, generator: torch.Generator) -> Tensor:
    """Mean over the rounds of |mean of `size` rows - centre|, 0-d."""
    if len(rows) == size:  # every round draws all of them
        distance: Tensor = (rows.mean(0) - centre).norm()
        return distance
    part = max(1, LARGEST_PART // max(len(rows), size * rows.shape[1]))
    distances = []
    for start in range(0, rounds, part):
        keys = torch.rand(min(part, rounds - start), len(rows), device=rows.device, generator=generator)
        # The positions of the largest of independent keys are a sample without replacement.
        chosen = keys.topk(size, dim=1, sorted=False).indices
        distances.append((rows[chosen].mean(1) - centre).norm(dim=1))
    return torch.cat(distances).mean()


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
    check_label_range(labels, classes)
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

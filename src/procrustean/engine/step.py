"""One training step as a function of tensors alone: the same code runs eagerly and captured."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from procrustean.balance.objectives import Objective
from procrustean.balance.types import Batch, Clock, Images
from procrustean.base.errors import ConfigError, NoGradient
from procrustean.base.own_code import code_name, returned_text
from procrustean.data.epoch_plan import Arrays
from procrustean.engine.images import FeatureStore, ImageStore
from procrustean.engine.optimizer import FlatOptimizer, WeightAverages
from procrustean.engine.streaming import BatchFeed

#: What a step reads its images from.
StepImages = ImageStore | FeatureStore | BatchFeed


class StepInputs:
    """The plan of an epoch on the device, for batches of one size; `cursor` says which step is next.

    Args:
        device: of the training.
        steps: of an epoch with batches of this size.
        batch: images in each.
        by_step: whether every step has a learning rate of its own.
    """

    def __init__(self, device: torch.device, steps: int, batch: int, *, by_step: bool = False) -> None:
        self.device, self.steps, self.batch = device, steps, batch
        self.rates = torch.zeros(steps, device=device) if by_step else None
        self.names: list[list[str]] = []  # of the numbers that lie together: those of one type and shape
        self.fields: list[Tensor] = []  # of each group, [steps, names, batch, ...]
        self.cursor = torch.zeros(1, dtype=torch.int64, device=device)

    def load(self, plan: Arrays, first_image: int) -> None:
        """Copy this part of the plan into the tensors, which stay where they are."""
        last_image = first_image + self.steps * self.batch
        if not self.names:
            together: dict[object, list[str]] = {}
            for name, values in plan.items():
                together.setdefault((values.dtype, values.shape[1:]), []).append(name)
            self.names = list(together.values())
        for number, names in enumerate(self.names):
            parts = [
                plan[name][first_image:last_image].reshape(self.steps, self.batch, *plan[name].shape[1:])
                for name in names
            ]
            host = torch.from_numpy(np.stack(parts, axis=1))
            if number == len(self.fields):
                self.fields.append(torch.empty_like(host, device=self.device))
            source = host.pin_memory() if self.device.type == "cuda" else host
            self.fields[number].copy_(source, non_blocking=True)

    def load_rates(self, rates: Sequence[float]) -> None:
        """Set the learning rates of the epoch's steps, where each has its own."""
        if self.rates is not None:
            self.rates.copy_(torch.tensor(rates))

    def row(self) -> dict[str, Tensor]:
        """The numbers of the step under the cursor, name -> [batch, ...]; one gather for each group."""
        row: dict[str, Tensor] = {}
        for names, values in zip(self.names, self.fields, strict=True):
            row |= zip(names, values.index_select(0, self.cursor).squeeze(0).unbind(), strict=True)
        return row


class TrainStep:
    """Gather a batch, compute the loss, update the weights, move the cursor on."""

    def __init__(
        self,
        *,
        net: nn.Module,
        objective: Objective,
        optimizer: FlatOptimizer,
        images: StepImages,
        extra_images: StepImages,
        inputs: StepInputs,
        clock: Clock,
        losses: Tensor,
        bad_step: Tensor,
        low_precision: torch.dtype | None,
        averages: WeightAverages | None = None,
    ) -> None:
        self.net, self.objective, self.optimizer = net, objective, optimizer
        self.averages = averages
        self.images, self.extra_images = images, extra_images
        self.inputs, self.clock = inputs, clock
        self.losses = losses  # [steps of this batch size] float32
        self.bad_step = bad_step  # [1] int64: the first step with a non-finite value, -1 before
        self.low_precision = low_precision
        self.loss_of: Callable[[nn.Module, Batch, Clock], Tensor] = objective

    def compile(self) -> None:
        """Let torch.compile fuse the forward pass, and with it the backward pass."""
        # Graphs are captured outside, over the whole step; the compiler's own would split it.
        options: dict[str, str | int | bool | Callable[..., Any]] = {"triton.cudagraphs": False}
        self.loss_of = torch.compile(self.objective, fullgraph=True, dynamic=False, options=options)

    def __call__(self) -> None:
        parameters = self.optimizer.parameters.parameters
        if self.inputs.rates is not None:
            self.clock.lr.copy_(self.inputs.rates.index_select(0, self.inputs.cursor).squeeze(0))
        self.optimizer.buffers.remember()
        with precision(self.inputs.device, self.low_precision):
            loss = self.loss_of(self.net, self.batch(), self.clock)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise ConfigError(
                f"the objective {code_name(self.objective)} returns {returned_text(loss)}, but the one number is "
                "needed that is minimised; return a mean over the samples, for example"
            )
        if not loss.requires_grad:
            raise NoGradient(
                "the loss has no gradient: it does not depend on the scores of the network. Compute it from them, and "
                "without detach(), item() or torch.no_grad() on the way"
            )
        gradients = torch.autograd.grad(loss, parameters)
        was_healthy = self.optimizer.healthy.clone()
        self.optimizer.step(loss, gradients)
        if self.averages is not None:
            self.averages.after_step()
        with torch.no_grad():
            cursor = self.inputs.cursor
            self.losses.index_copy_(0, cursor, loss.detach().float().view(1))
            failed_now = was_healthy ^ self.optimizer.healthy
            torch.where(failed_now, cursor, self.bad_step, out=self.bad_step)
            cursor.add_(1)

    def batch(self) -> Batch:
        """The batch under the cursor."""
        row = self.inputs.row()
        u = {name.removeprefix("u."): values for name, values in row.items() if name.startswith("u.")}
        extra = self.gathered(row, "extra.", self.extra_images) if "extra.index" in row else None
        own = self.gathered(row, "", self.images)
        return Batch(*own, row["partner"], row["inverse"], u, extra, self.images.pixel_range)

    def gathered(self, row: dict[str, Tensor], prefix: str, images: StepImages) -> Images:
        """The images of one stream, augmented."""
        index = row[prefix + "index"]
        numbers = {name.removeprefix(prefix): values for name, values in row.items() if name.startswith(prefix)}
        x = images.augmented(index, numbers)
        return Images(x if self.low_precision is None else x.to(self.low_precision), images.labels[index])


def precision(device: torch.device, low: torch.dtype | None) -> contextlib.AbstractContextManager[object]:
    """Autocast to the low precision, or nothing; the weights are in it already, so nothing is cached."""
    if low is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=low, cache_enabled=False)

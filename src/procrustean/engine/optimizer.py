"""Flat tensors for a network's parameters, gradients and statistics; optimisers and averages of the weights on them.

One tensor each instead of a hundred: an update is a handful of operations, a NaN check one more, and saving
and restoring are copies.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from procrustean.balance.objectives import Objective
from procrustean.balance.weights import epochs_of_setting_in
from procrustean.data.recipe import Recipe

#: Layers whose arithmetic autocast does in low precision; all others keep float32 parameters.
_LOW_PRECISION_LAYERS = (nn.Linear, nn.modules.conv._ConvNd)


class FlatParameters:
    """Owns the storage of a network's trainable parameters.

    Each parameter becomes a view of one flat tensor, in channels-last order for convolutions. With
    `low_precision` the weights of convolutions and linear layers are bf16 copies of float32 masters, so that
    autocast has nothing to cast.
    """

    def __init__(self, net: nn.Module, names: Sequence[str], low_precision: torch.dtype | None) -> None:
        low = _low_precision_names(net) if low_precision else set()
        parameters = dict(net.named_parameters())
        # Low-precision ones first, so that refreshing them is one copy of a contiguous part of the masters.
        self.names = sorted(names, key=lambda name: name not in low)
        self.parameters = [parameters[name] for name in self.names]
        device = self.parameters[0].device
        sizes = [p.numel() for p in self.parameters]
        self.master = torch.empty(sum(sizes), device=device)
        self.gradient = torch.zeros_like(self.master)
        self.views = [_like(part, p) for part, p in zip(self.master.split(sizes), self.parameters, strict=True)]
        self._low_count = sum(name in low for name in self.names)
        count = sum(size for name, size in zip(self.names, sizes, strict=True) if name in low)
        self._low = torch.empty(count, device=device, dtype=low_precision or torch.float32)
        low_parts = iter(self._low.split([s for n, s in zip(self.names, sizes, strict=True) if n in low]))
        with torch.no_grad():
            for name, parameter, view in zip(self.names, self.parameters, self.views, strict=True):
                view.copy_(parameter)
                parameter.data = _like(next(low_parts), parameter) if name in low else view
        self.refresh()

    @torch.no_grad()
    def collect(self, gradients: Sequence[Tensor]) -> Tensor:
        """Gather the gradients of all parameters into one flat float32 tensor."""
        # Two concatenations and one cast, instead of a copy kernel for each of a hundred parameters.
        flat = [_flattened(gradient) for gradient in gradients]
        if self._low_count:
            self.gradient[: len(self._low)].copy_(torch.cat(flat[: self._low_count]))
        if self._low_count < len(flat):
            torch.cat(flat[self._low_count :], out=self.gradient[len(self._low) :])
        return self.gradient

    @torch.no_grad()
    def refresh(self) -> None:
        """Bring the working copies up to date with the masters."""
        if len(self._low):
            self._low.copy_(self.master[: len(self._low)])

    def named(self, flat: Tensor) -> Iterator[tuple[str, Tensor]]:
        """The parts of a flat tensor of this layout by parameter name, in the parameters' shapes."""
        sizes = [p.numel() for p in self.parameters]
        for name, part, parameter in zip(self.names, flat.split(sizes), self.parameters, strict=True):
            yield name, _like(part, parameter)

    def by_name(self, factors: Mapping[str, float]) -> Tensor:
        """A flat tensor with the factor whose key a parameter's name begins with, by the longest key; 1 without one."""
        flat = torch.empty_like(self.master)
        for name, part in self.named(flat):
            keys = [key for key in factors if name == key or name.startswith(key + ".")]
            part.fill_(factors[max(keys, key=len)] if keys else 1.0)
        return flat

    def release(self) -> None:
        """Give the network ordinary float32 parameters of its own again."""
        for parameter, view in zip(self.parameters, self.views, strict=True):
            parameter.data = view.clone(memory_format=torch.contiguous_format)


class FlatBuffers:
    """A network's floating-point buffers (batch-norm statistics) as views of one flat tensor."""

    def __init__(self, net: nn.Module, device: torch.device) -> None:
        found = [
            (path, module, key, buffer)
            for path, module in net.named_modules()
            for key, buffer in module._buffers.items()
            if buffer is not None and buffer.is_floating_point()
        ]
        self.names = [f"{path}.{key}" if path else key for path, _, key, _ in found]
        self.shapes = [buffer.shape for *_, buffer in found]
        places = [(module, key, buffer) for _, module, key, buffer in found]
        self.flat = torch.empty(sum(b.numel() for _, _, b in places), device=device)
        self.previous = torch.empty_like(self.flat)
        parts = self.flat.split([b.numel() for _, _, b in places]) if places else ()
        for (module, key, buffer), part in zip(places, parts, strict=True):
            # As .data: views share one count of changes, and autograd would take a change of any buffer during the
            # forward pass for a change of the statistics that batch normalisation has saved.
            module._buffers[key] = part.view(buffer.shape).copy_(buffer).data

    def named(self, flat: Tensor) -> Iterator[tuple[str, Tensor]]:
        """The parts of a flat tensor of this layout by buffer name, in the buffers' shapes."""
        parts = flat.split([shape.numel() for shape in self.shapes]) if self.shapes else ()
        for name, part, shape in zip(self.names, parts, self.shapes, strict=True):
            yield name, part.view(shape)

    def remember(self) -> None:
        """Keep the values of now."""
        self.previous.copy_(self.flat)

    def restore(self) -> None:
        """Go back to the remembered values."""
        self.flat.copy_(self.previous)

    def restore_unless(self, good: Tensor) -> None:
        """Go back to the remembered values where `good` (0-d bool) is false."""
        torch.where(good, self.flat, self.previous, out=self.flat)


def _low_precision_names(net: nn.Module) -> set[str]:
    return {
        f"{path}.{name}" if path else name
        for path, module in net.named_modules()
        if isinstance(module, _LOW_PRECISION_LAYERS)
        for name, _ in module.named_parameters(recurse=False)
    }


def _like(part: Tensor, parameter: Tensor) -> Tensor:
    """View a flat part in the parameter's shape, 4-d ones channels last."""
    if parameter.dim() == 4:
        out, inputs, height, width = parameter.shape
        return part.view(out, height, width, inputs).permute(0, 3, 1, 2)
    return part.view(parameter.shape)


def _flattened(gradient: Tensor) -> Tensor:
    """A gradient in the order of its part of the flat tensor; a view where it is channels last already."""
    return (gradient.permute(0, 2, 3, 1) if gradient.dim() == 4 else gradient).reshape(-1)


class FlatOptimizer(ABC):
    """An optimiser as a few operations on one flat tensor.

    A non-finite loss, gradient, weight or statistic clears `healthy`; from then on updates change nothing, so the
    weights of the step before are kept. Nothing is read by the host.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        buffers: FlatBuffers,
        *,
        lr: Tensor,
        momentum: float,
        weight_decay: float,
        rates: Mapping[str, float] | None = None,
        no_decay: tuple[str, ...] = (),
    ) -> None:
        self.parameters, self.buffers = parameters, buffers
        self.lr, self.momentum = lr, momentum
        # Vectors along the flat tensor where a stage gives parameters rates or decays of their own.
        self.rate = parameters.by_name(rates) if rates else None
        self.decay = parameters.by_name(dict.fromkeys(no_decay, 0.0)) * weight_decay if no_decay else weight_decay
        self.velocity = torch.zeros_like(parameters.master)
        self.healthy = torch.ones((), dtype=torch.bool, device=lr.device)
        # Foreign networks may keep infinities on purpose, as masks; of those nothing can be told from the sum.
        self.watches_statistics = bool(torch.isfinite(buffers.flat).all())

    @abstractmethod
    def descent(self, gradient: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """What is subtracted from the weights at rate 1, and the new value of each tensor of `state`."""

    @torch.no_grad()
    def step(self, loss: Tensor, gradients: tuple[Tensor, ...]) -> None:
        """One update; `buffers.remember()` was called before the forward pass."""
        master = self.parameters.master
        descent, changes = self.descent(self.parameters.collect(gradients))
        if isinstance(self.rate, Tensor):
            descent = descent * self.rate
        updated = torch.addcmul(master, descent, self.lr, value=-1)
        # What is wrong with a gradient or a velocity shows in the weights they lead to, also an overflow of the update
        # itself. Statistics are summed up: they can overflow while the loss is finite, because batch normalisation
        # turns an infinite variance into zeros. The largest weight is not finite if any is not, and one comparison of a
        # single number is one small kernel; isfinite on all weights would be four large ones.
        watched = torch.linalg.vector_norm(updated, torch.inf) + loss
        if self.watches_statistics:
            watched = watched + self.buffers.flat.sum()
        self.healthy.logical_and_(watched.abs() < torch.inf)
        for kept, now in (*changes, (master, updated)):
            torch.where(self.healthy, now, kept, out=kept)
        self.buffers.restore_unless(self.healthy)
        self.parameters.refresh()

    def state(self) -> dict[str, Tensor]:
        """Everything that changes beside the weights, by name, for checkpoints."""
        return {f"velocity.{name}": part for name, part in self.parameters.named(self.velocity)}


class SGD(FlatOptimizer):
    """PyTorch's SGD: momentum, L2 weight decay, no dampening."""

    def __init__(self, *args: Any, nesterov: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.nesterov = nesterov

    def descent(self, gradient: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        master, velocity = self.parameters.master, self.velocity
        if isinstance(self.decay, Tensor):
            gradient.addcmul_(master, self.decay)
        else:
            gradient.add_(master, alpha=self.decay)
        faster = torch.add(gradient, velocity, alpha=self.momentum)
        descent = gradient.add(faster, alpha=self.momentum) if self.nesterov else faster
        return descent, [(velocity, faster)]


class AdamW(FlatOptimizer):
    """PyTorch's AdamW: moments with decays of `momentum` and 0.999, weight decay apart from them."""

    SECOND_DECAY, EPSILON = 0.999, 1e-8

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.squares = torch.zeros_like(self.velocity)
        self.steps = torch.zeros((), device=self.velocity.device)

    def descent(self, gradient: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        velocity = torch.lerp(gradient, self.velocity, self.momentum)
        squares = torch.lerp(gradient.square(), self.squares, self.SECOND_DECAY)
        steps = self.steps + 1
        mean = velocity / (1 - torch.pow(self.momentum, steps))
        spread = (squares / (1 - torch.pow(self.SECOND_DECAY, steps))).sqrt() + self.EPSILON
        descent = mean / spread + self.decay * self.parameters.master
        return descent, [(self.velocity, velocity), (self.squares, squares), (self.steps, steps)]

    def state(self) -> dict[str, Tensor]:
        squares = {f"squares.{name}": part for name, part in self.parameters.named(self.squares)}
        return {**super().state(), **squares, "optimizer.steps": self.steps}


def make_optimizer(
    recipe: Recipe,
    parameters: FlatParameters,
    buffers: FlatBuffers,
    *,
    lr: Tensor,
    rates: Mapping[str, float],
    no_decay: tuple[str, ...],
) -> FlatOptimizer:
    """The optimiser that a recipe names."""
    shared: dict[str, Any] = {
        "lr": lr, "momentum": recipe.momentum, "weight_decay": recipe.weight_decay,
        "rates": rates, "no_decay": no_decay,
    }  # fmt: skip
    if recipe.optimizer == "adamw":
        return AdamW(parameters, buffers, **shared)
    return SGD(parameters, buffers, nesterov=recipe.nesterov, **shared)


AverageKind = Literal["none", "ema", "swa", "both"]
SwaFrom = Literal["drw", "last_quarter"]

#: Of the exponential average: a memory of a thousand steps, shorter in the beginning.
DECAY = 0.999
#: The last epochs that the equal-weighted average covers.
SWA_SHARE = 0.25


def swa_begins(objective: Objective, epochs: int, swa_from: SwaFrom) -> int:
    """The first epoch, counted from 0, whose end "swa" averages.

    Networks from before and after deferred weights set in lie so far apart that their mean is worse than either.
    """
    begins = epochs - max(1, round(SWA_SHARE * epochs))
    if swa_from == "drw":
        begins = max(begins, *epochs_of_setting_in(objective, epochs), 0)
    return begins


class WeightAverages:
    """Averaged weights and batch-norm statistics; nothing is read by the host, so steps can be captured.

    "ema" is exponential: after step t, average = d * average + (1 - d) * weights, d = min(0.999, (1 + t) / (10 + t)).
    "swa" is the mean over the ends of the epochs from `first_epoch` on (Izmailov et al. 2018).
    """

    def __init__(self, kind: AverageKind, parameters: FlatParameters, buffers: FlatBuffers, first_epoch: int) -> None:
        self.parameters, self.buffers = parameters, buffers
        self.kinds = {"none": (), "ema": ("ema",), "swa": ("swa",), "both": ("ema", "swa")}[kind]
        self.first_epoch = first_epoch
        self._flat = {kind: [source.clone() for source in self._sources()] for kind in self.kinds}
        self._steps = torch.zeros((), device=parameters.master.device)

    @torch.no_grad()
    def after_step(self) -> None:
        """Follow one update; part of the captured step."""
        if "ema" in self._flat:
            self._steps.add_(1)
            share = 1 - torch.clamp((1 + self._steps) / (10 + self._steps), max=DECAY)
            for average, source in zip(self._flat["ema"], self._sources(), strict=True):
                average.lerp_(source, share)

    @torch.no_grad()
    def after_epoch(self, epoch: int) -> None:
        """Follow the end of an epoch, counted from 0."""
        if "swa" in self._flat and epoch >= self.first_epoch:
            for average, source in zip(self._flat["swa"], self._sources(), strict=True):
                average.lerp_(source, 1 / (epoch - self.first_epoch + 1))

    def state(self) -> dict[str, Tensor]:
        """Everything that changes, by name, for checkpoints."""
        if not self.kinds:
            return {}
        flat = {
            f"average.{kind}.{part}": value
            for kind, values in self._flat.items()
            for part, value in zip(("weights", "statistics"), values, strict=True)
        }
        return {**flat, "average.steps": self._steps}

    def weights(self, kind: str) -> Iterator[tuple[str, Tensor]]:
        """The averaged parameters and buffers by name."""
        parameters, buffers = self._flat[kind]
        yield from self.parameters.named(parameters)
        yield from self.buffers.named(buffers)

    def _sources(self) -> tuple[Tensor, Tensor]:
        return self.parameters.master, self.buffers.flat

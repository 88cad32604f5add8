"""One stage of training: its optimiser, its steps, its place in the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from procrustean.balance.types import Clock
from procrustean.base.errors import ConfigError
from procrustean.data.epoch_plan import Arrays, EpochPlanner
from procrustean.data.imageset import ImageSet
from procrustean.data.imbalance import MetaSet
from procrustean.data.recipes import Recipe, lr_table, step_rates
from procrustean.engine.device import Placement
from procrustean.engine.engines import Engine, Runner
from procrustean.engine.image_stores import AnyImages
from procrustean.engine.optimizer import (
    AverageKind,
    FlatBuffers,
    FlatParameters,
    SwaFrom,
    WeightAverages,
    make_optimizer,
    swa_begins,
)
from procrustean.engine.step import StepImages, StepInputs, TrainStep, precision
from procrustean.engine.streaming import BatchFeed, StreamedImages
from procrustean.methods.method import Stage
from procrustean.nets.blocks import use_fused_kernels
from procrustean.nets.classifier import Classifier
from procrustean.records.checkpoints import check_tensors


@dataclass(frozen=True)
class MetaImages:
    """The small balanced set a stage draws its second stream from."""

    chosen: MetaSet
    store: AnyImages


class StageRun:
    """Trains a network through one stage, any number of steps at a time."""

    def __init__(
        self,
        stage: Stage,
        number: int,
        *,
        net: Classifier,
        train: ImageSet,
        images: AnyImages,
        recipe: Recipe,
        epochs: int,
        seed: int,
        placement: Placement,
        engine: Engine,
        meta: MetaImages | None = None,
        average: AverageKind = "none",
        swa_from: SwaFrom = "drw",
    ) -> None:
        self.stage, self.number, self.epochs, self.seed = stage, number, epochs, seed
        self.net, self.device = net, placement.device
        self.recipe = recipe = stage.changed(recipe)
        self.rates = lr_table(recipe, epochs)
        self.planner = EpochPlanner(
            labels=train.labels,
            batch_size=min(recipe.batch_size, len(train)),
            augmentation=images.augmentation,
            draws=stage.objective.draws,
            sampler=stage.sampler,
            extra=stage.extra,
            extra_labels=None if meta is None else meta.chosen.images.labels,
        )
        device = self.device
        self.clock = Clock.at(0, epochs, device)
        self.parameters = FlatParameters(net, freeze_all_but(net, stage.trainable), placement.low_precision)
        self.optimizer = make_optimizer(
            recipe,
            self.parameters,
            FlatBuffers(net, device),
            lr=self.clock.lr,
            rates={"backbone": recipe.backbone_rate, **stage.rates} if recipe.backbone_rate != 1 else stage.rates,
            no_decay=stage.no_decay,
        )
        first = swa_begins(stage.objective, epochs, swa_from)
        self.averages = WeightAverages(average, self.parameters, self.optimizer.buffers, first)
        self.objective = stage.objective.to(device)
        self.objective.bind(net)
        self.feeds: dict[str, BatchFeed] = {}  # by the stream they feed, "" or "extra."
        own = self._source("", images)
        extra = own
        if stage.extra is not None:
            extra = self._source("extra.", images if meta is None else meta.store)
        tail = self.planner.images - self.planner.full_steps * self.planner.batch_size
        shapes = [(self.planner.full_steps, self.planner.batch_size), (1 if tail else 0, tail)]
        self.steps = [
            TrainStep(
                net=net,
                objective=self.objective,
                optimizer=self.optimizer,
                images=own,
                extra_images=extra,
                inputs=StepInputs(device, count, size, by_step=recipe.schedule == "one_cycle"),
                clock=self.clock,
                losses=torch.zeros(count, device=device),
                bad_step=torch.full((1,), -1, dtype=torch.int64, device=device),
                low_precision=placement.low_precision,
                averages=self.averages,
            )
            for count, size in shapes
            if count
        ]
        self.plan: Arrays = {}
        self.engine = engine
        self._enter_phase(self.objective.phase_at(0, epochs))

    def _source(self, prefix: str, images: AnyImages) -> StepImages:
        """What the steps read a stream of images from."""
        if not isinstance(images, StreamedImages):
            return images
        self.feeds[prefix] = images.feed(self.planner.batch_size)
        return self.feeds[prefix]

    @property
    def steps_per_epoch(self) -> int:
        return self.planner.steps

    def begin_epoch(self, epoch: int, step: int = 0) -> None:
        """Load the plan of an epoch, to go on at a step of it."""
        self.net.train()
        if self.stage.norm == "eval":
            keep_statistics(self.net, self.stage.trainable)
        if self.objective.phase_at(epoch, self.epochs) != self.objective.phase:
            self._enter_phase(self.objective.phase_at(epoch, self.epochs))
        self.clock.epoch.fill_(epoch)
        self.clock.lr.fill_(self.rates[epoch])
        self.plan = self.planner.draw(self.seed, self.number, epoch)
        rates = step_rates(self.recipe, self.epochs, epoch, self.steps_per_epoch)
        first_image, first_step = 0, 0
        for part in self.steps:
            part.inputs.load(self.plan, first_image)
            part.inputs.load_rates(rates[first_step : first_step + part.inputs.steps])
            part.inputs.cursor.fill_(min(max(step - first_step, 0), part.inputs.steps))
            first_image += part.inputs.steps * part.inputs.batch
            first_step += part.inputs.steps
        for prefix, feed in self.feeds.items():
            feed.begin(self.plan, prefix, step)

    def end_epoch(self, epoch: int) -> None:
        """What follows the last step of an epoch."""
        self.averages.after_epoch(epoch)

    def advance(self, step: int, count: int) -> int:
        """Run up to `count` steps from `step` on, of one batch size; returns how many were run."""
        if not self._runners:
            self._make_runners()
        part = 0
        if step >= self.steps[0].inputs.steps:
            step, part = step - self.steps[0].inputs.steps, 1
        count = min(count, self.steps[part].inputs.steps - step)
        if not self.feeds:
            self._runners[part](count)
            return count
        for _ in range(count):
            for feed in self.feeds.values():
                feed.advance()
            self._runners[part](1)
        return count

    def _enter_phase(self, phase: int) -> None:
        """From now on the objective takes another step, which has to be captured anew."""
        self.objective.phase = phase
        use_fused_kernels(self.net, self.engine.kernels)
        self._runners: list[Runner] = []

    def _make_runners(self) -> None:
        # Compiling and capturing try the steps out. A run that goes on in the middle of an epoch may stand behind the
        # last whole batch, so the trial starts at the beginning of the plan.
        cursors = [part.inputs.cursor for part in self.steps]
        places = [cursor.clone() for cursor in cursors]
        for cursor in cursors:
            cursor.zero_()
        if self.engine.kernels:
            self._compile_kernels()
        self._runners = self.engine.runners(self.steps, self.changing())
        for cursor, place in zip(cursors, places, strict=True):
            cursor.copy_(place)

    @torch.no_grad()
    def _compile_kernels(self) -> None:
        """Compile the hand-written kernels of the network side by side, before the first step needs them."""
        from procrustean.balance.triton_launch import compile_in_parallel

        # Nothing is computed: what layers without such kernels make of it must not stay in their statistics.
        self.optimizer.buffers.remember()
        with compile_in_parallel(), precision(self.device, self.steps[0].low_precision):
            self.net(self.steps[0].batch().x)
        self.optimizer.buffers.restore()

    def mean_loss(self) -> float:
        """Mean loss per image of the epoch; waits for the device."""
        total = torch.stack([part.losses.double().sum() * part.inputs.batch for part in self.steps]).sum()
        return float(total) / self.planner.images

    def non_finite(self) -> tuple[int, list[int]] | None:
        """The first step with a non-finite value, if there was one, and its images; waits for the device."""
        if bool(self.optimizer.healthy):
            return None
        first_step, first_image = 0, 0
        for part in self.steps:
            bad = int(part.bad_step)
            if bad >= 0:
                start = first_image + bad * part.inputs.batch
                rows = self.plan["index"][start : start + part.inputs.batch]
                return first_step + bad, [int(i) for i in np.sort(rows)]
            first_step += part.inputs.steps
            first_image += part.inputs.steps * part.inputs.batch
        raise RuntimeError("updates are suppressed, but no step reported a non-finite value")

    def changing(self) -> list[Tensor]:
        """Every tensor a training step writes to."""
        tensors = [*self.state().values(), self.optimizer.healthy]
        tensors += [t for part in self.steps for t in (part.bad_step, part.inputs.cursor)]
        return [*tensors, *(p.data for p in self.parameters.parameters)]

    def state(self) -> dict[str, Tensor]:
        """Everything that changes while the stage runs, by name."""
        state = {f"net.{name}": value for name, value in self.weights().items()}
        state |= self.optimizer.state()
        state |= {f"objective.{n}": v for n, v in self.objective.state_dict().items()}
        state |= {f"losses.{i}": part.losses for i, part in enumerate(self.steps)}
        return state | self.averages.state()

    @torch.no_grad()
    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """The reverse of `state`."""
        own = self.state()
        check_tensors(own, state, f"stage {self.stage.name!r}")
        for name, target in own.items():
            target.copy_(state[name])
        self.parameters.refresh()

    def weights(self) -> dict[str, Tensor]:
        """The network's state dict in float32: masters instead of working copies."""
        return {**self.net.state_dict(), **dict(self.parameters.named(self.parameters.master))}

    def averaged_weights(self) -> dict[str, dict[str, Tensor]]:
        """The network's state dict with averaged weights and statistics, by the kind of average."""
        state = self.net.state_dict()
        return {
            kind: {**state, **{name: value for name, value in self.averages.weights(kind) if name in state}}
            for kind in self.averages.kinds
        }

    def close(self) -> None:
        """End the threads and processes that read images; a stage that is given up needs no more."""
        for feed in self.feeds.values():
            feed.close()

    def finish(self) -> None:
        """Give the network its own parameters back, all of them to be trained, and take the objective's hooks off."""
        self.parameters.release()
        self.net.requires_grad_(True)  # who trains it on would otherwise train what the last stage did, without a word
        self.objective.unbind()


def freeze_all_but(net: Classifier, trainable: str | Sequence[str]) -> list[str]:
    """Names of the parameters that learn; all others stop requiring gradients."""
    names = learning_names(net, trainable)
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(is_within(name, trainable))
    return names


def learning_names(net: nn.Module, trainable: str | Sequence[str]) -> list[str]:
    """Names of the parameters of the trainable parts; ConfigError if the network lacks one of them."""
    every = [name for name, _ in net.named_parameters()]
    for part in [trainable] if isinstance(trainable, str) else trainable:
        if not any(is_within(name, part) for name in every):
            parts = ", ".join(repr(name) for name, _ in net.named_children())
            raise ConfigError(
                f"trainable = {part!r} received, but the network has no such part; name 'all', {parts} or a layer "
                "within them by its path"
            )
    return [name for name in every if is_within(name, trainable)]


def keep_statistics(net: Classifier, trainable: str | Sequence[str]) -> None:
    """Put batch normalisation outside the trainable parts into evaluation mode: its statistics stay."""
    for name, module in net.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and not is_within(name, trainable):
            module.eval()


def is_within(name: str, parts: str | Sequence[str]) -> bool:
    """Whether a parameter or module belongs to a part of the network, or to one of several."""
    if isinstance(parts, str):
        parts = (parts,)
    return any(part == "all" or name == part or name.startswith(part + ".") for part in parts)

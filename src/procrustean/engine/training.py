"""A training run from the first step to the last: stages, epochs, evaluation, records, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import torch
from torch import Tensor

from procrustean.balance.metrics import Count, Metrics
from procrustean.balance.types import Clock
from procrustean.balance.weights import epochs_of_setting_in
from procrustean.base.epochs import EpochRecord, Evaluated
from procrustean.base.errors import Diverged, RunError
from procrustean.base.json_files import to_plain, to_typed
from procrustean.base.progress import Reporter
from procrustean.base.stop_signals import Interrupted as Interrupted
from procrustean.data.imbalance import meta_set
from procrustean.engine.evaluation import evaluate_net
from procrustean.engine.prepared_run import Prepared
from procrustean.engine.probes import Probe, Probing, default_spacing
from procrustean.engine.side_by_side import Pace
from procrustean.engine.stage_order import begin_stage, finished, reshape_for, stage_epochs
from procrustean.engine.stage_training import MetaImages, StageRun
from procrustean.records.checkpoints import check_tensors, cpu_copy
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import Selected

Measured = TypeVar("Measured")

HELD_OUT_WEIGHTS = "held_out.safetensors"
KEPT = "held_out."  # before the names of those weights in a checkpoint
#: Seconds between two signs of how far an epoch is; a long one must not look like a program that hangs.
SPACING = 1.0


def weights_file(epochs: int) -> str:
    """Where the weights after so many epochs are kept in a run directory, if they are asked for."""
    return f"weights-{epochs:06d}.safetensors"


@dataclass
class Position:
    """Where a run stands, and what it has found so far."""

    stage: Count = 0
    epoch: Count = 0  # within the stage
    step: Count = 0  # within the epoch
    records: Count = 0  # epochs finished in all stages
    seconds: dict[str, float] = field(default_factory=lambda: {"train": 0.0, "evaluate": 0.0, "first_step": 0.0})
    last: Selected | None = None
    held_out: Selected | None = None  # the best on the held-out images
    oracle: Selected | None = None  # the best on the test images

    def forget_best(self) -> None:
        """Nothing is selected yet of the network that is trained from now on."""
        self.held_out = self.oracle = None

    @classmethod
    def from_json(cls, record: dict[str, Any], origin: str) -> Position:
        """The position that a checkpoint was saved at; RunError for what cannot be one."""
        try:
            return to_typed(record, cls)
        except msgspec.ValidationError as error:
            raise RunError(f"the checkpoint of {origin} is damaged or of another version ({error})") from error


class Training:
    """Trains one network. `run()` is a generator that yields between chunks of steps, so many runs can take turns.

    Args:
        prepared: the run.
        folder: where its records and checkpoints go.
        reporter: told of its progress.
        stop_requested: whether to save and end.
    """

    def __init__(
        self,
        prepared: Prepared,
        folder: RunFolder,
        reporter: Reporter,
        stop_requested: Callable[[], bool] = lambda: False,
    ) -> None:
        config, data, method = prepared.config, prepared.data, prepared.method
        self.prepared, self.folder, self.reporter, self.stop_requested = prepared, folder, reporter, stop_requested
        self.config, self.data, self.method, self.recipe = config, data, method, prepared.recipe
        self.name = prepared.name  # in progress
        self.placement = prepared.placement
        self.net = prepared.build_net().to(self.placement.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.epochs = stage_epochs(method, prepared.recipe.epochs)
        self.evaluate_every = config.evaluate_every or max(1, prepared.recipe.epochs // 100)
        self.counts: list[int] = [int(n) for n in data.counts]
        self.stores = prepared.training_stores(self.net, reporter)
        self.train_images = self.stores.training(data.train)
        self.test_images = self.stores.evaluation(data.test)
        self.held_out_images = None
        if data.held_out is not None:
            self.held_out_images = self.stores.evaluation(data.held_out, "held_out")
        self.meta: list[MetaImages | None] = [None] * len(method.stages)
        for number, stage in enumerate(method.stages):
            if stage.extra_from == "meta":
                chosen = meta_set(data, stage.meta_per_class, config.seed)
                self.meta[number] = MetaImages(chosen, self.stores.training(chosen.images, "meta"))
        self.probing = self._probing() if config.probing else None
        self.pace = Pace(self.placement.device)
        self.position = Position()
        self.records: list[EpochRecord] = []
        self.finished: dict[str, Any] = {}
        self._started = time.monotonic()
        self._last_checkpoint = self._mark = self._last_sign = self._started
        self._pending: dict[str, Tensor] | None = None
        # Weights of the epoch that is best on the held-out images so far. Part of every checkpoint: in a file of their
        # own they could be those of an epoch that a resumed run on a GPU does not choose again.
        self._kept: dict[str, Tensor] = {}

    def _probing(self) -> Probing:
        config = self.config
        probe = Probe(
            train=self.train_images,
            test=self.test_images,
            classes=len(self.counts),
            seed=config.seed,
            low_precision=self.placement.low_precision,
        )
        every = config.probe_every or default_spacing(self.counts, len(self.test_images), self.placement.device.type)
        return Probing(probe, every=every, features_at=config.features_at, directory=self.folder)

    def restore(self) -> bool:
        """Go on from the newest checkpoint of the run directory; False if there is none."""
        loaded = self.folder.load_checkpoint()
        if loaded is None:
            self.reporter.say(f"{self.folder.path}: no checkpoint had been written yet; it begins anew")
            return False
        self._pending, position = loaded
        self.position = Position.from_json(position, str(self.folder.path))
        self._kept = {name: value for name, value in self._pending.items() if name.startswith(KEPT)}
        self.records = self.folder.records()
        between_stages = self.position.epoch == 0 and self.position.step == 0
        for number in range(self.position.stage + (0 if between_stages else 1)):
            self._prepare(number)
        if between_stages:
            state = {n.removeprefix("net."): v for n, v in self._pending.items() if n.startswith("net.")}
            check_tensors(self.net.state_dict(), state, str(self.folder.path))
            self.net.load_state_dict(state)
            for parameter in self.net.parameters():
                # As a stage leaves them: in another layout sums are rounded differently.
                parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
            self._pending = None
        return True

    def run(self) -> Iterator[None]:
        """Train to the end, yielding between chunks of steps."""
        position = self.position
        self.reporter.run_started(self.name, sum(self.epochs), position.records)
        while position.stage < len(self.method.stages):
            yield from self._run_stage(position.stage)
            position.stage, position.epoch, position.step = position.stage + 1, 0, 0
            if position.stage < len(self.method.stages):
                # What is selected is a network of the last stage: those before are not what the method trains.
                position.forget_best()
                self._kept = {}
            self._checkpoint({f"net.{k}": v for k, v in self.net.state_dict().items()})
        if self.method.finish is not None:
            self._finish()
        if self._kept:
            self.folder.save_weights(HELD_OUT_WEIGHTS, {n.removeprefix(KEPT): v for n, v in self._kept.items()})

    def _finish(self) -> None:
        """Turn the trained network into the one that predicts; there is only one, so every selection is of it."""

        def judge() -> float:
            assert self.held_out_images is not None
            low = self.placement.low_precision
            return evaluate_net(self.net, self.held_out_images, self.counts, low).balanced_accuracy

        judging = None if self.held_out_images is None else judge
        self.finished = finished(self.net, self.method, self.config.seed, judging)
        self.position.forget_best()
        self._evaluate(self.records[-1])
        if self.probing is not None:
            record = self.records[-1]
            clock = Clock.at(self.epochs[-1] - 1, self.epochs[-1], self.placement.device)
            measuring = self.probing.measure(self.net, self.method.stages[-1], clock, record.epoch, last=True)
            record.probe = run_to_end(measuring)
            self._lap("probe")

    @torch.no_grad()
    def _clean_batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from self.train_images.clean_batches(500)

    def _run_stage(self, number: int) -> Iterator[None]:
        position = self.position
        plan = self.method.stages[number]
        if self._pending is None:
            self._prepare(number)
            begin_stage(self.net, self.method, number, self.config.seed, self._clean_batches)
        stage = StageRun(
            plan,
            number,
            net=self.net,
            train=self.data.train,
            images=self.train_images,
            recipe=self.recipe,
            epochs=self.epochs[number],
            seed=self.config.seed,
            placement=self.placement,
            engine=self.prepared.engine,
            meta=self.meta[number],
            average=self.config.average,
            swa_from=self.config.swa_from,
        )
        try:
            if self._pending is not None:
                stage.load_state(self._pending)
                self._pending = None
            weighted_from = epochs_of_setting_in(plan.objective, stage.epochs) - {0}
            while position.epoch < stage.epochs:
                if position.epoch in weighted_from:
                    self.reporter.say(
                        f"{self.name}: class weights (DRW) from epoch {position.records + 1} on, so the loss is another"
                    )
                stage.begin_epoch(position.epoch, position.step)
                yield from self._run_epoch(stage)
            # Before the checkpoint that says that the stage is over, which holds the network alone.
            for kind, weights in stage.averaged_weights().items():
                self.folder.save_weights(f"{kind}.safetensors", weights)
        finally:
            stage.close()
        stage.finish()

    def _run_epoch(self, stage: StageRun) -> Iterator[None]:
        position = self.position
        self._mark = time.monotonic()
        earlier, first_step = position.seconds["train"], position.step
        while position.step < stage.steps_per_epoch:
            yield from self.pace.until_few_are_queued()
            position.step += self.pace.queue(lambda count: stage.advance(position.step, count))
            if not position.seconds["first_step"]:
                self._wait()
                position.seconds["first_step"] = time.monotonic() - self._started
            yield
            if position.step < stage.steps_per_epoch:
                self._tell_progress(position.step / stage.steps_per_epoch)
                self._boundary(stage)
        # The other runs of a fleet take their turns while the device works off what this one has queued.
        yield from self.pace.until_all_is_done()
        self._refuse_non_finite(stage)
        stage.end_epoch(position.epoch)
        loss, lr = stage.mean_loss(), stage.rates[position.epoch]
        record = EpochRecord(stage=stage.number, epoch=position.records, loss=loss, lr=lr)
        self._lap("train")
        shown = min(stage.planner.images, (stage.steps_per_epoch - first_step) * stage.planner.batch_size)
        record.images_per_second = round(shown / (position.seconds["train"] - earlier), 1)
        last = position.epoch == stage.epochs - 1
        if last or (position.records + 1) % self.evaluate_every == 0:
            self._evaluate(record, stage)
        if self.probing is not None and self.probing.due(position.records, last):
            measuring = self.probing.measure(self.net, stage.stage, stage.clock, position.records, last)
            record.probe = yield from measuring
            self._lap("probe")
        if self.config.keep_weights_every and (position.records + 1) % self.config.keep_weights_every == 0:
            self.folder.save_weights(weights_file(position.records + 1), stage.weights())
        self.records.append(record)
        self.folder.append(record)
        self.reporter.epoch_done(self.name, position.records, record)
        position.records, position.epoch, position.step = position.records + 1, position.epoch + 1, 0
        if not last:
            self._boundary(stage)

    def _tell_progress(self, share: float) -> None:
        now = time.monotonic()
        if now - self._last_sign >= SPACING:
            self._last_sign = now
            self.reporter.within_epoch(self.name, self.position.records, share)

    def _prepare(self, number: int) -> None:
        reshape_for(self.net, self.method, number, self.config.seed)
        self.net.to(self.placement.device, memory_format=torch.channels_last)

    def _evaluate(self, record: EpochRecord, stage: StageRun | None = None) -> None:
        position = self.position
        low, epoch = self.placement.low_precision, record.epoch
        test = evaluate_net(self.net, self.test_images, self.counts, low)
        position.last = Selected(epoch=epoch, metrics=test)
        record.test = _summary(test)
        if _better(test.headline_value, position.oracle):
            position.oracle = Selected(epoch=epoch, metrics=test, chosen_by=test.headline_value)
        if self.held_out_images is not None:
            held_out = evaluate_net(self.net, self.held_out_images, self.counts, low)
            record.held_out = _summary(held_out)
            chosen_by = held_out.balanced_accuracy
            # Ties go to the later epoch: with a few images per class they are frequent, and more training is safer.
            if _better(chosen_by, position.held_out, or_equal=True):
                position.held_out = Selected(epoch=epoch, metrics=test, chosen_by=chosen_by)
                weights = stage.weights() if stage else self.net.state_dict()
                self._kept = {KEPT + name: cpu_copy(value) for name, value in weights.items()}
        if self.config.track_training:
            record.train = _summary(evaluate_net(self.net, self.train_images, self.counts, low))
        self._lap("evaluate")

    def _boundary(self, stage: StageRun) -> None:
        """A moment at which the state can be saved: between two steps."""
        stop = self.stop_requested()
        if not stop and time.monotonic() - self._last_checkpoint < self.config.checkpoint_every:
            return
        self._refuse_non_finite(stage)
        self._lap("train")
        self._checkpoint(stage.state())
        if stop:
            raise Interrupted

    def _checkpoint(self, tensors: dict[str, Tensor]) -> None:
        self._wait()
        own = {n: cpu_copy(t) for n, t in tensors.items()}
        self.folder.save_checkpoint({**own, **self._kept}, to_plain(self.position))
        self._last_checkpoint = self._mark = time.monotonic()

    def _lap(self, kind: str) -> None:
        """Add the time since the last mark to a kind of work."""
        now = time.monotonic()
        self.position.seconds[kind] = self.position.seconds.get(kind, 0.0) + now - self._mark
        self._mark = now

    def _refuse_non_finite(self, stage: StageRun) -> None:
        found = stage.non_finite()
        if found is None:
            return
        step, images = found
        shown = ", ".join(map(str, images[:8])) + (", ..." if len(images) > 8 else "")
        left = "the checkpoint before it is intact" if self.folder.has_checkpoint else "no checkpoint was written"
        # For every command and for Python: settings are named, not flags.
        lower = "a lower learning rate (lr)" + ", or precision fp32," * (self.placement.low_precision is not None)
        advice = f"Try {lower} in another folder, if this one was named"
        if self.position.epoch == 0 and step == 0:
            advice = f"It was the first step: look at the loss and the class weights of the method, or try {lower}"
        raise Diverged(
            f"non-finite loss, gradient or weight in epoch {self.position.records + 1}, step {step + 1}, on training "
            f"images [{shown}] of {self.folder.path}. {advice}; {left}"
        )

    def _wait(self) -> None:
        if self.placement.device.type == "cuda":
            torch.cuda.current_stream().synchronize()


def run_to_end(measuring: Generator[None, None, Measured]) -> Measured:
    """The result of a measurement that no other run waits for."""
    while True:
        try:
            next(measuring)
        except StopIteration as end:
            result: Measured = end.value
            return result


def _better(value: float, best: Selected | None, *, or_equal: bool = False) -> bool:
    if best is None or best.chosen_by is None:
        return True
    return value > best.chosen_by or (or_equal and value == best.chosen_by)


def _summary(metrics: Metrics) -> Evaluated:
    return Evaluated(
        headline=metrics.headline,
        accuracy=metrics.accuracy,
        balanced_accuracy=metrics.balanced_accuracy,
        recall=metrics.recall,
    )

"""A run from its first step to its result, and where it stands in between: new, going on, finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from procrustean.base.cores import ONE_THREAD, slow_threads
from procrustean.base.errors import ImagesChanged, RunError
from procrustean.base.progress import Reporter, WithoutTest, headline_text, held_out_text
from procrustean.engine.calibration.stored_calibration import keep_calibration
from procrustean.engine.device import own_stream
from procrustean.engine.prepared import (
    Prepared,
)
from procrustean.engine.run_record import identity_of, make_result
from procrustean.engine.slow_steps import SlowSteps
from procrustean.engine.threads import sane_threads
from procrustean.engine.training import Training
from procrustean.nets.classifier import Classifier
from procrustean.records.finding_runs import CONFIG_FILE
from procrustean.records.run_folder import RunFolder, spelt_as
from procrustean.records.run_record import load_result
from procrustean.runs.cost import expected_speed_on_cpu
from procrustean.runs.loggers import Tool, TrackingReporter
from procrustean.runs.preparing import (
    check_identity,
)

if TYPE_CHECKING:
    from procrustean.engine.probe_schedule import Probing
    from procrustean.runs.advice.plan_training import Plan

_OVER = object()

#: The images whose accuracy is shown in progress.
ShownImages = Literal["test", "held_out"]


@dataclass(frozen=True)
class FinishedRun:
    """A trained network with its record."""

    path: Path  # the run directory
    result: dict[str, Any]  # what result.json holds
    net: Classifier

    @property
    def metrics(self) -> dict[str, Any]:
        """Metrics of the last epoch on the test set: the headline."""
        metrics: dict[str, Any] = self.result["selections"]["last"]["metrics"]
        return metrics

    def __repr__(self) -> str:
        name = self.metrics["headline"]
        value = 100 * self.metrics[name]
        return f"FinishedRun({self.result['label']}, {name.replace('_', ' ')} {value:.1f} %, {str(self.path)!r})"


def begin_or_go_on(
    plan: Plan,
    path: Path,
    prepared: Callable[[Mapping[str, Any]], Prepared],
    reporter: Reporter,
    *,
    stop: Callable[[], bool],
    log: Tool | None = None,
    show: ShownImages = "test",
) -> OngoingRun | None:
    """The run of a plan in a folder, claimed: new, or from where it was saved; None if it is finished.

    Args:
        plan: settings with nothing left open, and the images; a run that is finished has to be of the same ones.
        path: folder of the run.
        prepared: makes the run ready, given the recipe it began with, if it has begun.
        reporter: where its progress goes.
        stop: whether to save and end.
        log: tool that is handed the numbers of every epoch.
        show: "held_out" while runs are compared by those images.
    """
    if not (path / CONFIG_FILE).exists():
        new = prepared({})
        # While the images were loaded, another process with the same runs may have begun this one, or finished it.
        if not (path / CONFIG_FILE).exists():
            directory = RunFolder.create(path, plan.config, identity_of(new), plan.why)
            return OngoingRun(new, directory, reporter, stop=stop, log=log, show=show)
    directory, existing, identity = RunFolder.open(path)
    if existing.hash != spelt_as(existing, directory.source_path(), plan.config).hash:
        directory.refuse_reuse(plan.config)
    directory.claim()
    try:
        if directory.finished:
            _refuse_other_images(directory, plan)
            directory.clear()
            directory.release()
            return None
        begun = prepared(identity.get("recipe", {}))
        check_identity(path, identity, begun)
    except BaseException:
        directory.release()
        raise
    return OngoingRun(begun, directory, reporter, stop=stop, resume=True, log=log, show=show)


def _refuse_other_images(finished: RunFolder, plan: Plan) -> None:
    try:
        trained_on = load_result(finished.path).data.get("source_hash")  # which early records do not have
    except RunError:
        return  # who reads the result tells that it is damaged
    now = plan.source_hash
    if None not in (trained_on, now) and trained_on != now:
        raise ImagesChanged(
            f"{finished.path} was trained on other images than {plan.config.source} holds now. Put those back, or "
            "train on those that are there now in another folder"
        )


class OngoingRun:
    """A run in progress: `turns` trains it to the end, yielding between chunks of steps, and leaves `finished`."""

    def __init__(
        self,
        prepared: Prepared,
        directory: RunFolder,
        reporter: Reporter,
        *,
        stop: Callable[[], bool] = lambda: False,
        resume: bool = False,
        log: Tool | None = None,
        show: ShownImages = "test",
        go_on_by: str | None = None,  # the command, where it is another than the one that began it
    ) -> None:
        self.prepared, self.directory, self.show, self.go_on_by = prepared, directory, show, go_on_by
        if show == "held_out":
            reporter = WithoutTest(reporter)
        self.tracking = None if log is None else TrackingReporter(reporter, log, directory.path)
        self.reporter = self.tracking or reporter
        self.stop, self.resume = stop, resume
        self.finished: FinishedRun | None = None

    def to_end(self) -> FinishedRun:
        """Train without yielding, on a stream of the device of its own."""
        with own_stream(self.prepared.placement.device):
            for _ in self.turns():
                pass
        assert self.finished is not None
        return self.finished

    def turns(self) -> Iterator[None]:
        try:
            yield from self._turns()
        finally:
            if self.tracking is not None:
                self.tracking.end()
            self.directory.release()

    def _turns(self) -> Iterator[None]:
        prepared, config, engine = self.prepared, self.prepared.config, self.prepared.engine
        how = f"{engine.name}: {engine.reason}{', own kernels' * engine.kernels}"
        self.reporter.say_once(f"{prepared.placement.reason}; {how}")
        self.reporter.say_once(prepared.data_text())
        self.reporter.say_once(prepared.recipe_text())
        net = prepared.build_net()
        stores = prepared.stores()
        training = Training(
            net=net,
            name=prepared.name,
            method=prepared.method,
            data=prepared.data,
            recipe=prepared.recipe,
            seed=config.seed,
            placement=prepared.placement,
            engine=engine,
            stores=stores,
            evaluate_every=config.evaluate_every or max(1, prepared.recipe.epochs // 100),
            track_training=config.track_training,
            checkpoint_every=config.checkpoint_every,
            directory=self.directory,
            reporter=self.reporter,
            keep_weights_every=config.keep_weights_every,
            stop_requested=self.stop,
            average=config.average,
            swa_from=config.swa_from,
        )
        if "streamed" in (where := stores.where["train"]):
            self.reporter.say_once(f"training images {where}")
        elif prepared.placement.device.type == "cpu":  # what waits for a disk says nothing about the cores
            training.slow_steps = SlowSteps(self._tell_slow, lambda: expected_speed_on_cpu(prepared))
        if config.probing:
            training.probing = self._probing(training)
        if self.resume:
            training.restore()
        steps = training.run()
        going = True
        while going:
            # Between its turns a run leaves the process as it found it.
            with sane_threads(prepared.recipe.net):
                going = next(steps, _OVER) is not _OVER
            if going:
                yield
        self.directory.save_weights("model.safetensors", net.state_dict())
        result = make_result(prepared, training)
        result["calibration"] = keep_calibration(prepared, net, self.directory)
        self.directory.finish(result)
        self.finished = FinishedRun(self.directory.path, result, net.eval())
        text = headline_text(self.finished.metrics)
        if self.show == "held_out":
            text = held_out_text(result["curves"]["held_out_balanced_accuracy"][-1])
        self.reporter.run_finished(prepared.name, f"{text}, kept in {self.directory.path}")

    def _tell_slow(self, speed: float, expected: float, threads: int) -> None:
        name, command = self.prepared.name, self.go_on_by
        again = f"the same command with {ONE_THREAD} before it" if command is None else f"{ONE_THREAD} {command}"
        self.reporter.say(f"{name}: {speed:,.0f} images a second, where about {expected:,.0f} were expected")
        self.reporter.say_once(
            f"other programs probably use the cores: {slow_threads(threads)}. To go on with one: Ctrl-C, which saves "
            f"the run, then {again}. Results differ a little between numbers of threads"
        )

    def _probing(self, training: Training) -> Probing:
        from procrustean.engine.probe_schedule import Probing, default_spacing
        from procrustean.engine.probes import Probe

        config, counts = self.prepared.config, training.counts
        probe = Probe(
            train=training.train_images,
            test=training.test_images,
            classes=len(counts),
            seed=config.seed,
            low_precision=self.prepared.placement.low_precision,
        )
        every = config.probe_every or default_spacing(counts, len(training.test_images), probe.device.type)
        return Probing(probe, every=every, features_at=config.features_at, directory=self.directory)

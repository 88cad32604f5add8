"""A run from its first step to its result, and where it stands in between: new, going on, finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from procrustean.balance.metrics import Metrics
from procrustean.base.epochs import headline_text, held_out_text
from procrustean.base.errors import ImagesChanged, RunError
from procrustean.base.progress import Reporter, WithoutTest
from procrustean.data.recipe import Recipe
from procrustean.engine.device import own_stream, sane_threads
from procrustean.engine.image_measures import (
    answers_on,
    image_measures,
    is_measured,
    training_accuracy,
    write_predictions,
)
from procrustean.engine.make_record import identity_of, make_record
from procrustean.engine.prepared import Prepared
from procrustean.engine.stored_calibration import keep_calibration
from procrustean.engine.training import Training
from procrustean.nets.classifier import Classifier
from procrustean.records.finding_runs import CONFIG_FILE
from procrustean.records.identity import changed_settings
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import CalibrationRecord, ImageMeasures, RunRecord, load_result
from procrustean.records.run_spec import RunSpec
from procrustean.records.several_runs import last_held_out
from procrustean.runs.existing_runs import check_identity
from procrustean.runs.lint import divided_groups
from procrustean.runs.loggers import Tool, TrackingReporter

if TYPE_CHECKING:
    from procrustean.runs.advice import Plan

_OVER = object()

#: The images whose accuracy is shown in progress.
ShownImages = Literal["test", "held_out"]


#: Said by commands of several runs, which find those that are finished or begun by themselves.
STOPPED_AMONG_MANY = "stopped and saved; give the same command again to go on"


class Stopped(RunError):
    """The run was asked to stop; its state is saved."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def run_directory_of(config: RunSpec) -> Path:
    """Where the run of these settings is kept."""
    return config.run_dir or Path("runs") / config.slug


@dataclass(frozen=True)
class FinishedRun:
    """A trained network with its record."""

    path: Path  # the run directory
    record: RunRecord
    net: Classifier

    @property
    def metrics(self) -> Metrics:
        """Metrics of the last epoch on the test set: the headline."""
        return self.record.selections.last.metrics

    def __repr__(self) -> str:
        name, value = self.metrics.headline.replace("_", " "), 100 * self.metrics.headline_value
        return f"FinishedRun({self.record.label}, {name} {value:.1f} %, {str(self.path)!r})"


def begin_or_go_on(
    plan: Plan,
    path: Path,
    prepared: Callable[[Recipe | None], Prepared],
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
        new = prepared(None)
        # While the images were loaded, another process with the same runs may have begun this one, or finished it.
        if not (path / CONFIG_FILE).exists():
            directory = RunFolder.create(path, plan.config, identity_of(new), plan.why, plan.trials)
            if plan.scores is not None:
                plan.scores.keep(directory, new.data.train.classes)
            return OngoingRun(new, directory, reporter, stop=stop, log=log, show=show)
    directory, existing, identity = RunFolder.open(path)
    if changed_settings(existing, plan.config, directory.beginning().source_path):
        directory.refuse_reuse(plan.config)
    directory.claim()
    try:
        if directory.finished:
            refuse_other_images(directory, plan)
            directory.clear()
            directory.release()
            return None
        begun = prepared(identity.recipe)
        check_identity(path, identity, begun)
    except BaseException:
        directory.release()
        raise
    return OngoingRun(begun, directory, reporter, stop=stop, resume=True, log=log, show=show)


def refuse_other_images(finished: RunFolder, plan: Plan) -> None:
    """ImagesChanged where a finished run was trained on other images than a plan has."""
    try:
        trained_on = load_result(finished.path).data.source_hash
    except RunError:
        return  # who reads the result tells that it is damaged
    now = plan.source_hash
    if now is not None and trained_on != now:
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
    ) -> None:
        self.prepared, self.directory = prepared, directory
        self.show_test = show == "test" and prepared.splits.has_test
        if not self.show_test:
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
        prepared, engine = self.prepared, self.prepared.engine
        how = f"{engine.name}: {engine.reason}{', own kernels' * engine.kernels}"
        self.reporter.say_once(f"{prepared.placement.reason}; {how}")
        self.reporter.say_once(prepared.data_text())
        self.reporter.say_once(prepared.recipe_text())
        training = Training(prepared, self.directory, self.reporter, self.stop)
        if "streamed" in (where := training.stores.where["train"]):
            self.reporter.say_once(f"training images {where}")
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
        self.directory.save_weights("model.safetensors", training.net.state_dict())
        calibration = keep_calibration(prepared, training.net, self.directory, training.stores)
        record = make_record(prepared, training, calibration, self._measured(training, calibration))
        self.directory.finish(record)
        self.finished = FinishedRun(self.directory.path, record, training.net.eval())
        metrics, held_out = self.finished.metrics, last_held_out(record)
        text = "trained" if held_out is None else held_out_text(held_out)
        if self.show_test:
            text = headline_text(metrics.headline, metrics.headline_value)
        self.reporter.run_finished(prepared.name, f"{text}, kept in {self.directory.path}")

    def _measured(self, training: Training, calibration: CalibrationRecord | None) -> ImageMeasures | None:
        """What is measured image by image; of own images alone."""
        if not is_measured(self.prepared):
            return None
        test, held_out = (
            answers_on(self.prepared, training.net, split, calibration, training.stores)
            for split in ("test", "held_out")
        )
        assert test is not None
        assert training.position.last is not None
        write_predictions(self.directory, [test] if held_out is None else [test, held_out])
        trained = training_accuracy(self.prepared, training.net, training.stores)
        return image_measures(test, training.position.last.metrics, divided_groups(self.prepared), trained)

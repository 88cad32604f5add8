"""`--method auto`: train a few methods within a time, keep the one that is best on the held-out images."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from procrustean.base.console import number_of
from procrustean.base.epochs import held_out_text
from procrustean.base.errors import ConfigError, RunError
from procrustean.base.lease import Claim
from procrustean.base.progress import Reporter
from procrustean.data.describe import some_names
from procrustean.data.imageset import Splits
from procrustean.data.sources import place_of
from procrustean.engine.prepared_run import Prepared
from procrustean.records.finding_runs import SHORT
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import DataRecord, load_result
from procrustean.records.run_spec import RunSpec
from procrustean.records.several_runs import Compared, Comparison, agreed, begin, kept_in, write_record
from procrustean.runs.advice import Plan, planned, trained_on
from procrustean.runs.choosing import Choice, check_held_out, choose, held_out_accuracies, voting_counts
from procrustean.runs.cost import BESIDE_STEPS, TimeBox, measured_speed, this_machine
from procrustean.runs.existing_runs import load_run
from procrustean.runs.image_loading import Sources
from procrustean.runs.lint import lint
from procrustean.runs.loggers import Tool
from procrustean.runs.many_runs import Outcome, fit_many, raise_failures
from procrustean.runs.method_advice import COMPARED, MethodChoice
from procrustean.runs.one_run import FinishedRun, run_directory_of
from procrustean.runs.preparing import prepare

MINUTES = 30.0
#: Of how many whole trainings the time is that eight candidates take, half of them left behind each time.
WHOLE_TRAININGS = 6
#: Shares of the epochs after which the worse half is left behind, and how many epochs such a training has at least:
#: after fewer, the order says little. So many candidates are trained to the end.
SHORT_TRAININGS, FEWEST_EPOCHS, FINALISTS = (1 / 4, 1 / 2), 10, 2


@dataclass(frozen=True)
class TriedMethod:
    """A method that was tried, with what the held-out images say about it, if it came to an end."""

    method: MethodChoice
    path: Path
    last: float = math.nan  # balanced accuracy in the last epoch
    tail: float = math.nan  # the same over the last evaluations
    failed: str = ""  # why it came to no end, if not for want of time
    epochs: int | None = None  # of a short training; None for the whole

    @classmethod
    def of(cls, method: MethodChoice, outcome: Outcome, epochs: int | None) -> TriedMethod:
        if outcome.record is None:
            return cls(method, outcome.path, failed=str(outcome.error or ""), epochs=epochs)
        return cls(method, outcome.path, *held_out_accuracies([outcome.record]), epochs=epochs)

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def is_finished(self) -> bool:
        return not math.isnan(self.last)

    @property
    def text(self) -> str:
        if not self.is_finished:
            return self.failed or "no time left"
        short = "" if self.epochs is None else f", left behind after {number_of(self.epochs, 'epoch')}"
        return held_out_text(self.last) + short

    def compared(self) -> Compared:
        """Its line in the record of the comparison."""
        last = self.last if self.is_finished else None
        return Compared(name=self.name, held_out_balanced_accuracy=last, failed=self.failed, epochs=self.epochs)


def fit_auto(
    config: RunSpec,
    *,
    splits: Splits | None = None,
    minutes: float | None = None,
    reporter: Reporter,
    log: Tool | None = None,
) -> FinishedRun:
    """Compare methods on the held-out images and return the run of the best.

    All are trained for a quarter of the epochs, the better half for half of them, the best two to the end. Each
    training is a run of its own in the folder of the whole. A call that was stopped goes on where it was, and what is
    finished is not trained again.

    Args:
        config: settings with the method "auto".
        splits: the images, where the user has handed them over.
        minutes: what it may take; default 30.
        reporter: where progress goes.
        log: tool that is handed the numbers of every epoch of each method.
    """
    minutes = MINUTES if minutes is None else minutes
    if not 0 < minutes < math.inf:
        raise ConfigError(f"minutes = {minutes:g} received; comparing methods takes a time above 0")
    if config.drw:
        raise ConfigError("method 'auto' tries methods with and without drw; leave it out")
    folder = run_directory_of(config)
    kept = agreed(folder, Comparison, config)
    # The images by today's path: the one of the first call may be relative to another folder.
    plan = _planned(config if kept is None else replace(kept.config, source=config.source), splits, minutes, reporter)
    prepared = prepare(replace(plan.config, method="erm"), splits=plan.splits, made=plan.made)
    check_held_out(prepared)  # what is refused leaves no folder that another call would find taken
    if kept is None:
        begin(folder, Comparison(asked=config, config=plan.config, source_path=place_of(config.source)))
    claim = Claim(folder)
    try:
        run, best = _compare(plan, prepared, folder, minutes, reporter, log)
    finally:
        claim.release()
    if config.epochs is None and config.recipe == "auto":
        flags = command_flags(best, None if config.hold_out is not None else plan.config.hold_out)
        reporter.say(
            f"{best.name} for as long as one training takes: the same settings with {flags} in place of --method auto, "
            "and with another --run-dir"
        )
    return run


def _planned(config: RunSpec, splits: Splits | None, minutes: float, reporter: Reporter) -> Plan:
    """Settings by which all the trainings fit into the time."""
    seconds = 60 * minutes / WHOLE_TRAININGS
    machine = this_machine(config.device, seconds)
    plan = planned(config, splits=splits, machine=machine, load=Sources(reporter))
    is_open = config.epochs is None and config.recipe == "auto" and plan.splits is not None
    return _timed(plan, seconds) if is_open else plan


def _timed(plan: Plan, seconds: float) -> Plan:
    """Fewer epochs, where steps that are timed now take longer than was reckoned for a training of so many seconds."""
    assert plan.splits is not None
    config, shape = plan.config, plan.splits.train.images.shape[1:]
    assert config.net is not None
    assert config.batch_size is not None
    assert config.epochs is not None
    speed = measured_speed(config.net, shape[2], max(shape[:2]), config.batch_size, config.device)
    fitting = int(seconds * speed / (BESIDE_STEPS * sum(trained_on(config, plan.splits))))
    if fitting >= config.epochs:
        return plan
    epochs = max(1, fitting)
    why = f"{number_of(epochs, 'epoch')} instead of {config.epochs}, since steps take longer now than was reckoned"
    return replace(plan, config=replace(config, epochs=epochs), why=(*plan.why, why))


def _compare(
    plan: Plan, prepared: Prepared, folder: Path, minutes: float, reporter: Reporter, log: Tool | None
) -> tuple[FinishedRun, MethodChoice]:
    for line in plan.why:
        reporter.say_once(line)
    box = TimeBox(minutes)
    for finding in lint(prepared):
        reporter.warn(finding)
    methods = list(COMPARED)
    names = ", ".join(method.name for method in methods)
    reporter.say(f"comparing up to {len(methods)} candidates within {minutes:g} min: {names}")
    whole = prepared.recipe.epochs
    trials = _Trials(plan, whole, folder, box, reporter, log)
    left, tried = methods, dict[str, TriedMethod]()
    for epochs in (round(share * whole) for share in SHORT_TRAININGS):
        if epochs < FEWEST_EPOCHS or len(left) <= FINALISTS:
            continue
        reporter.say(f"{len(left)} candidates for {number_of(epochs, 'epoch')} each; the better half goes on")
        found = trials.of(left, epochs)
        _note(tried, found)
        ranked = sorted((each for each in found if each.is_finished), key=lambda each: (-each.last, -each.tail))
        left = [each.method for each in ranked[: max(FINALISTS, math.ceil(len(left) / 2))]]
    _note(tried, trials.of(left, None))
    reporter.close()  # bars of runs that were cut short
    finished = _finished([*tried.values()], folder, minutes)
    data = load_result(finished[0].path).record.data
    choice = choose(finished, voting_counts(data))
    _tell([tried[method.name] for method in methods], choice, data, folder, reporter)
    _, net = load_run(choice.best.path, splits=plan.splits)
    return FinishedRun(choice.best.path, load_result(choice.best.path).record, net), choice.best.method


def _note(tried: dict[str, TriedMethod], found: Sequence[TriedMethod]) -> None:
    """Take down what was found; where the time did not suffice, what a shorter training said stays."""
    tried.update({each.name: each for each in found if each.is_finished or each.failed or each.name not in tried})


class _Trials:
    """Trains candidates one after the other, as far as the time allows."""

    def __init__(
        self, plan: Plan, whole: int, folder: Path, box: TimeBox, reporter: Reporter, log: Tool | None
    ) -> None:
        self._plan, self._whole, self._folder, self._box = plan, whole, folder, box
        self._reporter, self._log = reporter, log
        self._sources, self._slowest = Sources(reporter), 0.0  # seconds of an epoch

    def of(self, methods: Sequence[MethodChoice], epochs: int | None) -> list[TriedMethod]:
        """The candidates after so many epochs; None for all. After a short training there is time for a whole one."""
        tried: list[TriedMethod] = []
        folder = self._folder if epochs is None else self._folder / SHORT / f"{epochs}-epochs"
        needed = self._whole + (epochs or 0)
        for method in methods:
            path, now = folder / method.name, time.monotonic()
            if tried and not self._box.leaves(self._slowest * needed) and not RunFolder(path).finished:
                tried.append(TriedMethod(method, path, epochs=epochs))
                continue
            (outcome,) = fit_many(
                [_of_method(self._plan, method, path, epochs)],
                sources=self._sources,
                width=1,
                reporter=self._reporter,
                time_up=self._box.is_over,
                log=self._log,
                show="held_out",
            )
            raise_failures([outcome])
            tried.append(TriedMethod.of(method, outcome, epochs))
            self._slowest = max(self._slowest, (time.monotonic() - now) / (epochs or self._whole))
        return tried


def _finished(tried: Sequence[TriedMethod], folder: Path, minutes: float) -> list[TriedMethod]:
    """Those that can be chosen; RunError if there is none."""
    finished = [each for each in tried if each.is_finished and each.epochs is None]
    if not finished:
        failed = "".join(f"; {each.name}: {each.failed}" for each in tried if each.failed)
        raise RunError(
            f"no method was trained to the end within {minutes:g} min{failed}. What there is is kept in {folder}: give "
            "the same command with more --minutes to go on, or other settings with another --run-dir"
        )
    return finished


def _of_method(plan: Plan, method: MethodChoice, path: Path, epochs: int | None) -> Plan:
    config = replace(plan.config, method=method.method, drw=method.drw, options=dict(method.options), run_dir=path)
    config = config if epochs is None else replace(config, epochs=epochs)
    return replace(plan, config=config)


def _tell(
    tried: Sequence[TriedMethod], choice: Choice[TriedMethod], data: DataRecord, folder: Path, reporter: Reporter
) -> None:
    best, worth = choice.best, choice.worth
    is_choice = sum(each.is_finished for each in tried) > 1
    for each in tried:
        reporter.say(f"{each.name}: {each.text}{', chosen' * (each is best and is_choice)}")
    without = [name for name, count in zip(data.classes, data.held_out_counts, strict=True) if not count]
    if without:
        worth += f" Without a say, because they have no held-out image: {some_names(without)}."
    began = kept_in(folder, Comparison)
    assert began is not None
    ended = msgspec.structs.replace(
        began,
        chosen=best.name,
        compared=[each.compared() for each in tried],
        worth=worth,
        held_out_images=choice.images,
        standard_error=choice.error,
        ties=[other.name for other in choice.ties],
        within_one_standard_error=[other.name for other in choice.close],
        without_a_vote=without,
    )
    write_record(folder, ended)
    reporter.say(f"{ended.verdict} Judged on {choice.images} held-out images. {worth}")


def command_flags(method: MethodChoice, hold_out: float | None) -> str:
    """What names a method on the command line.

    >>> command_flags(MethodChoice("mfw", True, (("alpha", 0.2),)), 0.15)
    '--method mfw --drw --options alpha=0.2 --hold-out 0.15'
    """
    words = [f"--method {method.method}", *["--drw"] * method.drw]
    words += ["--options", *(f"{name}={value:g}" for name, value in method.options)] if method.options else []
    words += [f"--hold-out {hold_out:g}"] if hold_out else []
    return " ".join(words)

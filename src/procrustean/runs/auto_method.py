"""`--method auto`: train a few methods within a time, keep the one that is best on the held-out images."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from procrustean.base.epochs import held_out_text
from procrustean.base.errors import ConfigError, Diverged, RunError
from procrustean.base.files import OF_A_RUN, remove_half_written, write_atomically
from procrustean.base.json_files import typed_json
from procrustean.base.lease import Claim
from procrustean.base.progress import Reporter
from procrustean.data.imageset import Splits
from procrustean.data.sources import place_of
from procrustean.engine.prepared import (
    Prepared,
)
from procrustean.records.auto_record import COMPARISON, Compared, Comparison, last_held_out, read_comparison
from procrustean.records.checkpoints import is_leftover
from procrustean.records.identity import changed_settings
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import load_result
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice.cost import this_machine
from procrustean.runs.advice.method_advice import Choice, worth_comparing
from procrustean.runs.advice.plan_training import Plan, load_images, planned
from procrustean.runs.auto_choice import Candidate, Worth, best_of, worth_of
from procrustean.runs.full_length import full_length, full_text, shortened_text, train_command
from procrustean.runs.image_loading import Sources
from procrustean.runs.lint import lint
from procrustean.runs.loggers import Tool
from procrustean.runs.many_runs import fit_many
from procrustean.runs.one_run import FinishedRun
from procrustean.runs.preparing import (
    prepare,
)
from procrustean.runs.time_box import TimeBox
from procrustean.runs.train_api import load_run, run_directory_of
from procrustean.runs.tuning.checking import check_held_out

MINUTES = 30.0
#: How many methods the epochs that are planned leave time for, by the reckoning of `advice.cost`.
FEWEST_COMPARED = 4


def fit_auto(
    config: RunSpec,
    *,
    splits: Splits | None = None,
    minutes: float | None = None,
    reporter: Reporter,
    log: Tool | None = None,
) -> FinishedRun:
    """Compare methods on the held-out images and return the run of the best.

    Each method is a run of its own in the folder of the whole. A call that was stopped goes on where it was, and what
    is finished is not trained again.

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
    machine = this_machine(config.device, 60 * minutes / FEWEST_COMPARED, config.precision)
    load = partial(load_images, say=reporter.say)
    plan = planned(_agreed(folder, config), splits=splits, machine=machine, load=load)
    full = full_length(config, plan)
    if full is not None and plan.why:  # nothing is left to plan, and to explain, for a comparison that goes on
        plan = replace(plan, why=(*plan.why, shortened_text(plan.config, full, minutes)))
    prepared = _comparable(plan)  # what is refused leaves no folder that another call would find taken
    _begin(folder, config, plan.config)
    claim = Claim(folder)
    try:
        run, best = _compare(plan, prepared, folder, minutes, reporter, log)
    finally:
        claim.release()
    if full is not None:
        length = f"{best.name} at full length, {full_text(plan.config, full)}"
        reporter.say(f"{length}: {_full_command(config, plan, best, folder, handed_over=splits is not None)}")
    return run


def _full_command(config: RunSpec, plan: Plan, best: Choice, folder: Path, *, handed_over: bool) -> str:
    if handed_over:
        return f"name the method {best.method}, and no time"
    chosen = replace(config, method=best.method, drw=best.drw, options=dict(best.options))
    return train_command(replace(chosen, hold_out=plan.config.hold_out, run_dir=Path(f"{folder}-full")))


def _comparable(plan: Plan) -> Prepared:
    """The images and the schedule, which the methods share; ConfigError where there are no images to compare on."""
    prepared = prepare(replace(plan.config, method="erm"), splits=plan.splits)
    if prepared.data.held_out is None:
        raise ConfigError(f"{plan.config.source}: there are no held-out images to compare on; give --hold-out 0.15")
    check_held_out(prepared)
    return prepared


def _compare(
    plan: Plan, prepared: Prepared, folder: Path, minutes: float, reporter: Reporter, log: Tool | None
) -> tuple[FinishedRun, Choice]:
    for line in plan.why:
        reporter.say_once(line)
    box = TimeBox(minutes)
    for finding in lint(prepared):
        reporter.warn(finding)
    choices = worth_comparing([int(n) for n in prepared.data.counts])
    reporter.say(
        f"comparing up to {len(choices)} candidates within {minutes:g} min: {', '.join(c.name for c in choices)}"
    )
    tried: list[Candidate] = []
    sources, longest = Sources(reporter.say), 0.0
    for choice in choices:
        path, now = folder / choice.name, time.monotonic()
        if tried and not box.leaves(longest) and not RunFolder(path).finished:
            tried.append(Candidate(choice, path, None))
            continue
        own = _candidate(plan, choice, path)
        (outcome,) = fit_many(
            [own], sources=sources, width=1, reporter=reporter, time_up=box.is_over, log=log, show="held_out"
        )
        if outcome.error is not None and not isinstance(outcome.error, Diverged):
            raise outcome.error
        held_out = None if outcome.record is None else last_held_out(outcome.record)
        tried.append(Candidate(choice, path, held_out, str(outcome.error or "")))
        longest = max(longest, time.monotonic() - now)
    reporter.close()  # bars of runs that were cut short
    best = best_of(tried, folder, minutes)
    record = load_result(best.path).record
    _tell(tried, best, worth_of(tried, best, record.data), folder, reporter)
    _, net = load_run(best.path, splits=plan.splits)
    return FinishedRun(best.path, record, net), best.choice


def _agreed(folder: Path, asked: RunSpec) -> RunSpec:
    """The settings to go on with: what was asked for, filled in by the first call if this is not it."""
    kept = read_comparison(folder)
    if kept is None:
        return asked
    if changed_settings(kept.asked, asked, kept.source_path):
        raise RunError(f"{folder} holds a comparison with other settings; choose another --run-dir")
    # The images by today's path: the one of the first call may be relative to another folder.
    return replace(kept.config, source=asked.source)


def _begin(folder: Path, asked: RunSpec, config: RunSpec) -> None:
    """Begin a comparison in an empty folder, or go on with the one that is there."""
    if (folder / COMPARISON).is_file():
        return
    if folder.exists() and (not folder.is_dir() or not all(map(is_leftover, folder.iterdir()))):
        raise RunError(f"{folder} exists and is not an empty folder; choose another --run-dir")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create the folder {folder} ({error.strerror}); choose another --run-dir") from error
    remove_half_written(folder)
    _write(folder, Comparison(asked=asked, config=config, source_path=place_of(asked.source)))


def _write(folder: Path, comparison: Comparison) -> None:
    write_atomically(folder / COMPARISON, typed_json(comparison), OF_A_RUN)


def _candidate(plan: Plan, choice: Choice, path: Path) -> Plan:
    config = replace(plan.config, method=choice.method, drw=choice.drw, options=dict(choice.options), run_dir=path)
    return replace(plan, config=config)


def _tell(tried: list[Candidate], best: Candidate, worth: Worth, folder: Path, reporter: Reporter) -> None:
    for candidate in tried:
        value = candidate.held_out
        text = candidate.failed or "no time left"
        if value is not None:
            text = held_out_text(value)
        reporter.say(f"{candidate.choice.name}: {text}{', chosen' * (candidate is best)}")
    reporter.say(f"{best.choice.name} was chosen on {worth.images} held-out images. {worth.text()}")
    began = read_comparison(folder)
    assert began is not None
    ended = msgspec.structs.replace(
        began,
        chosen=best.choice.name,
        compared=[Compared(name=c.choice.name, held_out_balanced_accuracy=c.held_out, failed=c.failed) for c in tried],
        worth=worth.text(),
        held_out_images=worth.images,
        standard_error=worth.error,
        ties=list(worth.ties),
        within_one_standard_error=list(worth.close),
        without_a_vote=list(worth.without_a_vote),
    )
    _write(folder, ended)

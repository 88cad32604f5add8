"""Train, resume and evaluate from Python; the command line is a thin layer over these functions."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from procrustean.base.console import command_text
from procrustean.base.errors import ConfigError, RunError
from procrustean.base.own_code import use_file
from procrustean.base.progress import Reporter
from procrustean.base.stop_signals import stop_on_signal
from procrustean.data.imageset import Splits
from procrustean.engine.device import refuse_several_ranks
from procrustean.engine.make_record import identity_of
from procrustean.engine.prepared_run import Prepared
from procrustean.engine.training import Interrupted
from procrustean.nets.own_net import Net, use_net
from procrustean.records.finding_runs import COMPARISON, resume_command
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_spec import ADVISED, AUTO, RunSpec
from procrustean.runs.advice import Plan
from procrustean.runs.auto_method import fit_auto
from procrustean.runs.existing_runs import check_identity, load_run, moved, prepare_again
from procrustean.runs.final import train_on_all
from procrustean.runs.fold_runs import fit_folds
from procrustean.runs.image_loading import Sources
from procrustean.runs.lint import lint
from procrustean.runs.loggers import Tool, imported
from procrustean.runs.one_run import FinishedRun, OngoingRun, Stopped, run_directory_of
from procrustean.runs.preparing import prepare
from procrustean.runs.torch_settings import undisturbed
from procrustean.runs.trials import plan_now, with_likely
from procrustean.runs.ways import open_ways

if TYPE_CHECKING:
    from procrustean.balance.metrics import Metrics
    from procrustean.engine.evaluation import Statistics


@undisturbed()
def fit(
    source: str | os.PathLike[str] | Splits | RunSpec,
    *,
    reporter: Reporter | None = None,
    minutes: float | None = None,
    folds: int | None = None,
    log: Tool | None = None,
    **settings: Any,
) -> FinishedRun:
    """Train a network and return it with its record.

    What is left open about images of your own is chosen for them and for the device (docs/own-images.md). The record is
    of a network tested on images that it has not seen; where these were set aside of photographs, the network that is
    returned was then trained on all of them.

    Args:
        source: a data set's name, a path, a `Splits` of your own arrays, or a complete `RunSpec`.
        reporter: where progress goes; silent by default.
        minutes: what it may take, trials of several ways to train included, or the comparison of methods by
            method="auto"; default 30.
        folds: test every image once, by a network that was not trained on it, and then train on all; the run on all
            images is returned, and folds.json in the folder above it has what was measured.
        log: tool that is handed the numbers of every epoch; see docs/report.md.
        settings: fields of `RunSpec` (method, imbalance, rho, epochs, seed, run_dir, ...). `net` may also be a module
            or a function that makes one, see `procrustean.nets.use_net`.

    >>> run = fit("digits", imbalance="step", rho=20, method="mfw", epochs=1)  # doctest: +SKIP
    """
    refuse_several_ranks()
    reporter = reporter or Reporter()
    splits = source if isinstance(source, Splits) else None
    if not isinstance(settings.get("net"), str | None):
        settings["net"] = use_net(settings["net"])
    if isinstance(source, RunSpec):
        config = RunSpec.from_json({**source.to_json(), **settings}, origin="the call of fit")
    else:
        config = RunSpec.from_json(
            {"source": splits.name if splits else source, "method": ADVISED, **settings}, origin="the call of fit"
        )
    if log is not None:
        imported(log)
    for name in config.code.values():
        use_file(name)
    if folds is not None:
        if splits is not None or minutes is not None:
            raise ConfigError("folds received with arrays or with minutes; folds are of image files, in their own time")
        return fit_folds(config, folds, reporter, log)
    if config.method == AUTO:
        return fit_auto(config, splits=splits, minutes=minutes, reporter=reporter, log=log)
    sources = Sources(reporter)
    if minutes is not None and (splits is not None or not open_ways(config, sources)):
        raise ConfigError(
            f"minutes = {minutes:g} received, but only trainings on photographs whose recipe is left open, and "
            "--method auto, keep to a time; give fewer --epochs for a shorter training"
        )
    plan = plan_now(config, run_directory_of(config), sources, reporter, splits=splits, minutes=minutes)
    for line in plan.why:
        reporter.say_once(line)
    run = _fit_planned(plan, reporter, log)
    return train_on_all(run.path, plan.splits, reporter) if plan.final and plan.splits else run


def _fit_planned(plan: Plan, reporter: Reporter, log: Tool | None) -> FinishedRun:
    """Train with settings that leave nothing open."""
    prepared = prepare(plan.config, splits=plan.splits, made=plan.made, say=reporter.say)
    for finding in lint(prepared):
        reporter.warn(finding)
    path = run_directory_of(plan.config)
    directory = RunFolder.create(path, plan.config, identity_of(prepared), plan.why, plan.trials, final=plan.final)
    if plan.scores is not None:
        plan.scores.keep(directory, prepared.data.train.classes)
    return _train(prepared, directory, reporter, log=log)


@undisturbed()
def resume(
    run: str | Path,
    *,
    splits: Splits | None = None,
    source: str | os.PathLike[str] | None = None,
    net: Net | None = None,
    reporter: Reporter | None = None,
    log: Tool | None = None,
) -> FinishedRun:
    """Go on with an interrupted run from its last checkpoint, to the same result it would have had.

    Args:
        run: run directory.
        splits: the data, for a run that was trained on a `Splits`.
        source: where the images are now, if they are no longer where they were; they have to be the same ones.
        net: the network, for a run that was trained on a module or function; a module as it was before the training.
        reporter: where progress goes; silent by default.
        log: tool that is handed the numbers of every epoch.
    """
    refuse_several_ranks()
    reporter = reporter or Reporter()
    if net is not None:
        use_net(net)
    if log is not None:
        imported(log)
    try:
        directory, config, identity = RunFolder.open(Path(run))
    except RunError:
        if os.path.isfile(Path(run) / COMPARISON):  # noqa: PTH113  that of pathlib raises where names are too long
            raise RunError(
                f"{run} is a comparison of methods; give the command that began it again, and it goes on"
            ) from None
        raise
    directory.claim()
    try:
        if directory.finished:
            directory.clear()
            if not directory.lacks_final:
                raise RunError(f"{run} is finished already; see: {command_text('compare', run)}")
            return _final(directory, source, reporter)
        given = splits or moved(config, source, reporter.say)
        prepared = prepare_again(directory, config, identity, given, reporter.say)
        prepared = replace(prepared, splits=with_likely(prepared.splits, directory.path))
        check_identity(Path(run), identity, prepared)
        if splits is None and source is not None:
            directory.remember_source(os.fspath(source))
        finished = _train(prepared, directory, reporter, resume=True, log=log, source=source)
    finally:
        directory.release()
    return _final(directory, source, reporter) if directory.lacks_final else finished


def _final(measured: RunFolder, source: str | os.PathLike[str] | None, reporter: Reporter) -> FinishedRun:
    """What follows a run that was gone on with, on its images where they are now."""
    beginning = measured.beginning()
    splits = moved(beginning.config, source or beginning.source_path, reporter.say)
    assert splits is not None
    return train_on_all(measured.path, splits, reporter)


@undisturbed()
def evaluate(
    run: str | Path,
    *,
    weights: str = "last",
    statistics: Statistics = "kept",
    splits: Splits | None = None,
    source: str | os.PathLike[str] | None = None,
    net: Net | None = None,
) -> Metrics:
    """Test a finished run's network again.

    Args:
        run: run directory.
        weights: "last" for those of the last epoch, "held_out" for those chosen on the held-out set, "ema" or "swa"
            for averages, where the run has kept them.
        statistics: of batch normalisation: "kept" from training, or recomputed on training batches, "mixed" as the
            method mixes them or "clean"; see docs/mfw-and-normalisation.md.
        splits: the data, for a run that was trained on a `Splits`.
        source: where the images are now, if they are no longer where they were.
        net: the network, for a run that was trained on a module or function.
    """
    if net is not None:
        use_net(net)
    if statistics not in ("kept", "mixed", "clean"):
        raise ConfigError(f"statistics = {statistics!r} received; accepted: 'kept', 'mixed', 'clean'")
    prepared, trained = load_run(run, weights=weights, splits=splits, source=source, network_alone=statistics == "kept")
    from procrustean.engine.evaluation import evaluate_net, recompute_statistics

    if statistics == "clean" and getattr(prepared.method.stages[-1].objective, "mixer", None) is not None:
        warnings.warn(
            f"{prepared.label} was trained on mixed batches: statistics of clean ones can undo what it gained",
            stacklevel=3,  # behind the decorator
        )
    recompute_statistics(prepared, trained, statistics)

    images = prepared.stores().evaluation(prepared.data.test)
    counts = [int(n) for n in prepared.data.counts]
    return evaluate_net(trained, images, counts, prepared.placement.low_precision)


def _train(
    prepared: Prepared,
    directory: RunFolder,
    reporter: Reporter,
    *,
    resume: bool = False,
    log: Tool | None = None,
    source: str | os.PathLike[str] | None = None,
) -> FinishedRun:
    with stop_on_signal(reporter.say) as stop:
        command = resume_command(directory.path, source)
        run = OngoingRun(prepared, directory, reporter, stop=stop, resume=resume, log=log)
        try:
            return run.to_end()
        except Interrupted:
            raise Stopped(f"stopped and saved; go on with: {command}", stop.exit_code) from None

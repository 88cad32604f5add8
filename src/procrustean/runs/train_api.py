"""Train, resume and evaluate from Python; the command line is a thin layer over these functions."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from procrustean.base.code_files import is_usable, use_file
from procrustean.base.console import command_text
from procrustean.base.errors import ConfigError, RunError
from procrustean.base.progress import Reporter
from procrustean.base.stop_signals import stop_on_signal
from procrustean.data.imageset import Splits
from procrustean.data.sources import load_source
from procrustean.engine.device import refuse_several_ranks
from procrustean.engine.make_record import OF_THE_METHOD, identity_of
from procrustean.engine.prepared import (
    Prepared,
)
from procrustean.engine.stage_order import reshape_for
from procrustean.engine.training import HELD_OUT_WEIGHTS, Interrupted
from procrustean.nets.classifier import Classifier
from procrustean.nets.own_net import Net, use_net
from procrustean.records.auto_record import COMPARISON
from procrustean.records.finding_runs import resume_command
from procrustean.records.identity import Identity
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_spec import ADVISED, AUTO, RunSpec
from procrustean.runs.advice.plan_training import Plan, load_images, planned
from procrustean.runs.image_loading import source_settings
from procrustean.runs.lint import lint
from procrustean.runs.loggers import Tool, imported
from procrustean.runs.one_run import FinishedRun, OngoingRun
from procrustean.runs.preparing import (
    check_identity,
    prepare,
    recipe_of,
)
from procrustean.runs.torch_settings import undisturbed

if TYPE_CHECKING:
    from procrustean.balance.metrics import Metrics
    from procrustean.engine.evaluate import Statistics


#: Said by commands of several runs, which find those that are finished or begun by themselves.
STOPPED_AMONG_MANY = "stopped and saved; give the same command again to go on"


class Stopped(RunError):
    """The run was asked to stop; its state is saved."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@undisturbed()
def fit(
    source: str | os.PathLike[str] | Splits | RunSpec,
    *,
    reporter: Reporter | None = None,
    minutes: float | None = None,
    log: Tool | None = None,
    **settings: Any,
) -> FinishedRun:
    """Train a network and return it with its record.

    What is left open about images of your own is chosen for them and for the device (docs/own-images.md).

    Args:
        source: a data set's name, a path, a `Splits` of your own arrays, or a complete `RunSpec`.
        reporter: where progress goes; silent by default.
        minutes: what method="auto", which compares methods on held-out images, may take; default 30.
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
    # What is wrong with the settings is said before images are loaded.
    if log is not None:
        imported(log)
    for name in config.code.values():
        use_file(name)
    recipe_of(replace(config, method="mfw") if config.method in (ADVISED, AUTO) else config)
    if config.method == AUTO:
        from procrustean.runs.auto_method import fit_auto

        return fit_auto(config, splits=splits, minutes=minutes, reporter=reporter, log=log)
    if minutes is not None:
        raise ConfigError(
            f"minutes = {minutes:g} received; only method 'auto' compares within a time. Give --method auto --minutes "
            f"{minutes:g} to compare methods, or fewer --epochs for a shorter training of one"
        )
    plan = planned(config, splits=splits, load=partial(load_images, say=reporter.say))
    for line in plan.why:
        reporter.say_once(line)
    return fit_planned(plan, reporter, log)


def fit_planned(plan: Plan, reporter: Reporter, log: Tool | None = None) -> FinishedRun:
    """Train with settings that leave nothing open."""
    prepared = prepare(plan.config, splits=plan.splits, say=reporter.say)
    for finding in lint(prepared):
        reporter.warn(finding)
    directory = RunFolder.create(run_directory_of(plan.config), plan.config, identity_of(prepared), plan.why)
    return _train(prepared, directory, reporter, log=log)


def run_directory_of(config: RunSpec) -> Path:
    """Where the run of these settings is kept."""
    return config.run_dir or Path("runs") / config.slug


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
            raise RunError(f"{run} is finished already; see: {command_text('compare', run)}")
        given = splits or _moved(config, source, reporter.say)
        prepared = prepare_again(directory, config, identity, given, reporter.say)
        check_identity(Path(run), identity, prepared)
        if splits is None and source is not None:
            directory.remember_source(os.fspath(source))
        return _train(prepared, directory, reporter, resume=True, log=log, source=source)
    finally:
        directory.release()


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
    from procrustean.engine.evaluate import evaluate_net, recompute_statistics

    if statistics == "clean" and getattr(prepared.method.stages[-1].objective, "mixer", None) is not None:
        warnings.warn(
            f"{prepared.label} was trained on mixed batches: statistics of clean ones can undo what it gained",
            stacklevel=3,  # behind the decorator
        )
    recompute_statistics(prepared, trained, statistics)

    images = prepared.stores().evaluation(prepared.data.test)
    counts = [int(n) for n in prepared.data.counts]
    return evaluate_net(trained, images, counts, prepared.placement.low_precision)


def load_run(
    run: str | Path,
    *,
    weights: str = "last",
    splits: Splits | None = None,
    source: str | os.PathLike[str] | None = None,
    anywhere: bool = False,
    network_alone: bool = False,
) -> tuple[Prepared, Classifier]:
    """A finished run's data and trained network, on its device, in evaluation mode.

    Args:
        run: run directory.
        weights: "last" for those of the last epoch, "held_out" for those chosen on the held-out set.
        splits: the data, for a run that was trained on a `Splits`.
        source: where the images are now, if they are no longer where they were.
        anywhere: take the device of this machine where the run was trained on another kind of machine.
        network_alone: nothing but the network is wanted: where it is one that any method may have trained, the file of
            a method of the user's is not needed, and ERM stands for it.
    """
    files = {"last": "model.safetensors", "held_out": HELD_OUT_WEIGHTS}
    files |= {kind: f"{kind}.safetensors" for kind in ("ema", "swa")}
    if weights not in files:
        raise ConfigError(f"weights = {weights!r} received; accepted: {', '.join(map(repr, files))}")
    directory, config, identity = RunFolder.open(Path(run))
    if anywhere:
        config = replace(config, device="auto", engine="auto", kernels="auto", precision=identity.precision)
    stands_in = network_alone and not is_usable(config.method) and identity.plain_network
    if stands_in:
        config = replace(config, method="erm", options={}, drw=False)
    path = directory.file(files[weights])
    if not path.exists():
        option = {"held_out": "--hold-out", "ema": "--average ema", "swa": "--average swa"}.get(weights)
        reason = "is not finished" if option is None else f"was trained without {option}"
        raise RunError(f"{run} has no {path.name}: it {reason}")
    prepared = prepare_again(directory, config, identity, splits or _moved(config, source), to_train=False)
    check_identity(Path(run), identity, prepared, "be used", besides=OF_THE_METHOD if stands_in else ())
    net = prepared.build_net()
    for number in range(len(prepared.method.stages)):
        reshape_for(net, prepared.method, number, config.seed)
    state = directory.load_weights(path.name)
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        raise RunError(f"{path} is damaged or of another network ({error})") from error
    return prepared, net.to(prepared.placement.device).eval()


def _moved(
    config: RunSpec, source: str | os.PathLike[str] | None, say: Callable[[str], None] = lambda text: None
) -> Splits | None:
    """The images of a run from another place than it remembers."""
    return None if source is None else load_source(**{**source_settings(config), "source": source}, say=say)


def prepare_again(
    directory: RunFolder,
    config: RunSpec,
    identity: Identity,
    splits: Splits | None,
    say: Callable[[str], None] = lambda text: None,
    *,
    to_train: bool = True,
) -> Prepared:
    """Prepare a run that exists; one that was trained on arrays needs them handed in again."""
    remembered = directory.beginning().source_path
    if splits is None and remembered is not None:
        if not Path(remembered).exists():
            raise RunError(
                f"the images of {directory.path} are no longer at {remembered}; put them back. Resume and evaluate can "
                "also be told where they are now: --source PATH"
            )
        splits = load_source(**{**source_settings(config), "source": remembered}, say=say)
    try:
        return prepare(config, splits=splits, say=say, to_train=to_train, began=identity.recipe)
    except ConfigError as error:
        if splits is None and "source" in str(error):
            raise ConfigError(
                f"{error} If {directory.path} was trained on arrays, give them again: splits=..."
            ) from error
        raise


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

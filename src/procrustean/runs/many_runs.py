"""Train many runs side by side on one device, and continue where an earlier call left off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from procrustean.base.code_files import use_file
from procrustean.base.errors import ConfigError, RunError
from procrustean.base.lease import RunInUse
from procrustean.base.progress import Reporter
from procrustean.base.stop_signals import stop_on_signal
from procrustean.data.imageset import Splits
from procrustean.engine.device import refuse_several_ranks
from procrustean.engine.prepared import (
    Prepared,
)
from procrustean.engine.side_by_side import Member, memory_allows, run_fleet
from procrustean.engine.training import Interrupted
from procrustean.methods.make import METHODS
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_names import Distinct, differences
from procrustean.records.run_record import load_result
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice.plan_training import planned
from procrustean.runs.cost import predicted_cost
from procrustean.runs.image_loading import Sources
from procrustean.runs.lint import lint
from procrustean.runs.loggers import HOSTED, Tool, imported
from procrustean.runs.one_run import OngoingRun, ShownImages, begin_or_go_on
from procrustean.runs.preparing import (
    prepare,
)
from procrustean.runs.step_cost import Device
from procrustean.runs.torch_settings import undisturbed
from procrustean.runs.train_api import STOPPED_AMONG_MANY, Stopped, run_directory_of

#: Runs at a time on a GPU. More hide each other's launch gaps until the multiprocessors are full; docs/performance.md.
GPU_WIDTH = 8


@dataclass(frozen=True)
class Outcome:
    """How one run of many ended."""

    path: Path
    result: dict[str, Any] | None  # None if it failed, or was not finished in time
    error: Exception | None

    @property
    def elsewhere(self) -> bool:
        """Whether another process was training it, which is no failure."""
        return isinstance(self.error, RunInUse)


@undisturbed()
def fit_many(
    configs: Sequence[RunSpec],
    *,
    splits: Splits | None = None,
    sources: Sources | None = None,
    width: int | None = None,
    reporter: Reporter | None = None,
    reporter_of: Callable[[RunSpec], Reporter] | None = None,
    costs: Sequence[float] | None = None,
    time_up: Callable[[], bool] = lambda: False,
    finished: Callable[[RunSpec, Path], None] = lambda config, path: None,
    failed: Callable[[RunSpec, Exception], None] = lambda config, error: None,
    log: Tool | None = None,
    show: ShownImages = "test",
) -> list[Outcome]:
    """Train all runs; one that fails does not touch the others, one that is finished already is not repeated.

    Args:
        configs: the runs, any mix of methods, data and settings.
        splits: the data of all runs; by default each loads its source.
        sources: what loads them, and keeps them for the next call.
        width: most runs at a time; by default 8 on a GPU, 1 on a CPU.
        reporter: where progress goes; silent by default.
        reporter_of: where the progress of one run goes, if not to `reporter`.
        costs: a number per run; those with higher ones start first. By default what `procrustean reproduce` predicts.
        time_up: once it says so, no run begins, and those in progress save themselves; another call goes on.
        finished: called with a run and its folder as soon as it is complete, or is found to be when its turn comes.
        failed: called with a run and its error as soon as it cannot go on, `RunInUse` where another process has it.
        log: tool that is handed the numbers of every epoch of each run.
        show: the images whose accuracy is shown in progress; "held_out" while the runs are compared by them.
    """
    refuse_several_ranks()
    reporter = reporter or Reporter()
    if width is not None and width < 1:
        raise ConfigError(f"width = {width} received; at least one run has to run at a time")
    on_gpu = torch.cuda.is_available() and all(config.device != "cpu" for config in configs)
    width = width or (GPU_WIDTH if on_gpu else 1)
    if log is not None:
        imported(log)
        if log in HOSTED and width > 1:
            raise ConfigError(
                f"--log {log} received, but {log} logs one run of a process at a time, and {width} would run side by "
                "side; give --width 1 or --processes, or --log tensorboard"
            )
    paths = check_places(configs)
    if costs is None:
        costs = [starting_cost(config, "cuda" if on_gpu else "cpu") for config in configs]
    reporters = (
        [Distinct(reporter, addition) for addition in differences(configs)]
        if reporter_of is None
        else [reporter_of(config) for config in configs]
    )
    load = sources or Sources(reporter.say)

    def splits_of(config: RunSpec) -> Splits:
        return splits or load(config)

    with stop_on_signal(reporter.say) as stop:

        def asked_to_stop() -> bool:
            return stop() or time_up()

        members = [
            Member(
                config.slug,
                cost,
                _starter(config, splits, path, splits_of, own, asked_to_stop, finished, failed, log, show),
            )
            for config, path, cost, own in zip(configs, paths, costs, reporters, strict=True)
        ]
        device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        run_fleet(
            members,
            width=width,
            device=device,
            may_start=memory_allows(device),
            stop=asked_to_stop,
        )
        if stop() and any(not member.done or isinstance(member.error, Interrupted) for member in members):
            raise Stopped(STOPPED_AMONG_MANY, stop.exit_code)
    return [outcome_of(path, member.error) for member, path in zip(members, paths, strict=True)]


def outcome_of(path: Path, error: Exception | None) -> Outcome:
    """How a run ended, by its folder and its error; one that cannot be read has failed, and touches no other."""
    if error is not None:
        return Outcome(path, None, None if isinstance(error, Interrupted) else error)
    if not RunFolder(path).finished:
        return Outcome(path, None, None)
    try:
        return Outcome(path, load_result(path).record, None)
    except RunError as damaged:
        return Outcome(path, None, RunError(f"{damaged} (to train the run again, remove {path} first)"))


def check_places(configs: Sequence[RunSpec]) -> list[Path]:
    """The folder of each run; two runs in one are refused."""
    paths = [run_directory_of(config) for config in configs]
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise ConfigError(f"two runs would be kept in {path}; give each its own run_dir or seed")
        seen.add(path.resolve())
    return paths


def _starter(
    asked: RunSpec,
    given: Splits | None,
    path: Path,
    splits_of: Callable[[RunSpec], Splits],
    reporter: Reporter,
    stop: Callable[[], bool],
    finished: Callable[[RunSpec, Path], None],
    failed: Callable[[RunSpec, Exception], None],
    log: Tool | None,
    show: ShownImages,
) -> Callable[[], Iterator[None]]:
    def begun() -> OngoingRun | None:
        for name in asked.own_code:
            use_file(name)
        plan = planned(asked, splits=given, load=splits_of)

        def prepared(began: Mapping[str, Any]) -> Prepared:
            splits = plan.splits or splits_of(plan.config)
            ready = prepare(plan.config, splits=splits, say=reporter.say, began=began)
            for finding in () if began else lint(ready):
                reporter.warn(finding)
            return ready

        return begin_or_go_on(plan, path, prepared, reporter, stop=stop, log=log, show=show)

    def turns() -> Iterator[None]:
        try:
            run = begun()
            if run is not None:
                yield from run.turns()
            finished(asked, path)
        except Interrupted:
            raise
        except Exception as error:
            failed(asked, error)
            raise

    return turns


def starting_cost(config: RunSpec, device: Device) -> float:
    """The predicted cost by which runs start, the highest first."""
    if config.method not in METHODS:  # still to be chosen, or of a file, which is not imported for this
        config = replace(config, method="erm", options={}, drw=False)
    try:
        return predicted_cost(config, device)
    except Exception:  # a run with a mistake in it says so when its turn comes, and does not touch the others
        return 0.0

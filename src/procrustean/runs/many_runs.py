"""One loop over many runs: side by side on one device, or in several processes; an earlier call is gone on with."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from procrustean.base.errors import ConfigError, Diverged, ProcrusteanError, RunError
from procrustean.base.lease import RunInUse
from procrustean.base.own_code import failure_text, use_file
from procrustean.base.progress import Distinct, Reporter
from procrustean.base.stop_signals import stop_on_signal
from procrustean.data.imageset import Splits
from procrustean.data.recipe import Recipe
from procrustean.engine.device import refuse_several_ranks
from procrustean.engine.prepared import Prepared
from procrustean.engine.side_by_side import Member, memory_allows, run_fleet
from procrustean.engine.training import Interrupted
from procrustean.records.names import differences
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import RunRecord, load_result
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice import Plan
from procrustean.runs.cost import starting_cost
from procrustean.runs.image_loading import Sources
from procrustean.runs.lint import lint
from procrustean.runs.loggers import HOSTED, Tool, imported
from procrustean.runs.one_run import (
    STOPPED_AMONG_MANY,
    OngoingRun,
    ShownImages,
    Stopped,
    begin_or_go_on,
    run_directory_of,
)
from procrustean.runs.preparing import prepare
from procrustean.runs.torch_settings import undisturbed
from procrustean.runs.trials import plan_of
from procrustean.runs.worker import Task, Worker

#: Runs at a time on a GPU. More hide each other's launch gaps until the multiprocessors are full; docs/performance.md.
GPU_WIDTH = 8
#: Processes that may die over one run before it is given up.
DEATHS = 3
#: Seconds between looks at whether to stop, and at what the processes tell.
PATIENCE = 0.2


@dataclass(frozen=True)
class Outcome:
    """How one run of many ended."""

    path: Path
    record: RunRecord | None  # None if it failed, or was not finished in time
    error: Exception | None

    @property
    def elsewhere(self) -> bool:
        """Whether another process was training it, which is no failure."""
        return isinstance(self.error, RunInUse)


@undisturbed()
def fit_many(
    runs: Sequence[RunSpec | Plan],
    *,
    splits: Splits | None = None,
    sources: Sources | None = None,
    width: int | None = None,
    processes: int | None = None,
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
        runs: any mix of methods, data and settings; a `Plan` brings its images, and is taken to be checked.
        splits: the data of all runs; by default each loads its source.
        sources: what loads them, and keeps them for the next call.
        width: most runs at a time in one process; by default 8 on a GPU, 1 on a CPU.
        processes: train with so many processes, one run each at a time; the results do not depend on it.
        reporter: where progress goes; silent by default.
        reporter_of: where the progress of one run goes, if not to `reporter`.
        costs: a number per run; those with higher ones start first. By default the predicted time.
        time_up: once it says so, no run begins, and those in progress save themselves; another call goes on.
        finished: called with a run and its folder as soon as it is complete, or is found to be when its turn comes.
        failed: called with a run and its error as soon as it cannot go on, `RunInUse` where another process has it.
        log: tool that is handed the numbers of every epoch of each run.
        show: the images whose accuracy is shown in progress; "held_out" while the runs are compared by them.
    """
    refuse_several_ranks()
    reporter = reporter or Reporter()
    configs = [run.config if isinstance(run, Plan) else run for run in runs]
    on_gpu = torch.cuda.is_available() and all(config.device != "cpu" for config in configs)
    width = _checked_width(width, processes, on_gpu, log)
    paths = check_places(configs)
    if costs is None:
        costs = [starting_cost(config, "cuda" if on_gpu and processes is None else "cpu") for config in configs]
    reporters = (
        [Distinct(reporter, addition) for addition in differences(configs)]
        if reporter_of is None
        else [reporter_of(config) for config in configs]
    )
    jobs = [_Job(*each) for each in zip(runs, configs, paths, costs, reporters, strict=True)]
    with stop_on_signal(reporter.say) as stop:
        loop = _Loop(splits, sources or Sources(reporter), lambda: stop() or time_up(), finished, failed, log, show)
        if processes is None:
            loop.side_by_side(jobs, width, on_gpu)
        else:
            loop.in_processes(jobs, processes)
        if stop() and not all(job.over for job in jobs):
            raise Stopped(STOPPED_AMONG_MANY, stop.exit_code)
    return [outcome_of(job.path, job.error) for job in jobs]


def _checked_width(width: int | None, processes: int | None, on_gpu: bool, log: Tool | None) -> int:
    for name, given in (("width", width), ("processes", processes)):
        if given is not None and given < 1:
            raise ConfigError(f"{name} = {given} received; at least one run has to run at a time")
    if width is not None and processes is not None:
        raise ConfigError("both --width and --processes received; every process trains one run at a time")
    width = width or (GPU_WIDTH if on_gpu and processes is None else 1)
    if log is not None:
        imported(log)
        if log in HOSTED and width > 1:
            raise ConfigError(
                f"--log {log} received, but {log} logs one run of a process at a time, and {width} would run side by "
                "side; give --width 1 or --processes, or --log tensorboard"
            )
    return width


def outcome_of(path: Path, error: Exception | None = None) -> Outcome:
    """How a run ended, by its folder and its error; one that cannot be read has failed, and touches no other."""
    if error is not None or not RunFolder(path).finished:
        return Outcome(path, None, error)
    try:
        return Outcome(path, load_result(path).record, None)
    except RunError as damaged:
        return Outcome(path, None, RunError(f"{damaged} (to train the run again, remove {path} first)"))


def raise_failures(outcomes: Sequence[Outcome]) -> None:
    """Raise the first error of runs that are to be compared; one that diverged is passed over."""
    for outcome in outcomes:
        error = outcome.error
        if error is None or isinstance(error, Diverged):
            continue
        if isinstance(error, ProcrusteanError):
            raise error
        raise RunError(f"{outcome.path} failed: {failure_text(error)}") from error


def check_places(configs: Sequence[RunSpec]) -> list[Path]:
    """The folder of each run; two runs in one are refused."""
    paths = [run_directory_of(config) for config in configs]
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise ConfigError(f"two runs would be kept in {path}; give each its own run_dir or seed")
        seen.add(path.resolve())
    return paths


@dataclass
class _Job:
    """A run of many, and what has become of it."""

    run: RunSpec | Plan
    config: RunSpec
    path: Path
    cost: float
    reporter: Reporter
    over: bool = False  # finished or failed, and not merely saved
    error: Exception | None = None
    deaths: int = 0  # of processes that trained it


@dataclass
class _Loop:
    """What the runs of a call have in common."""

    splits: Splits | None
    load: Sources
    stop: Callable[[], bool]
    finished: Callable[[RunSpec, Path], None]
    failed: Callable[[RunSpec, Exception], None]
    log: Tool | None
    show: ShownImages

    def side_by_side(self, jobs: Sequence[_Job], width: int, on_gpu: bool) -> None:
        """Let the runs take turns in this process, so many at a time."""
        device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        members = [Member(job.config.slug, job.cost, partial(self._turns, job)) for job in jobs]
        run_fleet(members, width=width, device=device, may_start=memory_allows(device), stop=self.stop)

    def _turns(self, job: _Job) -> Iterator[None]:
        try:
            run = self._begun(job)
            if run is not None:
                yield from run.turns()
        except Interrupted:
            return
        except Exception as error:
            self._end(job, error)
            raise
        self._end(job)

    def _begun(self, job: _Job) -> OngoingRun | None:
        for name in job.config.code.values():
            use_file(name)
        checked = isinstance(job.run, Plan)
        plan = job.run if isinstance(job.run, Plan) else self._planned(job)

        def prepared(began: Recipe | None) -> Prepared:
            splits = plan.splits or self.splits or self.load(plan.config)
            ready = prepare(plan.config, splits=splits, made=plan.made, say=job.reporter.say, began=began)
            for finding in () if began is not None or checked else lint(ready):
                job.reporter.warn(finding)
            return ready

        return begin_or_go_on(plan, job.path, prepared, job.reporter, stop=self.stop, log=self.log, show=self.show)

    def _planned(self, job: _Job) -> Plan:
        return plan_of(job.config, job.path, self.load, job.reporter, splits=self.splits, stop=self.stop)

    def _end(self, job: _Job, error: Exception | None = None) -> None:
        if error is None:
            try:
                self.finished(job.config, job.path)
            except Exception as unkept:
                error = unkept
        job.over, job.error = True, error
        if error is not None:
            self.failed(job.config, error)

    def in_processes(self, jobs: Sequence[_Job], processes: int) -> None:
        """Have so many processes train one run after the other; one that dies is replaced, and its run goes on."""
        waiting = deque(sorted(jobs, key=lambda job: -job.cost))
        idle: list[Worker] = []
        busy: dict[Future[Any], tuple[Worker, _Job]] = {}
        try:
            while waiting or busy:
                if self.stop():
                    waiting.clear()
                    for worker, _ in busy.values():
                        worker.ask_to_stop()
                while waiting and len(busy) < processes:
                    worker, job = idle.pop() if idle else Worker(), waiting.popleft()
                    busy[worker.give(self._task(job))] = worker, job
                done, _ = wait(busy, timeout=PATIENCE, return_when=FIRST_COMPLETED)
                for worker, job in busy.values():
                    worker.show(job.reporter)
                for future in done:
                    worker, job = busy.pop(future)
                    if isinstance(future.exception(), BrokenProcessPool):
                        worker.end()
                        self._died(job, asked=worker.asked)
                    else:
                        idle.append(worker)
                        self._answered(job, future)
                    if not job.over and not worker.asked:
                        waiting.appendleft(job)
        finally:
            for worker, _ in busy.values():
                worker.end(at_once=True)
            for worker in idle:
                worker.end()

    def _task(self, job: _Job) -> Task:
        config = replace(job.config, run_dir=job.path)
        run = replace(job.run, config=config) if isinstance(job.run, Plan) else config
        return partial(_train, run, self.splits, self.log, self.show)

    def _answered(self, job: _Job, future: Future[Any]) -> None:
        """Take what a process says: whether the run is over, and its error."""
        error = future.exception()
        over, failure = future.result() if error is None else (True, RunError(failure_text(error)))
        if over:
            self._end(job, failure)

    def _died(self, job: _Job, *, asked: bool) -> None:
        job.deaths += 1
        if job.deaths == DEATHS:
            self._end(
                job,
                RunError(
                    f"the processes that trained {job.path} were ended {DEATHS} times; if memory ran out, use fewer "
                    "--processes or a smaller --batch-size"
                ),
            )
        elif not asked:
            job.reporter.say(f"{job.path.name}: its process was ended; it goes on from its last checkpoint")


@cache
def _sources() -> Sources:
    """What loads the images of all runs of a process."""
    return Sources()


def _train(
    run: RunSpec | Plan,
    splits: Splits | None,
    log: Tool | None,
    show: ShownImages,
    reporter: Reporter,
    stop: Callable[[], bool],
) -> tuple[bool, Exception | None]:
    """In a process: train a run; whether it is over, and its error."""
    try:
        (outcome,) = fit_many(
            [run],
            splits=splits,
            sources=_sources(),
            width=1,
            reporter_of=lambda config: reporter,
            time_up=stop,
            log=log,
            show=show,
        )
    except Stopped:  # by a signal, which somebody else has sent
        return False, None
    error = outcome.error
    if error is not None and not isinstance(error, ProcrusteanError):  # those of others need not fit through a pipe
        error = RunError(failure_text(error))
    return outcome.record is not None or error is not None, error

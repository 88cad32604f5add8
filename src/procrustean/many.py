"""Train many runs side by side on one device, and continue where an earlier call left off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from .advice.planning import planned
from .api import OngoingRun, Stopped
from .config import RunConfig
from .console import Reporter, SilentReporter
from .data.imageset import Splits
from .data.sources import load_source
from .engine.fleet import Member, memory_allows, run_fleet
from .engine.record import identity_of
from .engine.run_directory import RunDirectory
from .engine.stopping import stop_on_signal
from .engine.training import Interrupted
from .errors import ConfigError, ProcrusteanError
from .preparing import check_identity, prepare
from .recipes import RECIPES, recipe_for

#: Runs at a time on a GPU. More hide each other's launch gaps until the multiprocessors are full; docs/performance.md.
GPU_WIDTH = 8


@dataclass(frozen=True)
class Outcome:
    """How one run of many ended."""

    path: Path
    result: dict[str, Any] | None  # None if it failed
    error: Exception | None


def fit_many(
    configs: Sequence[RunConfig],
    *,
    splits: Splits | None = None,
    width: int | None = None,
    reporter: Reporter | None = None,
) -> list[Outcome]:
    """Train all runs; one that fails does not touch the others, one that is finished already is not repeated.

    Args:
        configs: the runs, any mix of methods, data and settings.
        splits: the data of all runs; by default each loads its source.
        width: most runs at a time; by default 8 on a GPU, 1 on a CPU.
        reporter: where progress goes; silent by default.
    """
    reporter = reporter or SilentReporter()
    if width is not None and width < 1:
        raise ConfigError(f"width = {width} received; at least one run has to run at a time")
    paths = [config.run_dir or Path("runs") / config.slug for config in configs]
    places = [path.resolve() for path in paths]
    for path in paths:
        if places.count(path.resolve()) > 1:
            raise ConfigError(f"two runs would be kept in {path}; give each its own run_dir or seed")

    @lru_cache(maxsize=4)
    def load(source: str, data_dir: Path | None, image_size: int | None) -> Splits | ProcrusteanError:
        try:
            return load_source(source, data_dir=data_dir, image_size=image_size, say=reporter.say)
        except ProcrusteanError as error:  # kept, too: the next run is not to try a failed download again
            return error

    def splits_of(config: RunConfig) -> Splits:
        loaded = splits or load(config.source, config.data_dir, config.image_size)
        if isinstance(loaded, ProcrusteanError):
            raise loaded
        return loaded

    with stop_on_signal(reporter.say) as stop:
        members = [
            Member(config.slug, _cost(config), _starter(config, splits, path, splits_of, reporter, stop))
            for config, path in zip(configs, paths, strict=True)
        ]
        on_gpu = torch.cuda.is_available() and all(config.device != "cpu" for config in configs)
        device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
        run_fleet(
            members,
            width=width or (GPU_WIDTH if on_gpu else 1),
            device=device,
            may_start=memory_allows(device),
            stop=stop,
        )
        if stop() and any(not member.done or isinstance(member.error, Interrupted) for member in members):
            raise Stopped("stopped and saved; give the same command again to go on", stop.exit_code)
    outcomes = []
    for member, path in zip(members, paths, strict=True):
        directory = RunDirectory(path)
        result = directory.read("result.json") if directory.finished and member.error is None else None
        outcomes.append(Outcome(path, result, member.error))
    return outcomes


def _starter(
    asked: RunConfig,
    given: Splits | None,
    path: Path,
    splits_of: Callable[[RunConfig], Splits],
    reporter: Reporter,
    stop: Callable[[], bool],
) -> Callable[[], Iterator[None]]:
    def start() -> Iterator[None]:
        plan = planned(asked, splits=given, load=splits_of)
        config, splits = plan.config, plan.splits
        begun = (path / "config.json").exists()
        if not begun:
            prepared = prepare(config, splits=splits or splits_of(config), say=reporter.say)
            directory = RunDirectory.create(path, config, identity_of(prepared), plan.why)
            return OngoingRun(prepared, directory, reporter, stop=stop).turns()
        directory, existing, identity = RunDirectory.open(path)
        if existing.hash != config.hash:
            directory.refuse_reuse(config)
        if directory.finished:
            return iter(())
        prepared = prepare(config, splits=splits or splits_of(config), say=reporter.say)
        check_identity(path, identity, prepared)
        return OngoingRun(prepared, directory, reporter, stop=stop, resume=True).turns()

    return start


def _cost(config: RunConfig) -> float:
    """Predicted length in epochs: within one grid the data differ less than the epochs do."""
    recipe, *_ = RECIPES.get(config.recipe, (recipe_for(config.source),))
    return float(config.epochs or recipe.epochs)

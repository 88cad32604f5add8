"""From cells to runs: what is to be trained, in which order, what is there already, what cannot be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Literal

from procrustean.base.errors import ConfigError, ProcrusteanError, RunError, suggestion
from procrustean.base.files import expanded
from procrustean.base.own_code import is_usable, plain_name
from procrustean.data.sets.data_set_table import DATA_SETS, known
from procrustean.data.sources import is_named
from procrustean.engine.training import Position
from procrustean.paper.comparison import held_out_variant
from procrustean.paper.definitions import Cell, Definitions, Part
from procrustean.paper.result_store import Store
from procrustean.paper.same_runs import canonical
from procrustean.records.checkpoints import kept_checkpoints
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice import planned
from procrustean.runs.cost import Device, predicted_cost
from procrustean.runs.image_loading import Sources
from procrustean.runs.preparing import recipe_of
from procrustean.runs.training_sizes import trained_images, training_images

State = Literal["done", "begun", "waiting", "failed"]


@dataclass(frozen=True)
class PlannedRun:
    """A run, and the cells that are waiting for it."""

    config: RunSpec
    cells: tuple[Cell, ...]
    state: State
    cost: float  # of the whole run, in images of ERM with ResNet-32 on this kind of device
    images: int | None  # trained on, each as often as it is shown; None where only loading them would tell
    done: float = 0.0  # share of it that earlier calls have trained

    @property
    def to_do(self) -> float:
        """Share of it that is still to be trained."""
        return 1 - self.done

    @property
    def name(self) -> str:
        """The run in words, no two of a plan the same: the first cell that it is for, and its seed."""
        return f"{self.cells[0].place}{self.held_out}, seed {self.config.seed}"

    @property
    def held_out(self) -> str:
        """What it keeps back of each class, to be put behind a name; nothing where it keeps nothing back."""
        amount = self.config.hold_out or 0
        if not amount:
            return ""
        return f", {100 * amount:g} % held out" if amount < 1 else f", {amount} held out"


@dataclass(frozen=True)
class Plan:
    """All runs of some cells, in the order in which they are to be trained."""

    runs: tuple[PlannedRun, ...]
    blocked: dict[str, tuple[Cell, ...]]  # why cells cannot be trained here -> which ones
    errors: dict[str, str]  # of failed runs, by hash

    def in_state(self, *states: State) -> list[PlannedRun]:
        return [run for run in self.runs if run.state in states]

    @property
    def remaining(self) -> list[PlannedRun]:
        """Runs to be trained, in order."""
        return self.in_state("begun", "waiting")


def check_cell(cell: Cell) -> None:
    """ConfigError for settings that cannot be, and for a method, a network or a recipe that this version lacks."""
    config = cell.config()
    if unnamed_code(config) is not None:
        return
    try:
        recipe_of(config)
    except ConfigError as error:
        raise ConfigError(f"{cell.where}: {error}") from error


def unnamed_code(config: RunSpec) -> str | None:
    """Why the code of a method is not imported, so that nothing can be known of its runs; None if it may be."""
    unnamed = [name for name in config.code.values() if not is_usable(name)]
    return f"{plain_name(unnamed[0])} is code that a file names, and a dry run imports none" if unnamed else None


def absent_data(source: str, data_dir: Path | None) -> str | None:
    """Why the images are not on this machine; None if they are."""
    if is_named(source):
        return known(source).absent(data_dir)
    if expanded(source).exists():
        return None
    return f"there is no data set, file or folder {source} (from {Path.cwd()}). {suggestion(source, DATA_SETS)}".strip()


def make_plan(
    definitions: Definitions,
    parts: Sequence[Part],
    store: Store,
    *,
    seeds: int = 3,
    data_seed: int = 0,
    held_out: bool = False,
    data_dir: Path | None = None,
    download: bool = False,
    retry: bool = False,
    device: Device = "cuda",
    absent: Callable[[str, Path | None], str | None] = absent_data,
    images: Sources | None = None,
) -> Plan:
    """Plan the parts in their order: within a part seed by seed, of one seed the longest runs first.

    Args:
        definitions: tables and suites.
        parts: what to train.
        store: what is there already.
        seeds: training seeds 0, 1, ... of each cell.
        data_seed: which images of a class are kept; 0 gives the published sets.
        held_out: also plan each cell once more with held-out images.
        data_dir: where data sets are looked for first.
        download: plan runs on data sets that would have to be downloaded.
        retry: plan runs that failed in an earlier call.
        device: where the runs are going to be trained.
        absent: says why the images of a source are not on this machine.
        images: loads the user's own images where there are runs of them, which may have been trained on others; None
            takes them for the same.
    """
    if seeds < 1:
        raise ConfigError(f"seeds = {seeds} received; each cell needs at least one")
    errors = store.failures()
    blocked: dict[str, list[Cell]] = {}
    waiting: dict[str, list[Cell]] = {}
    keyed: dict[str, tuple[tuple[int, int, int, float], PlannedRun]] = {}
    for number, part in enumerate(parts):
        for cell in definitions.cells([part]):
            reason = unnamed_code(cell.config()) or _reason(cell, data_dir, download, absent)
            if reason is not None:
                blocked.setdefault(reason, []).append(cell)
                continue
            for variant, config in enumerate(_configs(cell, data_seed, held_out)):
                impossible = _impossible(config)
                if impossible is not None:
                    blocked.setdefault(impossible, []).append(cell)
                    continue
                images_now = cache(partial(_hash_of, config, images))
                for seed in range(seeds):
                    run = _canonical(cell, replace(config, seed=seed, data_dir=data_dir))
                    store.leave_out_other_images(run, images_now)
                    waiting.setdefault(run.hash, []).append(cell)
                    if run.hash not in keyed:
                        new = _planned(run, cell, store, errors if not retry else {}, device)
                        keyed[run.hash] = (number, variant, seed, -new.cost), new
    ordered = sorted(keyed.values(), key=lambda item: item[0])
    runs = tuple(replace(run, cells=tuple(dict.fromkeys(waiting[run.config.hash]))) for _, run in ordered)
    return Plan(runs, {reason: tuple(dict.fromkeys(cells)) for reason, cells in blocked.items()}, errors)


def _hash_of(config: RunSpec, images: Sources | None) -> str | None:
    """Of all images of a user's source, as a run of these settings would load them; None if that is not to be known."""
    if images is None or is_named(config.source):
        return None
    try:
        return planned(config, load=images).source_hash
    except ProcrusteanError:  # of which the run tells when its turn comes
        return None


def _configs(cell: Cell, data_seed: int, held_out: bool) -> list[RunSpec]:
    config = cell.config(data_seed=data_seed)
    variant = held_out_variant(config) if held_out else None
    return [config] if variant is None else [config, variant]


def _canonical(cell: Cell, config: RunSpec) -> RunSpec:
    try:
        return canonical(config)
    except ConfigError as error:  # of one cell among many
        raise ConfigError(f"{cell.where}: {error}") from error


def _planned(config: RunSpec, cell: Cell, store: Store, errors: dict[str, str], device: Device) -> PlannedRun:
    state: State = "waiting"
    done = 0.0
    if store.find(config) is not None:
        state = "done"
    elif config.hash in errors:
        state = "failed"
    elif config.hash in store.places:
        state, done = "begun", share_done(store.places[config.hash], config)
    if store.output is not None:
        config = replace(config, run_dir=store.place(config))
    return PlannedRun(config, (cell,), state, predicted_cost(config, device), trained_images(config), done)


def _reason(
    cell: Cell, data_dir: Path | None, download: bool, absent: Callable[[str, Path | None], str | None]
) -> str | None:
    source = str(cell.settings["source"])
    # Training downloads some sets; others are prepared by a command of their own, and files are the user's.
    downloads = download and is_named(source) and known(source).downloads
    return None if downloads else absent(source, data_dir)


def _impossible(config: RunSpec) -> str | None:
    """Why the images cannot be made as imbalanced as a cell says; None if they can, or if only loading would tell."""
    try:
        training_images(config)
    except ConfigError as error:
        return f"{config.source}: {error}"
    return None


def share_done(folder: Path, config: RunSpec) -> float:
    """Share of its epochs that the run in a folder has behind it; 0 where it would begin anew."""
    try:
        checkpoints = kept_checkpoints(folder)
        if not checkpoints:
            return 0.0
        position = Position.from_json(checkpoints[-1].position(), str(folder))
    except RunError:  # said when the run goes on
        return 0.0
    recipe, images = recipe_of(config), training_images(config)
    steps = math.inf if images is None else max(1, math.ceil(images / recipe.batch_size))
    return min(1.0, (position.records + position.step / steps) / recipe.epochs)

"""procrustean bench"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from procrustean.cli.outputs import check_folder

if TYPE_CHECKING:
    from procrustean.base.table_formats import Table
    from procrustean.cli.bench_tmp.data import Case

Say = Callable[[str], None]
Device = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class Speed:
    """Measure training speed against the plain loop of the research codes, in one run: engines, kernels, fleets.

    Example: procrustean bench speed --output results/speed.json
    """

    device: Device = "auto"
    """Where to measure."""
    steps: int = 90
    """Steps per timing."""
    repeats: int = 5
    """Timings of each variant; their median counts."""
    workers: tuple[int, ...] = (4, 8, 16)
    """Worker processes tried for the plain loop; its best counts."""
    fleets: tuple[int, ...] = (2, 4, 8, 16)
    """Numbers of runs side by side (GPU only)."""
    output: Path | None = None
    """Also write the numbers as JSON, after each measurement."""

    def run(self) -> int:
        from procrustean.cli.bench_tables import speed_table
        from procrustean.cli.bench_tmp.speed import bench_speed

        def measure(say: Say) -> Table:
            result = bench_speed(
                device=self.device,
                steps=self.steps,
                repeats=self.repeats,
                workers=self.workers,
                fleets=self.fleets,
                say=say,
                keep=_keeper(self.output),
            )
            return speed_table(result)

        return _shown(measure)


@dataclass(frozen=True)
class WholeRuns:
    """Time eight runs from start to result, one by one and as a fleet.

    Example: procrustean bench runs --output results/whole-runs.json
    """

    device: Device = "auto"
    """Where to measure."""
    runs: int = 8
    """How many."""
    epochs: int = 30
    """How long each is."""
    output: Path | None = None
    """Also write the numbers as JSON, after each measurement."""

    def run(self) -> int:
        from procrustean.cli.bench_tables import runs_table
        from procrustean.cli.bench_tmp.whole_runs import bench_runs

        def measure(say: Say) -> Table:
            keep = _keeper(self.output)
            return runs_table(bench_runs(device=self.device, runs=self.runs, epochs=self.epochs, say=say, keep=keep))

        return _shown(measure)


@dataclass(frozen=True)
class MethodCosts:
    """Measure what a step of each method costs relative to ERM.

    Example: procrustean bench methods --output results/method-costs.json
    """

    device: Device = "auto"
    """Where to measure."""
    steps: int = 60
    """Steps per timing."""
    repeats: int = 3
    """Timings of each part of a method; their median counts."""
    output: Path | None = None
    """Also write the numbers as JSON, after each measurement."""

    def run(self) -> int:
        from procrustean.cli.bench_tables import costs_table
        from procrustean.cli.bench_tmp.method_costs import bench_methods

        def measure(say: Say) -> Table:
            keep = _keeper(self.output)
            return costs_table(
                bench_methods(device=self.device, steps=self.steps, repeats=self.repeats, say=say, keep=keep)
            )

        return _shown(measure)


@dataclass(frozen=True)
class FeedSpeed:
    """Measure what feeding images costs: resident and streamed stores against a network that is fed nothing.

    Example: procrustean bench data --cases tiny-imagenet imagenet-lt --output results/data-speed.json
    """

    cases: tuple[Literal["tiny-imagenet", "imagenet-lt", "imagenet-lt-resized", "cifar-strong"], ...] = (
        "tiny-imagenet",
        "imagenet-lt",
        "imagenet-lt-resized",
        "cifar-strong",
    )
    """Which networks and stores: ResNet-18 at 64 pixels, ResNet-50 at 224 with plain and resized crops, ResNet-32
    with AutoAugment."""
    net: str | None = None
    """Another network for all cases."""
    images: int | None = None
    """Another number of images in the stores; by default that of the data set."""
    batch_size: int | None = None
    """Another number of images per step."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to measure."""
    workers: tuple[int, ...] = (1, 2, 4, 8, 16)
    """Numbers of threads and processes that feed streamed images."""
    steps: int = 60
    """Steps per timing."""
    repeats: int = 3
    """Timings of each variant; their median counts."""
    folder: Path | None = None
    """Where the files of the stores, up to 23 GB, are written and removed again; default the system's."""
    output: Path | None = None
    """Also write the numbers as JSON, after each measurement."""

    def run(self) -> int:
        from dataclasses import replace

        from procrustean.cli.bench_tables import feed_table
        from procrustean.cli.bench_tmp.data import CASES, bench_data

        changes: dict[str, Any] = {
            name: value for name in ("net", "images", "batch_size") if (value := getattr(self, name)) is not None
        }

        def measure(say: Say) -> Table:
            cases: dict[str, Case] = {name: replace(CASES[name], **changes) for name in self.cases}
            result = bench_data(
                cases,
                device=self.device,
                workers=self.workers,
                steps=self.steps,
                repeats=self.repeats,
                folder=self.folder,
                say=say,
                keep=_keeper(self.output),
            )
            return feed_table(result)

        return _shown(measure)


@dataclass(frozen=True)
class Bench:
    """Measure speed on this machine."""

    what: (
        Annotated[Speed, tyro.conf.subcommand("speed")]
        | Annotated[WholeRuns, tyro.conf.subcommand("runs")]
        | Annotated[MethodCosts, tyro.conf.subcommand("methods")]
        | Annotated[FeedSpeed, tyro.conf.subcommand("data")]
    )

    def run(self) -> int:
        return self.what.run()


def _shown(measure: Callable[[Say], Table]) -> int:
    """Measure with progress, then show the table."""
    from procrustean.base.console import write_result
    from procrustean.base.progress import reporting

    with reporting() as reporter:
        table = measure(reporter.say)
    write_result(table)
    return 0


def _keeper(output: Path | None) -> Callable[[dict[str, Any]], None]:
    """What writes a result to its file, whenever there is more of it."""
    if output is not None:
        check_folder(output.parent)

    def keep(result: dict[str, Any]) -> None:
        from procrustean.base.whole_files import write_json

        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            write_json(output, result, "choose another --output")

    return keep

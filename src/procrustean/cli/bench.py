"""procrustean bench"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro


@dataclass(frozen=True)
class Speed:
    """Measure training speed against the plain loop of the research codes, in one run: engines, kernels, fleets.

    Example: procrustean bench speed --output results/speed.json
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
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
        from ..bench.speed import bench_speed
        from ..console import make_reporter, write_result

        reporter = make_reporter()
        try:
            result = bench_speed(
                device=self.device,
                steps=self.steps,
                repeats=self.repeats,
                workers=self.workers,
                fleets=self.fleets,
                say=reporter.say,
                keep=_keeper(self.output),
            )
        finally:
            reporter.close()
        write_result(_table(result))
        return 0


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

        from ..bench.data import CASES, bench_data
        from ..console import make_reporter, write_result

        changes: dict[str, Any] = {
            name: value for name in ("net", "images", "batch_size") if (value := getattr(self, name)) is not None
        }
        reporter = make_reporter()
        try:
            result = bench_data(
                {name: replace(CASES[name], **changes) for name in self.cases},
                device=self.device,
                workers=self.workers,
                steps=self.steps,
                repeats=self.repeats,
                folder=self.folder,
                say=reporter.say,
                keep=_keeper(self.output),
            )
        finally:
            reporter.close()
        write_result(_feed_table(result))
        return 0


@dataclass(frozen=True)
class Bench:
    """Measure speed on this machine."""

    what: Annotated[Speed, tyro.conf.subcommand("speed")] | Annotated[FeedSpeed, tyro.conf.subcommand("data")]

    def run(self) -> int:
        return self.what.run()


def _keeper(output: Path | None) -> Callable[[dict[str, Any]], None]:
    """What writes a result to its file, whenever there is more of it."""

    def keep(result: dict[str, Any]) -> None:
        from ..engine.checkpoint import write_atomically

        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(output, (json.dumps(result, indent=1) + "\n").encode())

    return keep


def _feed_table(result: dict[str, Any]) -> Any:
    from ..report.formats import Cell, Column, Table

    rows = [
        (
            Cell(f"{name}, {case['net']} at {case['crop']}"),
            Cell(str(row["variant"])),
            Cell(f"{row['images_per_second']:,.0f}"),
            Cell(f"{100 * row['share']:.0f} %"),
            Cell(f"{row['cores_busy']:.1f}"),
        )
        for name, case in result["cases"].items()
        for row in case["rows"]
    ]
    columns = ("case", "images", "images/s", "of the network's own speed", "cores busy")
    headings = tuple(Column(name, name, numeric=name not in ("case", "images")) for name in columns)
    return Table(f"Training from stores on {result['environment']['machine']}", headings, tuple(rows))


def _table(result: dict[str, Any]) -> Any:
    from ..report.formats import Cell, Column, Table

    def cells(name: str, row: dict[str, Any]) -> tuple[Cell, ...]:
        floor, first, memory = row.get("share_of_memory_floor"), row.get("first_step_seconds"), row.get("memory_gib")
        return (
            Cell(name),
            Cell(f"{row['images_per_second']:,.0f}"),
            Cell(f"{row['ratio_to_peer']:.1f} x"),
            Cell("" if floor is None else f"{100 * floor:.0f} %"),
            Cell("" if first is None else f"{first:.1f} s"),
            Cell("" if memory is None else f"{memory:.1f}"),
        )

    best = result["peer"]["best"]
    rows = [cells("plain loop", {"images_per_second": best, "ratio_to_peer": 1.0})]
    rows += [cells(f"{row['method']}, {row['variant']}", row) for row in result["single"]]
    rows += [cells(f"fleet of {row['width']}, sum", row) for row in result["fleet"]]
    columns = ("variant", "images/s", "to the plain loop", "of the memory floor", "first step", "GiB")
    headings = tuple(Column(name, name, numeric=name != "variant") for name in columns)
    return Table(f"Training speed on {result['environment']['machine']}: ResNet-32, batch 128", headings, tuple(rows))

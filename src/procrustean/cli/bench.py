"""procrustean bench"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro

if TYPE_CHECKING:
    from ..report.formats import Table


@dataclass(frozen=True)
class Bench:
    """Measure training speed. `speed`: engines, kernels and fleets against the plain loop of the research codes.
    `runs`: eight whole runs one by one and as a fleet. `methods`: what a step of each method costs relative to ERM.

    Example: procrustean bench speed --output results/speed.json
    """

    what: tyro.conf.Positional[Literal["speed", "runs", "methods"]]
    """What to measure."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to measure."""
    steps: int = 90
    """Steps per timing."""
    repeats: int = 5
    """Timings of each variant; their median counts."""
    workers: tuple[int, ...] = (4, 8, 16)
    """Worker processes tried for the plain loop of `speed`; its best counts."""
    fleets: tuple[int, ...] = (2, 4, 8, 16)
    """Numbers of runs side by side in `speed` (GPU only)."""
    output: Path | None = None
    """Also write the numbers as JSON, after each measurement."""

    def run(self) -> int:
        from ..console import make_reporter, write_result
        from ..engine.checkpoint import write_atomically

        def keep(result: dict[str, Any]) -> None:
            if self.output is not None:
                self.output.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self.output, (json.dumps(result, indent=1) + "\n").encode())

        reporter = make_reporter()
        try:
            measure = {"speed": self._speed, "runs": self._runs, "methods": self._methods}[self.what]
            write_result(measure(reporter.say, keep))
        finally:
            reporter.close()
        return 0

    def _speed(self, say: Callable[[str], None], keep: Callable[[dict[str, Any]], None]) -> Table:
        from ..bench.speed import bench_speed

        result = bench_speed(
            device=self.device,
            steps=self.steps,
            repeats=self.repeats,
            workers=self.workers,
            fleets=self.fleets,
            say=say,
            keep=keep,
        )
        return _speed_table(result)

    def _runs(self, say: Callable[[str], None], keep: Callable[[dict[str, Any]], None]) -> Table:
        from ..bench.whole_runs import bench_runs

        return _runs_table(bench_runs(device=self.device, say=say, keep=keep))

    def _methods(self, say: Callable[[str], None], keep: Callable[[dict[str, Any]], None]) -> Table:
        from ..bench.method_costs import bench_methods

        result = bench_methods(device=self.device, steps=self.steps, repeats=self.repeats, say=say, keep=keep)
        return _costs_table(result)


def _runs_table(result: dict[str, Any]) -> Table:
    from ..report.formats import Cell, Column, Table

    seconds = result["seconds"]
    rows = tuple((Cell(name.replace("_", " ")), Cell(f"{value:.1f}")) for name, value in seconds.items())
    headings = (Column("how", "how", numeric=False), Column("seconds", "seconds", numeric=True))
    title = f"{result['runs']} runs of {result['epochs']} epochs on {result['environment']['machine']}"
    return Table(f"{title}: the fleet takes 1/{result['ratio']:.2f} of the time", headings, rows)


def _costs_table(result: dict[str, Any]) -> Table:
    from ..report.formats import Cell, Column, Table

    rows = tuple(
        (
            Cell(row["method"]),
            Cell(f"{row['relative_to_erm']:.2f}"),
            Cell(f"{row['microseconds_per_image']:.1f}"),
            Cell(row["engine"]),
        )
        for row in result["methods"]
    )
    names = ("method", "time relative to ERM", "microseconds per image", "engine")
    headings = tuple(Column(name, name, numeric=name not in ("method", "engine")) for name in names)
    return Table(f"Cost of a step on {result['environment']['machine']}: ResNet-32, batch 128", headings, rows)


def _speed_table(result: dict[str, Any]) -> Table:
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

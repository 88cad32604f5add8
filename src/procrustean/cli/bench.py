"""procrustean bench"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro


@dataclass(frozen=True)
class Bench:
    """Measure training speed against the plain loop of the research codes, in one run: engines, kernels, fleets.

    Example: procrustean bench speed --output results/speed.json
    """

    what: tyro.conf.Positional[Literal["speed"]]
    """What to measure."""
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
        from ..engine.checkpoint import write_atomically

        def keep(result: dict[str, Any]) -> None:
            if self.output is not None:
                self.output.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self.output, (json.dumps(result, indent=1) + "\n").encode())

        reporter = make_reporter()
        try:
            result = bench_speed(
                device=self.device,
                steps=self.steps,
                repeats=self.repeats,
                workers=self.workers,
                fleets=self.fleets,
                say=reporter.say,
                keep=keep,
            )
        finally:
            reporter.close()
        write_result(_table(result))
        return 0


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

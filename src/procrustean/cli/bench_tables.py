"""The tables that the benchmarks show."""

from __future__ import annotations

from typing import Any

from procrustean.base.table_formats import Cell, Column, Table


def speed_table(result: dict[str, Any]) -> Table:
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


def runs_table(result: dict[str, Any]) -> Table:
    seconds = result["seconds"]
    rows = tuple((Cell(name.replace("_", " ")), Cell(f"{value:.1f}")) for name, value in seconds.items())
    headings = (Column("how", "how", numeric=False), Column("seconds", "seconds", numeric=True))
    title = f"{result['runs']} runs of {result['epochs']} epochs on {result['environment']['machine']}"
    return Table(f"{title}: the fleet takes 1/{result['ratio']:.2f} of the time", headings, rows)


def costs_table(result: dict[str, Any]) -> Table:
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


def feed_table(result: dict[str, Any]) -> Table:
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

"""What the benchmarks share: their command lines, their images, their records, and the state of the device."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
import tyro

from procrustean.base.console import write_result
from procrustean.base.files import write_json
from procrustean.base.progress import reporting
from procrustean.base.table_formats import Cell, Column, Table
from procrustean.data import ImageSet, Splits
from procrustean.engine.device import machine

Say = Callable[[str], None]
Record = dict[str, Any]
Keep = Callable[[Record], None]


class Benchmark(Protocol):
    """The options of a benchmark; the documentation of the class is its help."""

    @property
    def output(self) -> Path | None: ...

    def measure(self, say: Say, keep: Keep) -> Table:
        """Measure, with progress and with every result kept as soon as there is one."""
        ...


def main(kind: type[Benchmark], arguments: Sequence[str] | None = None) -> int:
    """Read the options, measure and show the table."""
    options = tyro.cli(kind, args=arguments, config=(tyro.conf.FlagCreatePairsOff,))
    output = options.output
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)

    def keep(result: Record) -> None:
        if output is not None:
            write_json(output, result, "choose another --output")

    with reporting() as reporter:
        table = options.measure(reporter.say, keep)
    write_result(table)
    return 0


def table_of(title: str, columns: dict[str, bool], rows: Sequence[Sequence[str]]) -> Table:
    """A table.

    Args:
        title: above it.
        columns: headings, each with whether it is one of numbers.
        rows: texts.
    """
    headings = tuple(Column(name, name, numeric=numeric) for name, numeric in columns.items())
    return Table(title, headings, tuple(tuple(map(Cell, row)) for row in rows))


def synthetic_cifar() -> Splits:
    """Random bytes in the shape of CIFAR-10; speed does not depend on what the images show."""
    bits = np.random.default_rng(0)
    names = tuple(f"class {i}" for i in range(10))

    def images(per_class: int) -> ImageSet:
        pixels = bits.integers(0, 256, (10 * per_class, 32, 32, 3), dtype=np.uint8)
        return ImageSet(pixels, np.repeat(np.arange(10), per_class), names)

    return Splits("cifar10", images(5000), images(100))


def new_record(what: str, device: torch.device) -> Record:
    """The head of a file of results: what was measured, by which command, where."""
    return {
        "format": 1,
        "what": what,
        "command": " ".join(["python", *sys.argv]),
        "environment": {
            "machine": machine(device),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
    }


def memory(device: torch.device) -> float | None:
    """GiB that torch holds on a GPU."""
    return torch.cuda.memory_reserved(device) / 2**30 if device.type == "cuda" else None


def clear_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

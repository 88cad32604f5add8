"""Runs from start to result, with set-up, evaluation and records: one by one, and as a fleet.

python benchmarks/whole_runs.py --output results/whole-runs.json
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from measuring import Keep, Record, Say, clear_memory, main, new_record, synthetic_cifar, table_of
from procrustean.base.table_formats import Table
from procrustean.data.imageset import Splits
from procrustean.records.run_spec import RunSpec
from procrustean.runs.many_runs import fit_many
from procrustean.runs.preparing import prepare


@dataclass(frozen=True)
class WholeRuns:
    """Time eight runs from start to result, one by one and as a fleet."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to measure."""
    runs: int = 8
    """How many."""
    epochs: int = 30
    """How long each is."""
    output: Path | None = None
    """Also write the numbers as JSON, after each measurement."""

    def measure(self, say: Say, keep: Keep) -> Table:
        result = bench_runs(device=self.device, runs=self.runs, epochs=self.epochs, say=say, keep=keep)
        title = f"{self.runs} runs of {self.epochs} epochs on {result['environment']['machine']}"
        rows = [(name.replace("_", " "), f"{value:.1f}") for name, value in result["seconds"].items()]
        return table_of(
            f"{title}: the fleet takes 1/{result['ratio']:.2f} of the time", {"how": False, "seconds": True}, rows
        )


def bench_runs(
    *,
    device: str = "auto",
    runs: int = 8,
    epochs: int = 30,
    say: Say = lambda text: None,
    keep: Keep = lambda result: None,
) -> Record:
    """Seconds of `runs` MFW runs on CIFAR-10 LT100 in shape, with default settings but for their epochs."""
    splits = synthetic_cifar()

    def config(seed: int, folder: Path) -> RunSpec:
        return RunSpec(
            source="cifar10", imbalance="long_tailed", rho=100.0, device=device, method="mfw",  # type: ignore[arg-type]
            epochs=epochs, seed=seed, run_dir=folder / str(seed),
        )  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        place = prepare(config(0, Path(folder)), splits=splits).placement.device
        # One run ahead: kernels are compiled once, and must not count for whoever comes first.
        _seconds([config(0, Path(folder) / "ahead")], splits, 1)
        result = new_record("seconds of whole runs, MFW, ResNet-32", place) | {
            "runs": runs,
            "epochs": epochs,
            "seconds": {},
        }
        for name, width in (("one_by_one", 1), ("fleet", runs)):
            configs = [config(seed, Path(folder) / name) for seed in range(runs)]
            result["seconds"][name] = _seconds(configs, splits, width)
            keep(result)
            say(f"{name.replace('_', ' ')}: {result['seconds'][name]:.1f} s")
    result["ratio"] = result["seconds"]["one_by_one"] / result["seconds"]["fleet"]
    keep(result)
    return result


def _seconds(configs: list[RunSpec], splits: Splits, width: int) -> float:
    clear_memory()
    began = time.perf_counter()
    for outcome in fit_many(configs, splits=splits, width=width):
        if outcome.error is not None:
            raise outcome.error
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main(WholeRuns))

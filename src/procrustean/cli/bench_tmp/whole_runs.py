"""Runs from start to result, with set-up, evaluation and records: one by one, and as a fleet."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from procrustean.cli.bench_tmp import speed
from procrustean.data.imageset import Splits
from procrustean.records.run_spec import RunSpec
from procrustean.runs.many_runs import fit_many
from procrustean.runs.preparing import prepare


def bench_runs(
    *,
    device: str = "auto",
    runs: int = 8,
    epochs: int = 30,
    say: Callable[[str], None] = lambda text: None,
    keep: Callable[[dict[str, Any]], None] = lambda result: None,
) -> dict[str, Any]:
    """Seconds of `runs` MFW runs on CIFAR-10 LT100 in shape, with default settings but for their epochs."""
    splits = speed.synthetic_cifar()

    def config(seed: int, folder: Path) -> RunSpec:
        return RunSpec(
            source="cifar10", imbalance="long_tailed", rho=100.0, device=device, method="mfw",  # type: ignore[arg-type]
            epochs=epochs, seed=seed, run_dir=folder / str(seed),
        )  # fmt: skip

    with tempfile.TemporaryDirectory() as folder:
        place = prepare(config(0, Path(folder)), splits=splits).placement.device
        # One run ahead: kernels are compiled once, and must not count for whoever comes first.
        _seconds([config(0, Path(folder) / "ahead")], splits, 1)
        result = speed.blank_record(place) | {"runs": runs, "epochs": epochs, "seconds": {}}
        for name, width in (("one_by_one", 1), ("fleet", runs)):
            configs = [config(seed, Path(folder) / name) for seed in range(runs)]
            result["seconds"][name] = _seconds(configs, splits, width)
            keep(result)
            say(f"{name.replace('_', ' ')}: {result['seconds'][name]:.1f} s")
    result["ratio"] = result["seconds"]["one_by_one"] / result["seconds"]["fleet"]
    keep(result)
    return result


def _seconds(configs: list[RunSpec], splits: Splits, width: int) -> float:
    speed.clear_memory()
    began = time.perf_counter()
    for outcome in fit_many(configs, splits=splits, width=width):
        if outcome.error is not None:
            raise outcome.error
    return time.perf_counter() - began

"""What each method costs: the time of its steps relative to ERM's, measured one after the other in one process.

python benchmarks/method_costs.py --output results/method-costs.json
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from measuring import Keep, Record, Say, clear_memory, main, memory, new_record, synthetic_cifar, table_of, wait
from procrustean.base.own_code import use_file
from procrustean.base.table_formats import Table
from procrustean.data.imbalance import meta_set
from procrustean.engine.device import own_stream
from procrustean.engine.prepared_run import Prepared
from procrustean.engine.stage_order import begin_stage, reshape_for, stage_epochs
from procrustean.engine.stage_training import MetaImages, StageRun
from procrustean.methods.make import METHODS
from procrustean.records.run_spec import RunSpec
from procrustean.runs.preparing import prepare


@dataclass(frozen=True)
class MethodCosts:
    """Measure what a step of each method costs relative to ERM."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to measure."""
    steps: int = 60
    """Steps per timing."""
    repeats: int = 3
    """Timings of each part of a method; their median counts."""
    output: Path | None = None
    """Also write the numbers as JSON, after each measurement."""

    def measure(self, say: Say, keep: Keep) -> Table:
        result = bench_methods(device=self.device, steps=self.steps, repeats=self.repeats, say=say, keep=keep)
        rows = [
            (
                row["method"],
                f"{row['relative_to_erm']:.2f}",
                f"{row['microseconds_per_image']:.1f}",
                row["engine"],
            )
            for row in result["methods"]
        ]
        columns = {"method": False, "time relative to ERM": True, "microseconds per image": True, "engine": False}
        title = f"Cost of a step on {result['environment']['machine']}: ResNet-32, batch 128"
        return table_of(title, columns, rows)


def bench_methods(
    *,
    device: str = "auto",
    methods: Sequence[str] = tuple(METHODS),
    steps: int = 60,
    repeats: int = 3,
    say: Say = lambda text: None,
    keep: Keep = lambda result: None,
) -> Record:
    """Time per image of every stage and phase of each method, and of a whole training, relative to ERM.

    All with ResNet-32 in batches of 128 on CIFAR-10 LT100 in shape, and with as many epochs as the method is given by
    the paper's recipe, so that the ratio is the price of the step alone.
    """
    splits = synthetic_cifar()

    def prepared_for(name: str) -> Prepared:
        config = RunSpec(source="cifar10", imbalance="long_tailed", rho=100.0, device=device, method=name)  # type: ignore[arg-type]
        use_file(config.method)
        return prepare(config, splits=splits)

    erm_run = prepared_for("erm")
    result = new_record("time per image of the methods, ResNet-32, batch 128", erm_run.placement.device)
    result["methods"] = []
    # The first run of a process is up to a tenth faster than the same run later, so it does not count.
    list(_timed_parts(erm_run, steps, 1))
    for name in dict.fromkeys(["erm", *methods]):
        prepared = prepared_for(name)
        parts = list(_timed_parts(prepared, steps, repeats))
        whole = sum(part["share"] * part["microseconds_per_image"] for part in parts)
        erm = result["methods"][0]["microseconds_per_image"] if result["methods"] else whole
        row = {
            "method": name,
            "engine": prepared.engine.name,
            "microseconds_per_image": whole,
            "relative_to_erm": whole / erm,
            "parts": parts,
            "memory_gib": memory(prepared.placement.device),
        }
        result["methods"].append(row)
        keep(result)
        say(f"{name}: {row['relative_to_erm']:.2f} times ERM ({row['engine']})")
    return result


def _timed_parts(prepared: Prepared, steps: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Every stage and phase of a method, with its share of the epochs and its time per image."""
    device, recipe, method = prepared.placement.device, prepared.recipe, prepared.method
    clear_memory()
    stores = prepared.stores()
    images = stores.training(prepared.data.train)
    net = prepared.build_net()
    lengths = stage_epochs(method, recipe.epochs)
    with own_stream(device):
        for number, (stage, epochs) in enumerate(zip(method.stages, lengths, strict=True)):
            reshape_for(net, method, number, prepared.config.seed)
            net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
            begin_stage(net, method, number, prepared.config.seed, partial(images.clean_batches, 500))
            meta = None
            if stage.extra_from == "meta":
                chosen = meta_set(prepared.data, stage.meta_per_class, 0)
                meta = MetaImages(chosen, stores.training(chosen.images, "meta"))
            run = StageRun(
                stage, number, net=net, train=prepared.data.train, images=images, recipe=recipe, epochs=epochs,
                seed=0, placement=prepared.placement, engine=prepared.engine, meta=meta,
            )  # fmt: skip
            phases = [stage.objective.phase_at(epoch, epochs) for epoch in range(epochs)]
            for phase in dict.fromkeys(phases):
                seconds = _seconds(run, phases.index(phase), steps, repeats)
                yield {
                    "stage": stage.name,
                    "phase": phase,
                    "share": phases.count(phase) / recipe.epochs,
                    "microseconds_per_image": 1e6 * seconds / run.planner.batch_size,
                }
            run.finish()


def _seconds(run: StageRun, epoch: int, steps: int, repeats: int) -> float:
    """Median seconds of a step of a whole batch in the phase of an epoch."""
    steps = min(steps, run.planner.full_steps)
    run.begin_epoch(epoch)
    run.advance(0, 1)  # captures
    times = []
    for _ in range(repeats):
        run.begin_epoch(epoch)
        wait(run.device)
        began = time.perf_counter()
        run.advance(0, steps)
        wait(run.device)
        times.append((time.perf_counter() - began) / steps)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main(MethodCosts))

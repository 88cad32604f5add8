"""How fast training is: the plain loop of the research codes, each engine, and fleets, measured in one run.

python benchmarks/speed.py --output results/speed.json
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import torch

from measuring import Keep, Record, Say, clear_memory, main, memory, new_record, synthetic_cifar, table_of, wait
from plain_loop import measure_peer
from procrustean.base.table_formats import Table
from procrustean.engine.device import own_stream
from procrustean.engine.engines import Engine, choose_engine
from procrustean.engine.prepared_run import Prepared
from procrustean.engine.stage_training import StageRun
from procrustean.records.run_spec import RunSpec
from procrustean.runs.preparing import prepare

#: Least time per image of ResNet-32 in bf16 on an H200: bytes moved at 4.3 TB/s, multiply-adds at 790 TFLOP/s.
FLOORS = {"memory": 465_000.0, "arithmetic": 1_900_000.0}

#: What is trained.
WHAT = "ResNet-32, batch 128, CIFAR-10 LT100 in shape (random pixels)"

#: Methods: the plain one, and the one whose extra time over it is told.
TIMED = ("erm", "mfw")

#: The variable by which Triton is told where compiled kernels are kept.
KERNEL_CACHE = "TRITON_CACHE_DIR"


@dataclass(frozen=True)
class Variant:
    """A way to carry out training steps."""

    name: str
    engine: str
    kernels: str
    precision: str = "auto"


GPU_VARIANTS = (
    Variant("eager, library kernels", "eager", "off"),
    Variant("captured, library kernels", "captured", "off"),
    Variant("captured, own kernels", "captured", "on"),
)
COMPILED = Variant("compiled and captured", "compiled", "off")
DEFAULT = Variant("default", "auto", "auto")
CPU_VARIANTS = (Variant("float32", "eager", "off", "fp32"), Variant("automatic precision", "eager", "off"))


class Measured:
    """One run set up for timing."""

    def __init__(self, prepared: Prepared, engine: Engine, seed: int = 0) -> None:
        self.prepared = prepared
        device = prepared.placement.device
        self.device = device
        began = time.perf_counter()
        net = prepared.build_net().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        images = prepared.stores().training(prepared.data.train)
        self.stage = StageRun(
            prepared.method.stages[0],
            0,
            net=net,
            train=prepared.data.train,
            images=images,
            recipe=prepared.recipe,
            epochs=prepared.recipe.epochs,
            seed=seed,
            placement=prepared.placement,
            engine=engine,
        )
        self.stage.begin_epoch(10)
        self.stage.advance(0, 1)
        wait(device)
        self.first_step_seconds = time.perf_counter() - began

    def time(self, steps: int, repeats: int) -> list[float]:
        """Milliseconds per step of whole batches, one value for each repeat."""
        steps = min(steps, self.stage.planner.full_steps)
        times = []
        for repeat in range(repeats):
            self.stage.begin_epoch(11 + repeat)
            wait(self.device)
            began = time.perf_counter()
            self.stage.advance(0, steps)
            wait(self.device)
            times.append(1e3 * (time.perf_counter() - began) / steps)
        return times


@contextmanager
def empty_kernel_cache() -> Iterator[None]:
    """Kernels compiled inside are kept in a folder of their own, empty at first, so that the time to the first step is
    that of a machine on which nothing has run yet."""
    before = os.environ.get(KERNEL_CACHE)
    with TemporaryDirectory(prefix="procrustean-kernels-") as folder:
        os.environ[KERNEL_CACHE] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[KERNEL_CACHE]
            else:
                os.environ[KERNEL_CACHE] = before


@dataclass(frozen=True)
class Speed:
    """Measure training speed against the plain loop of the research codes, in one run: engines, kernels, fleets."""

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

    def measure(self, say: Say, keep: Keep) -> Table:
        return speed_table(
            bench_speed(
                device=self.device,
                steps=self.steps,
                repeats=self.repeats,
                workers=self.workers,
                fleets=self.fleets,
                say=say,
                keep=keep,
            )
        )


def speed_table(result: Record) -> Table:
    """One row for each way of training."""

    def cells(name: str, row: Record) -> tuple[str, ...]:
        floor, first, memory = row.get("share_of_memory_floor"), row.get("first_step_seconds"), row.get("memory_gib")
        return (
            name,
            f"{row['images_per_second']:,.0f}",
            f"{row['ratio_to_peer']:.1f} x",
            "" if floor is None else f"{100 * floor:.0f} %",
            "" if first is None else f"{first:.1f} s",
            "" if memory is None else f"{memory:.1f}",
        )

    rows = [cells("plain loop", {"images_per_second": result["peer"]["best"], "ratio_to_peer": 1.0})]
    rows += [cells(f"{row['method']}, {row['variant']}", row) for row in result["single"]]
    rows += [cells(f"fleet of {row['width']}, sum", row) for row in result["fleet"]]
    names = ("variant", "images/s", "to the plain loop", "of the memory floor", "first step", "GiB")
    title = f"Training speed on {result['environment']['machine']}: ResNet-32, batch 128"
    return table_of(title, {name: name != "variant" for name in names}, rows)


@empty_kernel_cache()
def bench_speed(
    *,
    device: str = "auto",
    fleets: Sequence[int] = (2, 4, 8, 16),
    workers: Sequence[int] = (4, 8, 16),
    steps: int = 90,
    repeats: int = 5,
    say: Say = lambda text: None,
    keep: Keep = lambda result: None,
) -> Record:
    """Measure everything; the ratios are to the best peer loop of this very call.

    `keep` is handed the result after each measurement, so that nothing is lost when the call is cut short.
    """
    splits = synthetic_cifar()
    base: dict[str, Any] = {"source": "cifar10", "imbalance": "long_tailed", "rho": 100.0, "device": device}

    def prepared(method: str, variant: Variant) -> Prepared:
        return prepare(RunSpec(**base, method=method, precision=variant.precision), splits=splits)  # type: ignore[arg-type]

    first = prepared(TIMED[0], DEFAULT)
    place, batch = first.placement.device, first.recipe.batch_size
    on_gpu = place.type == "cuda"
    mean, std = first.recipe.normalisation
    result = new_record(f"{WHAT}, training images per second", place)
    result |= {
        "floors": FLOORS if on_gpu else None,
        "peer": {"best": None, "by_workers": {}},
        "single": [],
        "fleet": [],
    }
    for count in workers:
        speed = measure_peer(
            first.data.train, device=place, workers=count, steps=steps, batch_size=batch, mean=mean, std=std
        )
        result["peer"]["by_workers"][str(count)] = speed
        say(f"peer loop, {count} workers: {speed:,.0f} images/s")
    peer = result["peer"]["best"] = max(result["peer"]["by_workers"].values())
    keep(result)

    def singles(variants: Sequence[Variant]) -> None:
        for variant, method in product(variants, TIMED):
            row = _single(prepared(method, variant), method, variant, steps, repeats, peer, batch)
            result["single"].append(row)
            keep(result)
            say(f"{method}, {variant.name}: {row['images_per_second']:,.0f} images/s, {row['ratio_to_peer']:.1f} x")

    singles(GPU_VARIANTS if on_gpu else CPU_VARIANTS)
    result["extra_time"] = _extra_time([prepared(method, DEFAULT) for method in TIMED], steps, 3 * repeats)
    keep(result)
    say(f"{TIMED[-1]} over {TIMED[0]}, timed in turns: {100 * result['extra_time']['median']:+.1f} %")
    for width in fleets if on_gpu else ():
        row = _fleet([prepared(TIMED[-1], DEFAULT) for _ in range(width)], steps, repeats, peer, batch)
        result["fleet"].append(row)
        keep(result)
        say(f"fleet of {width}: {row['images_per_second']:,.0f} images/s in all, {row['ratio_to_peer']:.1f} x")
    # Last, because it compiles for a minute.
    singles((COMPILED,) if on_gpu else ())
    return result


def _single(
    prepared: Prepared, method: str, variant: Variant, steps: int, repeats: int, peer: float, batch: int
) -> dict[str, Any]:
    clear_memory()
    engine = choose_engine(variant.engine, variant.kernels, prepared.placement, prepared.method)
    with own_stream(prepared.placement.device):
        run = Measured(prepared, engine)
        times = run.time(steps, repeats)
    speed = 1e3 * batch / statistics.median(times)
    return {
        "method": method,
        "variant": variant.name,
        "precision": prepared.placement.precision,
        "ms_per_step": times,
        "images_per_second": speed,
        "ratio_to_peer": speed / peer,
        "share_of_memory_floor": speed / FLOORS["memory"] if run.device.type == "cuda" else None,
        "first_step_seconds": run.first_step_seconds,
        "memory_gib": memory(run.device),
    }


def _fleet(prepared: list[Prepared], steps: int, repeats: int, peer: float, batch: int) -> dict[str, Any]:
    clear_memory()
    device = prepared[0].placement.device
    members = []
    for seed, one in enumerate(prepared):
        stream = torch.cuda.Stream(device)
        with torch.cuda.stream(stream):
            engine = choose_engine("auto", "auto", one.placement, one.method)
            members.append((stream, Measured(one, engine, seed).stage))
    chunk = 10
    times = []
    for repeat in range(repeats):
        for stream, stage in members:
            with torch.cuda.stream(stream):
                stage.begin_epoch(11 + repeat)
        torch.cuda.synchronize(device)
        began = time.perf_counter()
        for start in range(0, steps // chunk * chunk, chunk):
            for stream, stage in members:
                with torch.cuda.stream(stream):
                    stage.advance(start, chunk)
        torch.cuda.synchronize(device)
        times.append(1e3 * (time.perf_counter() - began) / (steps // chunk * chunk) / len(members))
    speed = 1e3 * batch / statistics.median(times)
    return {
        "width": len(members),
        "ms_per_run_step": times,
        "images_per_second": speed,
        "ratio_to_peer": speed / peer,
        "share_of_memory_floor": speed / FLOORS["memory"],
        "memory_gib": memory(device),
    }


def _extra_time(prepared: list[Prepared], steps: int, rounds: int) -> dict[str, Any]:
    """How much longer a step of the last run takes than one of the first, timed in turns: clocks drift."""
    clear_memory()
    device = prepared[0].placement.device
    with own_stream(device):
        engines = [choose_engine("auto", "auto", one.placement, one.method) for one in prepared]
        runs = [Measured(one, engine) for one, engine in zip(prepared, engines, strict=True)]
        times = [[run.time(steps, 1)[0] for run in runs] for _ in range(rounds)]
    extra = [turn[-1] / turn[0] - 1 for turn in times]
    return {"median": statistics.median(extra), "by_round": extra}


if __name__ == "__main__":
    sys.exit(main(Speed))

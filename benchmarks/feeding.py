"""What feeding costs: training from images on the device and from streamed ones, against a network that is fed nothing.

The stores are of random bytes and of the size of real ones. A network's own speed is that of the same training step on
one batch that lies ready on the device: nothing is gathered, augmented or normalised.

python benchmarks/feeding.py --cases tiny-imagenet imagenet-lt --output results/data-speed.json
"""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from measuring import Keep, Record, Say, clear_memory, main, memory, new_record, table_of, wait
from procrustean.balance.types import Problem
from procrustean.base.table_formats import Table
from procrustean.data.imageset import ImageSet, StoredImages
from procrustean.data.recipes import Recipe, recipe_for
from procrustean.engine.device import Placement, own_stream, place
from procrustean.engine.engines import choose_engine
from procrustean.engine.image_stores import ImageStores, augmentation_of
from procrustean.engine.images import ImageStore, LabelledImages
from procrustean.engine.stage_training import StageRun
from procrustean.engine.streaming import StreamedImages
from procrustean.methods.make import make_method
from procrustean.nets.build import build_net


@dataclass(frozen=True)
class Case:
    """A network and images to feed it with."""

    net: str
    images: int  # of the store
    stored: int  # side of the stored images
    crop: int  # side of what the network sees
    classes: int
    batch_size: int
    augment: str
    padding: int = 0
    colour_jitter: float = 0.0

    @property
    def recipe(self) -> Recipe:
        return recipe_for("images").changed(
            {
                "net": self.net,
                "batch_size": self.batch_size,
                "augment": self.augment,
                "padding": self.padding,
                "crop": self.crop,
                "colour_jitter": self.colour_jitter,
                "mean": (0.485, 0.456, 0.406),
                "std": (0.229, 0.224, 0.225),
            }
        )


#: Sizes of Tiny-ImageNet, ImageNet-LT (with the paper's crops and with resized ones) and long-tailed CIFAR.
CASES = {
    "tiny-imagenet": Case("resnet18-s1", 100_000, 64, 64, 200, 128, "pad_crop_flip", padding=8),
    "imagenet-lt": Case("resnet50", 115_846, 256, 224, 1000, 128, "pad_crop_flip"),
    "imagenet-lt-resized": Case("resnet50", 115_846, 256, 224, 1000, 128, "random_resized_crop", colour_jitter=0.4),
    "cifar-strong": Case("resnet32", 12_406, 32, 32, 10, 128, "strong", padding=4),
}


class ReadyBatch(ImageStore):
    """One batch that lies on the device, normalised and in the network's format, whatever is asked for."""

    def __init__(self, images: ImageSet, recipe: Recipe, placement: Placement) -> None:
        mean, std = recipe.normalisation
        augmentation = augmentation_of(recipe, images)
        LabelledImages.__init__(self, images, device=placement.device, mean=mean, std=std, augmentation=augmentation)
        shape = (recipe.batch_size, images.images.shape[3], *augmentation.size)
        x = torch.randn(shape, dtype=placement.low_precision or torch.float32, device=placement.device)
        self.x = x.contiguous(memory_format=torch.channels_last)

    def augmented(self, index: Tensor, numbers: Mapping[str, Tensor]) -> Tensor:
        return self.x[: len(index)]


@dataclass(frozen=True)
class Feeding:
    """Measure what feeding images costs: resident and streamed stores against a network that is fed nothing."""

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

    def measure(self, say: Say, keep: Keep) -> Table:
        changes: dict[str, Any] = {
            name: value for name in ("net", "images", "batch_size") if (value := getattr(self, name)) is not None
        }
        result = bench_data(
            {name: replace(CASES[name], **changes) for name in self.cases},
            device=self.device,
            workers=self.workers,
            steps=self.steps,
            repeats=self.repeats,
            folder=self.folder,
            say=say,
            keep=keep,
        )
        rows = [
            (
                f"{name}, {case['net']} at {case['crop']}",
                str(row["variant"]),
                f"{row['images_per_second']:,.0f}",
                f"{100 * row['share']:.0f} %",
                f"{row['cores_busy']:.1f}",
            )
            for name, case in result["cases"].items()
            for row in case["rows"]
        ]
        names = ("case", "images", "images/s", "of the network's own speed", "cores busy")
        columns = {name: name not in ("case", "images") for name in names}
        return table_of(f"Training from stores on {result['environment']['machine']}", columns, rows)


def bench_data(
    cases: Mapping[str, Case],
    *,
    device: str = "auto",
    workers: Sequence[int] = (1, 2, 4, 8, 16),
    steps: int = 60,
    repeats: int = 3,
    folder: Path | None = None,
    say: Say = lambda text: None,
    keep: Keep = lambda result: None,
) -> Record:
    """Measure all cases; shares are of the network's own speed in the same call.

    Args:
        cases: by name.
        device: where to measure.
        workers: numbers of threads and processes that feed streamed images.
        steps: per timing.
        repeats: timings of each variant; their median counts.
        folder: where the files of the stores are written, and removed again; by default the system's for such files.
        say: called with one line of progress at a time.
        keep: handed the result after each measurement, so that nothing is lost when the call is cut short.
    """
    placement = place(device)
    result = new_record("training images per second, ERM, by where the images are; random pixels", placement.device)
    result["environment"]["precision"] = placement.precision
    result["cases"] = {}
    with TemporaryDirectory(dir=folder, prefix="procrustean-bench-") as made:
        for name, case in cases.items():
            rows: list[dict[str, Any]] = []
            result["cases"][name] = {**asdict(case), "rows": rows}
            images = synthetic_images(case, Path(made), say)
            variants: list[str | int] = ["ready", "resident", *workers]
            for variant in variants:
                if variant == "resident" and augmentation_of(case.recipe, images).on_host:
                    continue
                row = _measured(case, images, placement, variant, steps, repeats)
                own = rows[0]["images_per_second"] if rows else row["images_per_second"]
                row["share"] = row["images_per_second"] / own
                rows.append(row)
                keep(result)
                say(f"{name}, {row['variant']}: {row['images_per_second']:,.0f} images/s, {row['share']:.0%}")
    return result


def synthetic_images(case: Case, folder: Path, say: Say) -> ImageSet:
    """Random pixels in a file of the size of the real one; a file of the same size is used again."""
    shape = (case.images, case.stored, case.stored, 3)
    path = folder / f"{case.images}-{case.stored}.npy"
    if not path.exists():
        say(f"writing {np.prod(shape) / 1e9:.3g} GB of random pixels")
        file = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
        some = min(case.images, max(1, (256 << 20) // (case.stored**2 * 3)))
        block = np.random.default_rng(0).integers(0, 256, (some, *shape[1:]), dtype=np.uint8)
        for start in range(0, case.images, some):
            file[start : start + some] = block[: case.images - start]
        file.flush()
    pixels = np.load(path, mmap_mode="r")
    labels = np.arange(case.images, dtype=np.int64) % case.classes
    return ImageSet(StoredImages(pixels, "0" * 64), labels, tuple(f"class {i}" for i in range(case.classes)))


def _measured(
    case: Case, images: ImageSet, placement: Placement, variant: str | int, steps: int, repeats: int
) -> dict[str, Any]:
    clear_memory()
    with own_stream(placement.device):
        stage = _stage(case, _store(case, images, placement, variant), images, placement)
        try:
            times, busy = _times(stage, placement.device, steps, repeats)
        finally:
            stage.close()
    return {
        "variant": _named(variant),
        "workers": variant if isinstance(variant, int) else None,
        "cores_busy": busy,
        "ms_per_step": times,
        "images_per_second": 1e3 * case.batch_size / statistics.median(times),
        "memory_gib": memory(placement.device),
    }


def _named(variant: str | int) -> str:
    if isinstance(variant, int):
        return f"streamed, {variant} worker{'s' * (variant != 1)}"
    return "ready batch" if variant == "ready" else variant


def _store(case: Case, images: ImageSet, placement: Placement, variant: str | int) -> ImageStore | StreamedImages:
    if variant == "ready":
        return ReadyBatch(images, case.recipe, placement)
    streamed = isinstance(variant, int)
    how = "resident" if not streamed else "auto" if augmentation_of(case.recipe, images).on_host else "streamed"
    stores = ImageStores(case.recipe, placement, images=how, workers=int(variant) if streamed else None)
    return stores.training(images)


def _stage(case: Case, store: ImageStore | StreamedImages, images: ImageSet, placement: Placement) -> StageRun:
    counts = tuple(int(n) for n in images.counts)
    method = make_method("erm", Problem(counts=counts, kind="long_tailed"), {})
    net = build_net(case.net, channels=3, classes=case.classes, seed=0)
    return StageRun(
        method.stages[0],
        0,
        net=net.to(placement.device, memory_format=torch.channels_last),  # type: ignore[call-overload]
        train=images,
        images=store,
        recipe=case.recipe,
        epochs=100,
        seed=0,
        placement=placement,
        engine=choose_engine("auto", "auto", placement, method),
    )


def _times(stage: StageRun, device: torch.device, steps: int, repeats: int) -> tuple[list[float], float]:
    """Milliseconds per step, one value for each repeat, and how many cores were busy."""
    # What is read ahead while nothing is timed must be used up first.
    ahead = max([feed.slots for feed in stage.feeds.values()], default=1) + 1
    ahead = min(ahead, stage.planner.full_steps // 2)
    steps = min(steps, stage.planner.full_steps - ahead)
    times, seconds, busy = [], 0.0, 0.0
    for repeat in range(repeats):
        stage.begin_epoch(repeat)
        stage.advance(0, ahead)
        wait(device)
        began, worked = time.perf_counter(), _cpu_seconds()
        stage.advance(ahead, steps)
        wait(device)
        took = time.perf_counter() - began
        seconds, busy = seconds + took, busy + _cpu_seconds() - worked
        times.append(1e3 * took / steps)
    return times, busy / seconds


def _cpu_seconds() -> float:
    """Processor time of this process with its threads; that of worker processes is known only when they have ended."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(Feeding))

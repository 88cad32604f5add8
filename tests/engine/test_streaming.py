"""A run whose images are streamed is the run whose images are on the device, bit for bit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from procrustean.base import ConfigError
from procrustean.data import ImageSet, Splits, make_augmentation, recipe_for
from procrustean.data.augment.in_workers import augment_batch
from procrustean.data.imageset import StoredImages
from procrustean.data.recipes import Recipe
from procrustean.engine import image_stores as stores
from procrustean.engine.device import place
from procrustean.engine.image_stores import ImageStores
from procrustean.engine.images import ImageStore
from procrustean.engine.streaming import StreamedImages
from procrustean.runs import fit, preparing
from procrustean.runs import train_api as api
from procrustean.runs.train_api import resume

SETTINGS: dict[str, Any] = {"net": "small", "epochs": 2, "batch_size": 16, "device": "cpu", "precision": "fp32"}
CPU = torch.device("cpu")


def coloured(counts: tuple[int, ...], seed: int, side: int = 12) -> ImageSet:
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    images = random.integers(0, 160, (len(labels), side, side, 3), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 3 * label : 3 * label + 3, label] += 90
    return ImageSet(images, labels, tuple("abc"[: len(counts)]))


@pytest.fixture(scope="module")
def colours() -> Splits:
    return Splits("colours", coloured((30, 20, 7), 0), coloured((6, 6, 6), 1))


@pytest.fixture
def from_file(colours: Splits, tmp_path: Path) -> Splits:
    """The same images in files."""

    def moved(images: ImageSet, name: str) -> ImageSet:
        np.save(tmp_path / f"{name}.npy", images.images)
        pixels = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
        return ImageSet(StoredImages(pixels, "0" * 64), images.labels, images.classes)

    return Splits("colours", moved(colours.train, "train"), moved(colours.test, "test"))


@pytest.fixture
def augmented(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`augmented(augment=..., crop=...)` changes the recipe of unknown images."""

    def change(**changes: Any) -> None:
        def resolved(*arguments: Any) -> Recipe:
            padding = 2 if changes.get("augment", "strong") in ("pad_crop_flip", "strong") else 0
            return before(*arguments).changed({"padding": padding, **changes})

        monkeypatch.setattr(preparing, "_resolved", resolved)

    before = preparing._resolved
    return change


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"crop": 8, "padding": 0, "evaluation_crop": 10},
        {"augment": "random_resized_crop", "crop": 8, "evaluation_crop": 8, "colour_jitter": 0.4},
        {"augment": "flip", "crop": 16, "evaluation_crop": 16},
    ],
    ids=["pad_crop_flip", "window", "random_resized_crop", "enlarged"],
)
@pytest.mark.parametrize("method", ["mfw", "bbn"])
def test_streamed_and_resident_runs_are_equal(
    changes: dict[str, Any],
    method: str,
    colours: Splits,
    from_file: Splits,
    augmented: Callable[..., None],
    tmp_path: Path,
) -> None:
    augmented(**changes)
    runs = [
        fit(splits, method=method, hold_out=1, **SETTINGS, **how, run_dir=tmp_path / f"{number}")
        for number, (splits, how) in enumerate(
            [
                (colours, {"images": "resident"}),
                (colours, {"images": "streamed", "workers": 1}),
                (from_file, {"images": "streamed", "workers": 3}),
            ]
        )
    ]
    files = [(run.path / "model.safetensors").read_bytes() for run in runs]
    assert files[0] == files[1] == files[2]
    assert runs[0].metrics == runs[1].metrics == runs[2].metrics
    assert runs[0].record.curves == runs[2].record.curves
    where = [run.record.environment.images["train"] for run in runs]
    assert where[0].startswith("resident")
    assert where[2].startswith("streamed")
    assert "3 workers" in where[2]


def test_a_meta_set_is_streamed_too(colours: Splits, tmp_path: Path) -> None:
    runs = [
        fit(colours, method="meta_weight", **SETTINGS, hold_out=0, images=how, run_dir=tmp_path / how)
        for how in ("resident", "streamed")
    ]
    assert runs[0].metrics == runs[1].metrics
    assert set(runs[1].record.environment.images) == {"train", "test", "meta"}


@pytest.mark.parametrize(
    ("augment", "after"), [("pad_crop_flip", 2), ("pad_crop_flip", 5), ("pad_crop_flip", 7), ("strong", 5)]
)
def test_an_interrupted_streamed_run_goes_on_exactly(
    augment: str,
    after: int,
    from_file: Splits,
    augmented: Callable[..., None],
    stop_after: Callable[[int], None],
    same_run: Callable[[Path, Path], None],
    tmp_path: Path,
) -> None:
    augmented(augment=augment)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    how = {
        **SETTINGS,
        "method": "mfw",
        "images": "auto" if augment == "strong" else "streamed",
        "workers": 2,
        "hold_out": 0,
    }
    fit(from_file, **how, run_dir=whole)
    stop_after(after)
    with pytest.raises(api.Stopped):
        fit(from_file, **how, run_dir=parts)
    stop_after(0)
    resume(parts, splits=from_file)
    same_run(whole, parts)


def test_nothing_is_left_running(from_file: Splits, tmp_path: Path) -> None:
    before = threading.active_count()
    fit(from_file, method="erm", **SETTINGS, images="streamed", workers=3, run_dir=tmp_path / "run")
    for thread in threading.enumerate():
        if thread.name.startswith("procrustean-feed"):
            thread.join(2)
    assert threading.active_count() == before


def test_strong_batches_are_those_of_the_workers(colours: Splits) -> None:
    spec = make_augmentation("strong", stored=(12, 12), channels=3, padding=2)
    streamed = StreamedImages(
        colours.train, device=CPU, mean=(0.0,) * 3, std=(1 / 255,) * 3, augmentation=spec, threads=2
    )
    from procrustean.data import EpochPlanner

    plan = EpochPlanner(colours.train.labels, 16, spec).draw(0, 0, 0)
    feed = streamed.feed(16)
    feed.begin(plan, "", step=2)
    try:
        for start, stop in ((32, 48), (48, 57)):
            feed.advance()
            index = plan["index"][start:stop]
            numbers = {name: values[start:stop] for name, values in plan.items()}
            tensors = {name: torch.from_numpy(numbers[name]) for name in ("hole",)}
            found = feed.augmented(torch.from_numpy(index), tensors)
            wanted = augment_batch((spec, np.asarray(colours.train.images)[index], numbers)).transpose(0, 3, 1, 2)
            hole = found == 0
            assert hole.any()
            torch.testing.assert_close(found[~hole], torch.from_numpy(wanted).float()[~hole])
    finally:
        feed.close()


def made(recipe: Recipe, **settings: Any) -> ImageStores:
    return ImageStores(recipe, place("cpu", "fp32"), **settings)


def test_images_are_resident_while_there_is_room(colours: Splits, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = recipe_for("colours").changed({"mean": (0.5,) * 3, "std": (0.2,) * 3, "padding": 2})
    needed = 57 * 16 * 16 * 3
    for free, kind in ((needed / 0.7 + 2, ImageStore), (needed / 0.7 - 2, StreamedImages)):
        monkeypatch.setattr(stores, "free_bytes", lambda device, free=free: free)
        some = made(recipe)
        assert isinstance(some.training(colours.train), kind)
        assert isinstance(some.evaluation(colours.test), ImageStore)
        assert "70% of the free memory" in some.where["train"]
    assert isinstance(made(recipe, images="streamed").training(colours.train), StreamedImages)


def test_strong_augmentation_is_always_streamed(colours: Splits) -> None:
    recipe = recipe_for("colours").changed({"mean": (0.5,) * 3, "std": (0.2,) * 3, "augment": "strong"})
    some = made(recipe)
    assert isinstance(some.training(colours.train), StreamedImages)
    assert isinstance(some.evaluation(colours.test), ImageStore)
    assert "image by image on the host" in some.where["train"]
    with pytest.raises(ConfigError, match="'resident' received, but augment 'strong'"):
        made(recipe, images="resident").training(colours.train)


def test_evaluation_sees_the_middle(colours: Splits) -> None:
    recipe = recipe_for("colours").changed(
        {
            "mean": (0.0,) * 3,
            "std": (1 / 255,) * 3,
            "padding": 0,
            "augment": "random_resized_crop",
            "crop": 6,
            "evaluation_crop": 8,
            "colour_jitter": 0.4,
        }
    )
    for how in ("resident", "streamed"):
        store = made(recipe, images=how).evaluation(colours.test)
        batches = list(store.clean_batches(7))
        assert [len(x) for x, _ in batches] == [7, 7, 4]
        x = torch.cat([x for x, _ in batches])
        wanted = np.asarray(colours.test.images)[:, 2:10, 2:10].transpose(0, 3, 1, 2)
        torch.testing.assert_close(x, torch.from_numpy(wanted).float())
        torch.testing.assert_close(store.clean_at(torch.tensor([9, 0, 9])), x[[9, 0, 9]])
        assert torch.cat([y for _, y in batches]).tolist() == colours.test.labels.tolist()
        assert x.is_contiguous(memory_format=torch.channels_last)


def test_a_crop_larger_than_the_images_is_refused_before_training(
    colours: Splits, augmented: Callable[..., None], tmp_path: Path
) -> None:
    augmented(crop=16)
    with pytest.raises(ConfigError, match="windows of 16 x 16 pixels, but the images are 12 x 12"):
        fit(colours, method="erm", **SETTINGS, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.gpu
@pytest.mark.parametrize("augment", ["pad_crop_flip", "random_resized_crop"])
def test_batches_on_a_busy_gpu_are_those_of_the_resident_store(augment: str, from_file: Splits) -> None:
    from procrustean.data import EpochPlanner

    device = torch.device("cuda")
    padding = 2 if augment == "pad_crop_flip" else 0
    spec = make_augmentation(augment, stored=(12, 12), channels=3, crop=10, padding=padding)
    settings: dict[str, Any] = {"device": device, "mean": (0.5,) * 3, "std": (0.2,) * 3, "augmentation": spec}
    resident = ImageStore(from_file.train, **settings)
    feed = StreamedImages(from_file.train, **settings, threads=3).feed(4)
    planner = EpochPlanner(from_file.train.labels, 4, spec)
    try:
        for epoch in range(3):
            plan = planner.draw(0, 0, epoch)
            tensors = {name: torch.from_numpy(values).to(device) for name, values in plan.items()}
            feed.begin(plan, "", step=0)
            found, wanted = [], []
            for step in range(planner.steps):
                feed.advance()
                torch.cuda._sleep(2_000_000)  # the host runs ahead of the device
                row = {name: values[4 * step : 4 * step + 4] for name, values in tensors.items()}
                found.append(feed.augmented(row["index"], row))
                wanted.append(resident.augmented(row["index"], row))
            assert torch.equal(torch.cat(found), torch.cat(wanted))
    finally:
        feed.close()


@pytest.mark.gpu
def test_tests_of_streamed_images_on_a_busy_gpu(from_file: Splits) -> None:
    settings: dict[str, Any] = {"device": torch.device("cuda"), "mean": (0.5,) * 3, "std": (0.2,) * 3}
    resident, streamed = ImageStore(from_file.train, **settings), StreamedImages(from_file.train, **settings, threads=2)
    found = []
    for x, _ in streamed.clean_batches(4):
        torch.cuda._sleep(2_000_000)
        found.append(x)
    assert torch.equal(torch.cat(found), resident.clean_at(slice(0, 57)))


@pytest.mark.gpu
def test_two_passes_on_a_busy_gpu_do_not_write_into_each_other(from_file: Splits) -> None:
    settings: dict[str, Any] = {"device": torch.device("cuda"), "mean": (0.5,) * 3, "std": (0.2,) * 3}
    resident, streamed = ImageStore(from_file.train, **settings), StreamedImages(from_file.train, **settings, threads=2)
    backwards = StreamedImages(from_file.train.subset(np.arange(57)[::-1]), **settings, threads=2)
    torch.cuda._sleep(200_000_000)  # all that follows is queued before any of it has run
    forth = [x for x, _ in streamed.clean_batches(4)]
    back = [x for x, _ in backwards.clean_batches(4)]
    assert torch.equal(torch.cat(forth), resident.clean_at(slice(0, 57)))
    assert torch.equal(torch.cat(back), resident.clean_at(slice(0, 57)).flip(0))


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["eager", "captured"])
@pytest.mark.parametrize("augment", ["pad_crop_flip", "random_resized_crop", "strong"])
def test_streamed_runs_on_a_gpu_learn_the_same(
    augment: str, engine: str, from_file: Splits, augmented: Callable[..., None], tmp_path: Path
) -> None:
    augmented(augment=augment)
    settings: dict[str, Any] = {**SETTINGS, "device": "cuda", "method": "mfw"}
    reference = "streamed" if augment != "strong" else "auto"
    on_gpu = fit(from_file, **settings, engine=engine, images=reference, workers=3, run_dir=tmp_path / "gpu")
    on_cpu = fit(from_file, **{**settings, "device": "cpu"}, run_dir=tmp_path / "cpu")
    losses = [run.record.curves.loss for run in (on_gpu, on_cpu)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=2e-3)
    assert on_gpu.record.environment.images["train"].startswith("streamed")

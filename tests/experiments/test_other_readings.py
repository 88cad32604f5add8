"""The readings that are no options: each changes what it says, and nothing but that."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from procrustean.balance.weights import DeferredWeights
from procrustean.data import EpochPlanner
from procrustean.data.augment.settings import Augmentation

from .scripts import script


@pytest.fixture(scope="module")
def readings() -> ModuleType:
    return script("other_readings")


def test_everything_that_is_replaced_exists(readings: ModuleType) -> None:
    for place, change in readings.CHANGES.values():
        module, name = place.rsplit(".", 1)
        assert getattr(importlib.import_module(module), name) is not change


def test_first_images_are_taken_in_the_order_of_the_files(readings: ModuleType) -> None:
    assert readings.first_images([1, 0, 1, 0, 0, 1], [2, 1]).tolist() == [1, 3, 0]


def test_reweighting_sets_in_after_160_of_300_epochs(readings: ModuleType) -> None:
    weights = readings.CHANGES["drw-from-160"][1]([5000, 50], True)
    assert isinstance(weights, DeferredWeights)
    assert weights.start * 300 == pytest.approx(160)


def test_an_epoch_without_its_last_batch_leaves_other_images_out_each_time(readings: ModuleType) -> None:
    augmentation = Augmentation((32, 32), (32, 32), (32, 32), padding=4, window=True, flip=True)
    whole = EpochPlanner(np.zeros(21, np.int64), 8, augmentation)
    planner = readings.NoLastBatch(np.zeros(21, np.int64), 8, augmentation)
    assert (planner.images, planner.steps) == (16, 2)
    shown = [planner.draw(0, 0, epoch)["index"] for epoch in range(2)]
    for epoch, index in enumerate(shown):
        assert index.tolist() == whole.draw(0, 0, epoch)["index"][:16].tolist()
    assert set(shown[0]) != set(shown[1])
    assert all(len(values) == 16 for values in planner.draw(0, 0, 0).values())


def test_a_reading_is_trained_once(readings: ModuleType, tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = []

    def fit(source: str, *, run_dir: Path, **settings: Any) -> None:
        calls.append({"source": source, **settings})
        run_dir.mkdir(parents=True)
        (run_dir / "result.json").write_text("{}")

    asked = readings.OtherReadings(output=tmp_path)
    with patch.object(readings, "fit", fit):
        assert readings.main(asked) == readings.main(asked) == 0
    assert [call["source"] for call in calls] == ["cifar10"] * 3
    assert [call.get("kernels") for call in calls] == [None, None, "off"]


def test_a_reading_that_was_stopped_goes_on_as_it_began(readings: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "drw-from-160").mkdir()
    (tmp_path / "drw-from-160/config.json").write_text("{}")
    changed: list[bool] = []

    def resume(run: Path, **settings: Any) -> None:
        place, change = readings.CHANGES["drw-from-160"]
        module, name = place.rsplit(".", 1)
        changed.append(getattr(importlib.import_module(module), name) is change)

    with patch.object(readings, "resume", resume):
        readings.main(readings.OtherReadings(("drw-from-160",), output=tmp_path))
    assert changed == [True]

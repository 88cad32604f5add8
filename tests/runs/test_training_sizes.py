from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.data import load_source
from procrustean.data.sources import label_counts
from procrustean.records import RunSpec
from procrustean.runs.cost import predicted_cost
from procrustean.runs.preparing import prepare
from procrustean.runs.training_sizes import trained_images, training_images


def saved(path: Path, counts: tuple[int, ...], **more: Any) -> Path:
    labels = np.repeat(np.arange(len(counts)), counts)
    images = np.random.RandomState(0).randint(0, 255, (len(labels), 8, 8)).astype(np.uint8)
    np.savez(path, train_images=images, train_labels=labels, classes=np.array(list("abc")), **more)
    return path


def test_by_the_labels_of_a_file_alone(tmp_path: Path) -> None:
    path = saved(tmp_path / "own.npz", (40, 10, 4))
    # A fifth of each class becomes the test set, as it does when the images are loaded.
    assert label_counts(str(path)) == {"a": 32, "b": 8, "c": 3}
    assert load_source(path).train.counts.tolist() == [32, 8, 3]
    test = {"test_images": np.zeros((3, 8, 8), np.uint8), "test_labels": np.arange(3)}
    saved(path, (40, 10, 4), **test)
    os.utime(path, ns=(0, 0))  # another file in its place, whatever the resolution of the clock
    assert label_counts(str(path)) == {"a": 40, "b": 10, "c": 4}


def test_what_cannot_be_told_without_loading_is_unknown(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(b"no arrays")
    for source in (str(damaged), str(tmp_path / "nowhere.npz"), "cifar10"):
        assert label_counts(source) is None
    config = RunSpec(str(damaged), method="erm", recipe="images", epochs=3)
    assert trained_images(config) is None
    assert predicted_cost(config) > 0


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"classes": ("a", "b")},
        {"hold_out": 2},
        {"hold_out": 0.25},
        {"imbalance": "step", "rho": 2},
        {"imbalance": "long_tailed", "rho": 2, "hold_out": 1, "hold_out_from": "source"},
    ],
)
def test_as_many_as_a_run_trains_on(settings: dict[str, Any], tmp_path: Path) -> None:
    path = saved(tmp_path / "own.npz", (40, 20, 10))
    config = replace(RunSpec(str(path), method="erm", recipe="images", device="cpu", net="small"), **settings)
    assert training_images(config) == len(prepare(config).data.train)

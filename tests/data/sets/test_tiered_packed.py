"""The few-shot files of Tiered-ImageNet, of both publishers."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.base import DataError
from procrustean.data.sets.prepared_files import prepared_set
from procrustean.data.stores.prepare import plan, prepare

COUNTS = {"train": (3, 5), "val": (4,), "test": (2, 2)}
TIERED = replace(prepared_set("tiered-imagenet"), groups={split: sum(counts) for split, counts in COUNTS.items()})


@pytest.mark.parametrize("form", ["npz", "png"])
def test_pixels_and_labels_come_through(form: str, few_shot_files: Callable[..., Any], tmp_path: Path) -> None:
    source, pixels = few_shot_files(form, COUNTS)
    plans = plan(TIERED, source, root=tmp_path, workers=1)
    assert plans.problems == {}
    store = prepare(plans)
    for split, counts in COUNTS.items():
        found = store.split(split)
        assert np.array_equal(found.images[:], pixels[split])
        assert found.counts[found.counts > 0].tolist() == list(counts)
    ours = {"npz": "train: 1", "png": "train: train name 1"}[form]
    assert store.classes[1] == ours
    assert len(store.classes) == 5


def test_they_can_be_stored_at_another_size(few_shot_files: Callable[..., Any], tmp_path: Path) -> None:
    source, _ = few_shot_files("npz", COUNTS)
    store = prepare(plan(TIERED, source, root=tmp_path, workers=1, size=32))
    assert store.images.shape == (16, 32, 32, 3)


def test_incomplete_and_strange_files_are_refused(few_shot_files: Callable[..., Any], tmp_path: Path) -> None:
    source, pixels = few_shot_files("npz", COUNTS)

    def refused(message: str) -> None:
        with pytest.raises(DataError, match=message):
            plan(TIERED, source, root=tmp_path)

    labels = (source / "val_labels.pkl").read_bytes()
    (source / "val_labels.pkl").unlink()
    refused("val_labels.pkl missing; all three groups")
    (source / "val_labels.pkl").write_bytes(pickle.dumps({"labels": [0] * 3}))
    refused("4 images but 3 labels of val")
    (source / "val_labels.pkl").write_bytes(pickle.dumps({"names": []}))
    refused("no label_specific or labels in it")
    (source / "val_labels.pkl").write_bytes(pickle.dumps({"labels": ["x"] * 4}))
    refused("labels must be a list of whole numbers")
    (source / "val_labels.pkl").write_bytes(b"not a pickle")
    refused("val_labels.pkl: not a readable pickle")
    (source / "val_labels.pkl").write_bytes(labels)
    np.savez(source / "val_images.npz", images=pixels["val"].astype(np.float32))
    refused("images must be uint8")
    np.savez(source / "val_images.npz", pictures=pixels["val"])
    refused("no readable array `images`")
    (source / "val_images.npz").unlink()
    refused("neither val_images.npz nor val_images_png.pkl")


def test_no_pickle_runs_code(few_shot_files: Callable[..., Any], tmp_path: Path) -> None:
    source, _ = few_shot_files("png", COUNTS)
    harmful = b"cposix\nsystem\n(S'touch " + str(tmp_path / "proof").encode() + b"'\ntR."
    (source / "train_images_png.pkl").write_bytes(harmful)
    with pytest.raises(DataError, match=r"asks for posix\.system, which could run code"):
        plan(TIERED, source, root=tmp_path)
    assert not (tmp_path / "proof").exists()

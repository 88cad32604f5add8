"""A model is shown images as the tests of its run were: their middle, or all of them, enlarged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from procrustean.data import make_augmentation
from procrustean.data.augment.on_device import DeviceAugmentation
from procrustean.deploy.export_formats import Format, write
from procrustean.deploy.model import Model, ModelSpec, Preparation, network_of
from procrustean.deploy.model_card import _preparation
from small_spec import small_spec


def spec(height: int, width: int, crop: int | None) -> ModelSpec:
    statistics = {"mean": (0.5, 0.4, 0.3), "std": (0.25, 0.2, 0.3)}
    return small_spec(height, width, crop=crop, evaluation_crop=crop, **statistics)


@pytest.mark.parametrize("of", [spec(9, 12, None), spec(15, 17, 8), spec(11, 13, 8), spec(6, 7, 8), spec(6, 20, 8)])
def test_it_is_what_the_tests_of_a_run_show(of: ModelSpec) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, *of.image_shape), np.uint8)
    none = make_augmentation("none", stored=of.image_shape[:2], channels=3, evaluation_crop=of.evaluation_crop)
    tested = DeviceAugmentation(none, torch.device("cpu")).middle(torch.from_numpy(pixels), padding=0) / 255
    mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (of.mean, of.std))
    found = Preparation(of)(torch.from_numpy(of.shown(pixels)))
    assert torch.allclose(found, (tested - mean) / std, atol=1e-5)


@pytest.mark.parametrize("form", ["safetensors", "torch", "onnx"])
def test_images_that_are_enlarged_are_exported(form: Format, tmp_path: Path) -> None:
    if form == "onnx":
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
    of = spec(6, 7, 8)
    assert write(form, Model(of, network_of(of).state_dict()), None, tmp_path) < 1e-5
    assert "resized to 7 x 6 pixels, which are enlarged to 8 x 8. Pixels" in _preparation(of, form)

"""The description of a small model of two classes, for tests of what is made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from procrustean.deploy.model_spec import ModelSpec
from procrustean.engine.probabilities import uncalibrated


def small_spec(height: int, width: int, channels: int = 3, **changes: Any) -> ModelSpec:
    """That of a model for images of this size, with some of its fields changed."""
    spec = ModelSpec(
        label="ERM",
        net="small",
        method="erm",
        options={},
        seed=0,
        classes=("cat", "dog"),
        image_shape=(height, width, channels),
        crop=None,
        evaluation_crop=None,
        mean=(0.5,) * channels,
        std=(0.25,) * channels,
        kind="step",
        calibration=uncalibrated((9, 3)),
    )
    return replace(spec, **changes)

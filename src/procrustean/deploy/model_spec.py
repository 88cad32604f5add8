"""What is needed beside the weights to use a trained network; all of it fits into a JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np

from procrustean.balance.count_facts import Kind
from procrustean.base.errors import DataError
from procrustean.base.json_files import is_number, is_whole
from procrustean.data.augment.settings import is_smaller, middle_of
from procrustean.data.imageset import Images
from procrustean.engine.probabilities import Calibration

#: Sides of images beyond it are a mistake or meant to exhaust the memory.
MOST_PIXELS = 1 << 14


@dataclass(frozen=True)
class ModelSpec:
    """Architecture, classes, preparation of images, calibration."""

    label: str  # of the method in tables
    net: str
    method: str
    options: dict[str, Any]
    seed: int
    classes: tuple[str, ...]
    image_shape: tuple[int, int, int]  # height, width, channels of the images it was trained on
    crop: int | None  # side of what the network is shown of them in training
    evaluation_crop: int | None  # side of the middle part that it is tested on
    mean: tuple[float, ...]
    std: tuple[float, ...]
    kind: Kind  # of imbalance
    calibration: Calibration
    source: str = ""  # the data set, if it is a known one: defaults of a method may depend on it

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the pixels that become what the network is shown."""
        height, width, channels = self.image_shape
        side = self.evaluation_crop
        return (height, width, channels) if side is None or self.enlarged is not None else (side, side, channels)

    @property
    def enlarged(self) -> tuple[int, int] | None:
        """Height and width to which whole images are brought that are smaller than what it was tested on."""
        side = self.evaluation_crop
        return (side, side) if side is not None and is_smaller(self.image_shape[:2], (side, side)) else None

    def shown(self, pixels: Images) -> Images:
        """Checked images, the middle part where the network was tested on it; uint8 [N, *input_shape]."""
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1:] != self.image_shape:
            raise DataError(
                f"{pixels.dtype} images of shape {pixels.shape} received; this model takes uint8 "
                f"[N, {', '.join(map(str, self.image_shape))}] (height, width, channels)"
            )
        height, width = self.input_shape[:2]
        top, left = middle_of(self.image_shape[:2], (height, width))
        return pixels[:, top : top + height, left : left + width]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "calibration": self.calibration.to_json()}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> ModelSpec:
        tuples = ("classes", "image_shape", "mean", "std")
        made: dict[str, Any] = {name: tuple(value) if name in tuples else value for name, value in record.items()}
        made["calibration"] = Calibration.from_json(record["calibration"])
        return cls(**made).checked()

    def checked(self) -> ModelSpec:
        """Itself, or a ValueError naming what cannot be."""
        channels, calibration = self.image_shape[-1:], self.calibration
        sides = (*self.image_shape, *(side for side in (self.crop, self.evaluation_crop) if side is not None))
        texts = (self.label, self.net, self.method, self.source, *self.classes)
        rules = {
            "texts": all(isinstance(text, str) for text in texts),
            "classes": len(set(self.classes)) == len(self.classes) >= 2,
            "kind": self.kind in get_args(Kind),
            "options": isinstance(self.options, dict),
            "seed": is_whole(self.seed),
            "image_shape": len(self.image_shape) == 3,
            "sizes": all(is_whole(n) and 0 < n <= MOST_PIXELS for n in sides),
            "mean": (len(self.mean),) == channels and all(map(is_number, self.mean)),
            "std": (len(self.std),) == channels and all(is_number(value) and value > 0 for value in self.std),
            "counts": len(calibration.counts) == len(self.classes)
            and all(is_whole(n) and n > 0 for n in calibration.counts),
            "held_out": len(calibration.held_out) in (0, len(self.classes))
            and all(is_whole(n) and n >= 0 for n in calibration.held_out),
            "calibration": is_number(calibration.scale)
            and calibration.scale > 0
            and is_number(calibration.tau)
            and (calibration.tau_error is None or is_number(calibration.tau_error)),
        }
        wrong = [name for name, right in rules.items() if not right]
        if wrong:
            raise ValueError(f"a model with impossible {', '.join(wrong)}")
        return self

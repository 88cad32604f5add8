"""A trained network that turns images into calibrated probabilities, and what describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from msgspec import Meta
from torch import Tensor, nn

from procrustean.balance.count_facts import Kind
from procrustean.balance.types import Problem
from procrustean.base.errors import DataError
from procrustean.data.augment.on_device import enlarging
from procrustean.data.augment.settings import is_smaller, middle_of
from procrustean.data.imageset import Images
from procrustean.data.recipe import Tune
from procrustean.engine.probabilities import Calibration, Prior, Scores
from procrustean.engine.stage_order import reshape_for
from procrustean.methods.make import make_method
from procrustean.methods.method import Method
from procrustean.nets.build import build_net, layers_of
from procrustean.nets.classifier import Backbone, Classifier, FeatureLayers
from procrustean.runs.torch_settings import undisturbed

#: Sides of images beyond it are a mistake or meant to exhaust the memory.
MOST_PIXELS = 1 << 14
Side = Annotated[int, Meta(gt=0, le=MOST_PIXELS)]


@dataclass(frozen=True)
class ModelSpec:
    """Architecture, classes, preparation of images, calibration."""

    label: str  # of the method in tables
    net: str
    method: str
    options: dict[str, Any]
    seed: int
    classes: tuple[str, ...]
    image_shape: tuple[Side, Side, Side]  # height, width, channels of the images it was trained on
    crop: Side | None  # side of what the network is shown of them in training
    evaluation_crop: Side | None  # side of the middle part that it is tested on
    mean: tuple[float, ...]
    std: tuple[float, ...]
    kind: Kind  # of imbalance
    calibration: Calibration
    source: str = ""  # the data set, if it is a known one: defaults of a method may depend on it
    tune: Tune = "all"  # what of the network learnt

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

    def __post_init__(self) -> None:
        channels, calibration = self.image_shape[-1:], self.calibration
        rules = {
            "classes": len(set(self.classes)) == len(self.classes) >= 2,
            "mean": (len(self.mean),) == channels,
            "std": (len(self.std),) == channels and min(self.std) > 0,
            "counts": len(calibration.counts) == len(self.classes) and min(calibration.counts) > 0,
            "held_out": len(calibration.held_out) in (0, len(self.classes)),
            "calibration": calibration.scale > 0,
        }
        wrong = [name for name, right in rules.items() if not right]
        if wrong:
            raise ValueError(f"a model with impossible {', '.join(wrong)}")


class Preparation(nn.Module):
    """uint8 pixels [N, H, W, channels] to normalised images [N, channels, h, w], enlarged where the test enlarged them.

    Args:
        spec: of the model.
    """

    pixel_mean: Tensor
    pixel_std: Tensor
    pixel_rows: Tensor
    pixel_columns: Tensor

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        # Names that no operation has: the ONNX exporter calls what it computes ahead by its operation, "mean" or "std".
        self.register_buffer("pixel_mean", torch.tensor(spec.mean).view(-1, 1, 1))
        self.register_buffer("pixel_std", torch.tensor(spec.std).view(-1, 1, 1))
        self.enlarges = spec.enlarged is not None
        if spec.enlarged is not None:
            rows, columns = enlarging(spec.image_shape[:2], spec.enlarged)
            self.register_buffer("pixel_rows", rows)
            self.register_buffer("pixel_columns", columns)

    def forward(self, pixels: Tensor) -> Tensor:
        x = pixels.permute(0, 3, 1, 2).float() / 255
        if self.enlarges:
            x = self.pixel_rows @ (x @ self.pixel_columns)
        return (x - self.pixel_mean) / self.pixel_std


class Model:
    """A network with its classes, preparation of images and calibration.

    Args:
        spec: what it is.
        weights: its state dict.
        device: where it computes.
        prior: class frequencies that its probabilities are for unless others are given, [C]; None for those that its
            scores stand for.
    """

    @undisturbed()
    def __init__(
        self,
        spec: ModelSpec,
        weights: Mapping[str, Tensor],
        device: torch.device | str = "cpu",
        prior: Prior | None = None,
    ) -> None:
        self.spec, self.prior = spec, prior
        self.net = network_of(spec)
        self.net.load_state_dict(dict(weights))
        self.net.to(device).eval()
        self.preparation = Preparation(spec).to(device)
        self.device = torch.device(device)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.spec.classes

    @undisturbed()
    @torch.no_grad()
    def scores(self, pixels: Images, batch_size: int = 256) -> Scores:
        """What the network says, [N, C], in float32 arithmetic."""
        shown = self.spec.shown(pixels)
        parts = [
            self.net(self._prepared(shown[start : start + batch_size])).double().cpu().numpy()
            for start in range(0, len(shown), batch_size)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.classes)))

    def probabilities(self, pixels: Images, prior: Prior | None = None, batch_size: int = 256) -> Scores:
        """p(class | image), [N, C].

        Args:
            pixels: uint8 [N, H, W, channels] of the size it was trained on.
            prior: class frequencies where the images come from, [C]; default the model's, and if it has none, the
                classes stay as the network ranks them.
            batch_size: images at a time.
        """
        scores = self.scores(pixels, batch_size)
        return np.asarray(np.exp(self.spec.calibration.log_probabilities(scores, self._used(prior))))

    def frequencies(self, prior: Prior | None = None) -> Prior:
        """The class frequencies that `probabilities` with this prior are for, [C]."""
        return self.spec.calibration.frequencies(self._used(prior))

    def _used(self, prior: Prior | None) -> Prior | None:
        return self.prior if prior is None else prior

    def _prepared(self, pixels: Images) -> Tensor:
        prepared: Tensor = self.preparation(torch.from_numpy(np.ascontiguousarray(pixels)).to(self.device))
        return prepared

    def __getstate__(self) -> dict[str, Any]:
        # Networks of other libraries hold functions, which cannot be pickled; the spec rebuilds them.
        state = {name: value.cpu().numpy() for name, value in self.net.state_dict().items()}
        return {"spec": self.spec, "weights": state, "prior": self.prior}

    def __setstate__(self, state: dict[str, Any]) -> None:
        weights = {name: torch.from_numpy(value) for name, value in state["weights"].items()}
        self.__init__(state["spec"], weights, prior=state["prior"])  # type: ignore[misc]


def method_of(spec: ModelSpec) -> Method:
    """The method that a network was trained with, which decides about its head."""
    height, width, channels = spec.image_shape
    layers: Backbone | FeatureLayers = FeatureLayers()
    if spec.tune != "head":
        layers = layers_of(spec.net, channels=channels, classes=len(spec.classes), size=(height, width))
    problem = Problem.on(layers, spec.calibration.counts, spec.kind, spec.source)
    return make_method(spec.method, problem, spec.options)


def network_of(spec: ModelSpec) -> Classifier:
    """The network that a spec describes, with initial weights; no images are needed for it."""
    method = method_of(spec)
    height, width, channels = spec.image_shape
    size = (height, width) if spec.crop is None else (spec.crop, spec.crop)
    net = build_net(
        spec.net, channels=channels, classes=len(spec.classes), seed=spec.seed, head=method.head, size=size,
        tune=spec.tune,
    )  # fmt: skip
    for number in range(len(method.stages)):
        reshape_for(net, method, number, spec.seed)
    return net

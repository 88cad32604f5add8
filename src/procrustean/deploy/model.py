"""A trained network that turns images into calibrated probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from procrustean.balance.types import Problem
from procrustean.data.imageset import Images
from procrustean.deploy.model_spec import ModelSpec
from procrustean.deploy.preparation import Preparation
from procrustean.engine.probabilities import Prior, Scores
from procrustean.engine.stage_order import reshape_for
from procrustean.methods.base import Method
from procrustean.methods.make import make_method
from procrustean.nets.build import build_net, layers_of
from procrustean.nets.classifier import Classifier
from procrustean.runs.torch_settings import undisturbed


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
        return {"spec": self.spec.to_json(), "weights": state, "prior": self.prior}

    def __setstate__(self, state: dict[str, Any]) -> None:
        weights = {name: torch.from_numpy(value) for name, value in state["weights"].items()}
        self.__init__(ModelSpec.from_json(state["spec"]), weights, prior=state["prior"])  # type: ignore[misc]


def method_of(spec: ModelSpec) -> Method:
    """The method that a network was trained with, which decides about its head."""
    height, width, channels = spec.image_shape
    layers = layers_of(spec.net, channels=channels, classes=len(spec.classes), size=(height, width))
    problem = Problem.on(layers, spec.calibration.counts, spec.kind, spec.source)
    return make_method(spec.method, problem, spec.options)


def network_of(spec: ModelSpec) -> Classifier:
    """The network that a spec describes, with initial weights; no images are needed for it."""
    method = method_of(spec)
    height, width, channels = spec.image_shape
    size = (height, width) if spec.crop is None else (spec.crop, spec.crop)
    net = build_net(spec.net, channels=channels, classes=len(spec.classes), seed=spec.seed, head=method.head, size=size)
    for number in range(len(method.stages)):
        reshape_for(net, method, number, spec.seed)
    return net

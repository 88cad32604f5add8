"""The whole way from pixels to probabilities as one module, which needs nothing of this library once it is exported."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from procrustean.deploy.model import Model
from procrustean.engine.probabilities import Prior


class Deployable(nn.Module):
    """uint8 pixels [N, H, W, channels] to probabilities [N, C]: normalise, classify, calibrate.

    Args:
        model: the trained network.
        prior: class frequencies where it will be used; None leaves the classes as the network ranks them.
    """

    class_shift: Tensor

    def __init__(self, model: Model, prior: Prior | None = None) -> None:
        super().__init__()
        self.net = model.net.cpu().eval()
        spec = model.spec
        self.preparation = model.preparation.cpu()
        # log 0 as a number that the formats can hold: such a class has probability 0.
        shift = torch.from_numpy(spec.calibration.shift(prior)).clamp(min=-1e9).float()
        self.register_buffer("class_shift", shift)
        self.scale = spec.calibration.scale

    def forward(self, pixels: Tensor) -> Tensor:
        scores = self.net(self.preparation(pixels))
        return torch.softmax(self.scale * scores + self.class_shift, dim=1)

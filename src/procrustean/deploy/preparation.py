"""From the bytes of images to what a network takes, as tests of its run prepared them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from procrustean.data.augment.resample import enlarging
from procrustean.deploy.model_spec import ModelSpec


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

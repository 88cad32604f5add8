"""The plain training loop that the library's speed is measured against.

It does what the public research codes for imbalanced CIFAR do: a DataLoader with worker processes, crop and flip image
by image with Pillow, float32, cuDNN benchmark mode, one library optimiser call and host reads of loss and accuracy at
every step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from procrustean.data.imageset import ImageSet
from procrustean.nets.build import build_net


class PerImageDataset(Dataset[tuple[Tensor, int]]):
    """Images as Pillow objects, augmented one by one in worker processes."""

    def __init__(self, images: ImageSet, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.images = images
        self.mean = torch.tensor(mean)[:, None, None]
        self.std = torch.tensor(std)[:, None, None]

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = Image.fromarray(self.images.images[index])
        size = image.size[0]
        top, left = (int(v) for v in torch.randint(0, 9, (2,)))
        image = ImageOps.expand(image, border=4).crop((left, top, left + size, top + size))
        if float(torch.rand(())) < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)
        return (pixels - self.mean) / self.std, int(self.images.labels[index])


def measure_peer(
    images: ImageSet,
    *,
    device: torch.device,
    workers: int,
    steps: int,
    batch_size: int,
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> float:
    """Training images per second of the plain loop with ResNet-32, over `steps` steps after a warm-up."""
    net = build_net("resnet32", channels=3, classes=len(images.classes), seed=0).to(device).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=2e-4)
    loader = DataLoader(
        PerImageDataset(images, mean, std),
        batch_size=batch_size,
        shuffle=True,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        persistent_workers=workers > 0,
    )
    warm_up = min(10, steps)
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        batches = _endless(loader)
        began = 0.0
        shown = 0
        for step in range(warm_up + steps):
            if step == warm_up:
                began, shown = time.perf_counter(), 0
            x, y = next(batches)
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            scores = net(x)
            loss = F.cross_entropy(scores, y)
            top5 = scores.topk(5).indices.eq(y[:, None]).any(1)
            _ = loss.item(), scores.argmax(1).eq(y).float().mean().item(), top5.float().mean().item()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            shown += len(y)
        _wait(device)
        seconds = time.perf_counter() - began
    return shown / seconds


def _endless(loader: DataLoader[tuple[Tensor, int]]) -> Iterator[tuple[Tensor, Tensor]]:
    while True:
        yield from loader


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

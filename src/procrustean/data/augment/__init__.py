"""What is done to images in training: crops, flips, colours, holes; by name in a recipe's `augment`.

`Augmentation` says what is done and draws its random numbers ahead, with numpy alone. `device.DeviceAugmentation` does
it to a batch of tensors, `host.augment_batch` the part that is done image by image in worker processes.
"""

from __future__ import annotations

from procrustean.data.augment.settings import NAMES, PARTS, Augmentation, make_augmentation

__all__ = ["NAMES", "PARTS", "Augmentation", "make_augmentation"]

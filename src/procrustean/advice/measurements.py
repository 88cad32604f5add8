"""What this project has measured, as far as it decides which method is advised: the only table of it.

A new measurement is a new line here, and the advice follows. The files are under results/ of the repository.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..counts import Kind


@dataclass(frozen=True)
class Setting:
    """A kind of imbalance in which methods were compared."""

    name: str
    kind: Kind
    largest: int  # training images of the largest class
    smallest: int
    net: str


@dataclass(frozen=True)
class Measured:
    """The test balanced accuracy of the last epoch of a method in a setting, 0 to 100; of runs with data seed 0."""

    setting: Setting
    method: str
    drw: bool
    value: float  # mean over the training seeds
    seeds: int
    where: str  # the folder of the files
    options: tuple[tuple[str, float], ...] = ()  # other than the defaults


LONG_TAILED = Setting("CIFAR-10, long-tailed, ratio 100", "long_tailed", 5000, 50, "resnet32")
STEP = Setting("CIFAR-10, step, ratio 100", "step", 5000, 50, "resnet32")
FEW_LONG_TAILED = Setting("digits, long-tailed, ratio 20", "long_tailed", 100, 5, "small")
FEW_STEP = Setting("digits, step, ratio 20", "step", 100, 5, "small")

_CIFAR, _MORE, _DIGITS = "results/cifar10-rho100", "results/methods-cifar10-lt100", "results/digits"
_SETTINGS = "results/digits-settings"

MEASURED = (
    Measured(LONG_TAILED, "erm", False, 69.4, 1, _CIFAR),
    Measured(LONG_TAILED, "mfw", False, 74.1, 1, _CIFAR),
    Measured(LONG_TAILED, "mfw", True, 76.4, 3, _CIFAR),
    Measured(LONG_TAILED, "ldam", True, 77.3, 1, _MORE),
    Measured(LONG_TAILED, "balanced_softmax", False, 77.7, 1, _MORE),
    Measured(LONG_TAILED, "cdt", False, 77.9, 1, _MORE),
    Measured(LONG_TAILED, "remix", True, 81.9, 1, _MORE),
    Measured(STEP, "erm", False, 61.6, 1, _CIFAR),
    Measured(STEP, "mfw", False, 74.0, 3, _CIFAR),
    Measured(STEP, "mfw", True, 79.6, 1, _CIFAR),
    Measured(FEW_LONG_TAILED, "erm", False, 91.7, 5, _DIGITS),
    Measured(FEW_LONG_TAILED, "erm", True, 94.0, 5, _DIGITS),
    Measured(FEW_LONG_TAILED, "class_balanced", False, 94.2, 5, _DIGITS),
    Measured(FEW_LONG_TAILED, "balanced_softmax", False, 94.9, 5, _DIGITS),
    Measured(FEW_LONG_TAILED, "ldam", False, 95.2, 5, _DIGITS),
    Measured(FEW_LONG_TAILED, "ldam", True, 96.2, 5, _DIGITS),
    Measured(FEW_LONG_TAILED, "remix", True, 93.1, 5, _DIGITS),
    Measured(FEW_LONG_TAILED, "mfw", False, 90.2, 5, _DIGITS),
    Measured(FEW_LONG_TAILED, "mfw", True, 93.8, 5, _DIGITS),
    Measured(FEW_STEP, "erm", False, 87.9, 5, _DIGITS),
    Measured(FEW_STEP, "erm", True, 92.8, 5, _DIGITS),
    Measured(FEW_STEP, "class_balanced", False, 93.9, 5, _DIGITS),
    Measured(FEW_STEP, "balanced_softmax", False, 94.4, 5, _DIGITS),
    Measured(FEW_STEP, "ldam", False, 93.9, 5, _DIGITS),
    Measured(FEW_STEP, "ldam", True, 95.3, 5, _DIGITS),
    Measured(FEW_STEP, "remix", True, 91.3, 5, _DIGITS),
    Measured(FEW_STEP, "mfw", False, 86.0, 5, _DIGITS),
    Measured(FEW_STEP, "mfw", True, 92.6, 5, _DIGITS),
    Measured(FEW_LONG_TAILED, "mfw", True, 94.1, 5, _SETTINGS, (("alpha", 0.2),)),
    Measured(FEW_LONG_TAILED, "mfw", True, 93.9, 5, _SETTINGS, (("alpha", 5.0),)),
    Measured(FEW_LONG_TAILED, "ldam", True, 96.2, 5, _SETTINGS, (("max_margin", 0.3),)),
    Measured(FEW_LONG_TAILED, "ldam", True, 95.0, 5, _SETTINGS, (("max_margin", 0.8),)),
    Measured(FEW_STEP, "mfw", True, 93.0, 5, _SETTINGS, (("alpha", 0.2),)),
    Measured(FEW_STEP, "mfw", True, 92.4, 5, _SETTINGS, (("alpha", 1.0),)),
    Measured(FEW_STEP, "ldam", True, 96.0, 5, _SETTINGS, (("max_margin", 0.3),)),
    Measured(FEW_STEP, "ldam", True, 93.5, 5, _SETTINGS, (("max_margin", 0.8),)),
)

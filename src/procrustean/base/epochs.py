"""Epochs: what is known of one when it ends, as values and in words, and epochs as shares of a training."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: A number of every class, or none at all.
PerClass = list[float | None] | None


class Evaluated(Struct, frozen=True, kw_only=True):
    """What a network got right on some images."""

    headline: Literal["accuracy", "balanced_accuracy"]
    accuracy: float
    balanced_accuracy: float
    recall: list[float | None]  # per class

    @property
    def headline_value(self) -> float:
        """The number to quote."""
        return self.accuracy if self.headline == "accuracy" else self.balanced_accuracy


class Probed(Struct, frozen=True, kw_only=True):
    """The paper's measurements of a network, per class."""

    layer: str  # where gradients were measured
    train_recall: PerClass
    test_recall: PerClass
    classification_ratio: PerClass
    gradient_norm: PerClass
    gradient_norm_mixed: PerClass  # None where the training does not mix
    feature_deviation: PerClass


class EpochRecord(Struct, kw_only=True, omit_defaults=True):
    """An epoch that has ended: told to whoever follows the run, and a line of epochs.jsonl."""

    stage: int
    epoch: int  # from 0, in all stages
    loss: float | None
    lr: float
    images_per_second: float | None = None
    test: Evaluated | None = None
    held_out: Evaluated | None = None
    train: Evaluated | None = None
    probe: Probed | None = None


def whole_epochs(share: float, epochs: float) -> int:
    """The epochs that a share of them has, rounded down.

    >>> whole_epochs(0.8, 200), whole_epochs(0.7, 90)
    (160, 63)
    """
    # The hair's breadth: 0.7 * 90 is 63 epochs, not the 62 that rounding makes of it.
    return int(share * epochs + 1e-9)


def progress_texts(record: EpochRecord, result: str | None) -> list[str]:
    """Loss, newest result and speed, each where known.

    >>> epoch = EpochRecord(stage=0, epoch=0, loss=0.51234, lr=0.1, images_per_second=45123.0)
    >>> progress_texts(epoch, "test accuracy 81.2 %")
    ['loss 0.512', 'test accuracy 81.2 %', '45,123 images/s']
    """
    texts = []
    if record.loss is not None:
        texts.append(f"loss {record.loss:.3f}")
    if result is not None:
        texts.append(result)
    if record.images_per_second is not None:
        texts.append(f"{record.images_per_second:,.0f} images/s")
    return texts


def result_text(record: EpochRecord) -> str | None:
    """The result of an epoch that is shown, if it was measured: of the test images, if the record has one of them."""
    if record.test is not None:
        return headline_text(record.test.headline, record.test.headline_value)
    return None if record.held_out is None else held_out_text(record.held_out.balanced_accuracy)


def held_out_text(balanced_accuracy: float) -> str:
    """What choices are made by, with its name."""
    return f"held-out balanced accuracy {100 * balanced_accuracy:.1f} %"


def headline_text(name: str, value: float) -> str:
    """The headline of a test result.

    >>> headline_text("balanced_accuracy", 0.5)
    'test balanced accuracy 50.0 %'
    """
    return f"test {name.replace('_', ' ')} {100 * value:.1f} %"

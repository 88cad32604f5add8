"""MFW in Lightning.

    trainer = Trainer(callbacks=[MFWCallback(MFW(counts), "net.layer1")])

For deferred re-weighting, a `procrustean.DRW` in the module:

    losses = F.cross_entropy(logits, labels, reduction="none")
    loss = self.drw.weighted_mean(losses, labels, self.current_epoch)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from procrustean.balance.counting import label_of
from procrustean.balance.mfw_attach import Attachment
from procrustean.balance.mfw_module import MFW
from procrustean.base.errors import ConfigError, DataError
from procrustean.base.optional_libraries import installing, why_not_imported

try:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError as missing:
        if missing.name != "lightning":
            raise
        from pytorch_lightning import Callback
except (ImportError, RuntimeError) as error:
    if getattr(error, "name", None) != "pytorch_lightning":
        raise ConfigError(why_not_imported("Lightning", "lightning", error)) from error
    raise ConfigError(f"Lightning is not installed; install it {installing('lightning')}") from None


#: Lightning replaces all callbacks while it tries learning rates or batch sizes.
TUNING = (
    "Lightning leaves callbacks out while it tunes learning rate or batch size (Tuner, LearningRateFinder, "
    "BatchSizeFinder); tune with a Trainer of its own, without MFWCallback, and then train with it"
)


class MFWCallback(Callback):
    """Weakens major features at a layer of the module while it trains.

    Args:
        mfw: made from the training images per class.
        layer: name of the layer within the LightningModule, as `named_modules()` lists: "net.layer1".
        labels: where the labels of a batch are: a position, a key, or a function of the batch. By default the second
            of (images, labels), or what stands under "label", "labels", "target" ... of a mapping.
    """

    def __init__(self, mfw: MFW, layer: str, *, labels: int | str | Callable[[Any], Tensor] | None = None) -> None:
        super().__init__()
        self.mfw, self.layer, self.labels = mfw, layer, labels
        self.handle: Attachment | None = None
        self._batches, self._mixed = 0, False  # of an epoch: how many there were, and whether any has come by the layer

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Attach at once if the layer is there, so that tuning, which comes before the fit, is refused."""
        if stage == "fit" and any(name == self.layer for name, _ in pl_module.named_modules()):
            self._attach(pl_module)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach to a layer that the module has built in `configure_model`, which comes after `setup`."""
        self._attach(pl_module)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        self._batches, self._mixed = 0, False

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.handle is not None:
            self.handle.begin(self._labels_of(batch))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self.handle is None:
            return
        self._batches += 1
        self._mixed |= self.handle.called
        if outputs is None or (isinstance(outputs, Mapping) and not outputs):
            self.handle.end()  # the module has skipped this batch, or optimises by itself
        else:
            self.handle.finish()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """An error for a module that optimises by itself, of whose batches none has come by the layer."""
        if self.handle is not None and self._batches and not self._mixed:
            self.handle.finish()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._detach()  # there is no teardown after an error

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            self._detach()

    def _attach(self, module: Any) -> None:
        if self.handle is None:
            self.handle = self.mfw.attach(module, self.layer)
            self.handle.advice = TUNING

    def _detach(self) -> None:
        if self.handle is not None:
            self.handle.end()
            self.handle.remove()
            self.handle = None

    def _labels_of(self, batch: Any) -> Tensor:
        try:
            if callable(self.labels):
                found = self.labels(batch)
            elif self.labels is not None:
                found = batch[self.labels]
            else:
                found = label_of(batch)
        except (DataError, KeyError, IndexError, TypeError) as error:
            raise DataError(
                f"the labels of a batch of type {type(batch).__name__} cannot be found ({error}); say where they are: "
                "MFWCallback(mfw, layer, labels=lambda batch: ...)"
            ) from error
        if not isinstance(found, Tensor):
            raise DataError(f"labels of type {type(found).__name__} found in the batch; they have to be a tensor")
        return found

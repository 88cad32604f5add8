"""MFW and deferred re-weighting in the Hugging Face Trainer.

    trainer = MFWTrainer(model=model, args=args, train_dataset=data, mfw=MFW(counts), layer="vit.layers.3")

A Trainer of your own takes them from the mixin: `class MyTrainer(MFWTrainerMixin, Trainer)`.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from procrustean.balance.mfw_attach import Attachment
from procrustean.balance.mfw_module import MFW
from procrustean.balance.weights import DRW, global_mean
from procrustean.base.errors import ConfigError, LayerError
from procrustean.base.optional_libraries import installing, why_not_imported

try:
    from transformers import Trainer
except (ImportError, RuntimeError) as error:
    if getattr(error, "name", None) != "transformers":
        raise ConfigError(why_not_imported("transformers", "transformers", error)) from error
    raise ConfigError(f"transformers is not installed; install it {installing('transformers')}") from None


class MFWTrainerMixin:
    """Gives a Trainer three more arguments.

    Args:
        mfw: made from the training images per class; None for none.
        layer: name of the layer within the model, as `procrustean.balance.suggest` lists; needed with `mfw`.
        drw: class weights of the cross-entropy by epoch: DRW(counts, args.num_train_epochs), or by step where
            args.max_steps sets the length: DRW(counts, args.max_steps); None for none.
    """

    mfw_handle: Attachment | None = None

    def __init__(
        self, *args: Any, mfw: MFW | None = None, layer: str | None = None, drw: DRW | None = None, **kwargs: Any
    ) -> None:
        if (mfw is None) != (layer is None):
            raise ConfigError(f"mfw = {mfw!r} and layer = {layer!r} received; give both, or neither")
        self.mfw, self.mfw_layer, self.drw = mfw, layer, drw
        super().__init__(*args, **kwargs)
        trainer: Any = self
        if drw is not None:
            if trainer.compute_loss_func is not None or trainer.label_smoother is not None:
                raise ConfigError(
                    "drw together with compute_loss_func or label smoothing received, which make another loss; weight "
                    "the classes there instead: weight=drw(trainer.state.epoch)"
                )
            # Our loss is the mean of a batch: the Trainer has to divide it by the number of accumulated batches.
            trainer.model_accepts_loss_kwargs = False
        if self.mfw_handle is None and trainer.model is not None:
            self._attach(trainer.model)

    def call_model_init(self, trial: Any = None) -> Any:
        """A Trainer that makes its model anew, for each trial of a search, attaches anew."""
        model = super().call_model_init(trial)  # type: ignore[misc]
        self._attach(model)
        return model

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **kwargs: Any) -> Any:
        """The loss of the Trainer, in training with weakened features and weighted classes."""
        if not model.training or (self.mfw_handle is None and self.drw is None):
            return super().compute_loss(model, inputs, return_outputs=return_outputs, **kwargs)  # type: ignore[misc]
        labels = inputs.get("labels")
        if labels is None:
            raise LayerError(
                f"a batch without 'labels' received (it has {', '.join(inputs)}), which MFW and DRW need; name the "
                "column of the labels 'labels', and keep it with remove_unused_columns=False if the model drops it"
            )
        if self.mfw_handle is None:
            return self._loss(model, inputs, return_outputs, **kwargs)
        with self.mfw_handle(labels):
            return self._loss(model, inputs, return_outputs, **kwargs)

    def _loss(self, model: Any, inputs: Any, return_outputs: bool, **kwargs: Any) -> Any:
        if self.drw is None:
            return super().compute_loss(model, inputs, return_outputs=return_outputs, **kwargs)  # type: ignore[misc]
        outputs = model(**{name: value for name, value in inputs.items() if name != "labels"})
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        weights, labels = self._class_weights(self.drw).to(logits.device), inputs["labels"]
        total = F.cross_entropy(logits.float(), labels, weight=weights, reduction="sum")
        loss = global_mean(total, _divisor(labels, weights))
        return (loss, outputs) if return_outputs else loss

    def _class_weights(self, drw: DRW) -> Tensor:
        trainer: Any = self
        args, state = trainer.args, trainer.state
        by_steps = args.max_steps > 0
        length = args.max_steps if by_steps else args.num_train_epochs
        if drw.epochs != length:
            unit, name = ("steps", "max_steps") if by_steps else ("epochs", "num_train_epochs")
            raise ConfigError(
                f"DRW(counts, {drw.epochs}) received for a training of {length} {unit}, by which its weights would set "
                f"in at the wrong time; give drw=DRW(counts, args.{name})"
            )
        weights: Tensor = drw(state.global_step if by_steps else state.epoch or 0)
        return weights

    def _attach(self, model: Any) -> None:
        if self.mfw is not None and self.mfw_layer is not None:
            self.mfw_handle = self.mfw.attach(model, self.mfw_layer)


class MFWTrainer(MFWTrainerMixin, Trainer):
    """The Hugging Face Trainer with `mfw`, `layer` and `drw`; see `MFWTrainerMixin`."""


def _divisor(labels: Tensor, weights: Tensor) -> Tensor:
    """What `F.cross_entropy` divides by: the weights of the labels but those it ignores; the number of soft labels."""
    if labels.is_floating_point():
        return weights.new_tensor(len(labels))
    return (weights[labels.clamp(min=0)] * (labels >= 0)).sum()

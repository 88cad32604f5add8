"""MFW and DRW in the Hugging Face Trainer."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from procrustean import DRW, MFW
from procrustean.balance import MFWTrainer, Mix, attachments
from procrustean.base import ConfigError, LayerError

transformers = pytest.importorskip("transformers")
MFWTrainerMixin = importlib.import_module("procrustean.balance.transformers").MFWTrainerMixin

COUNTS = [500, 400, 20, 10]
LAYER = "vit.layers.0"


class Repeatable(MFW):
    """Draws the same numbers for the n-th batch, whatever else draws."""

    batches = 0

    def sample(self, labels: Tensor, generator: torch.Generator | None = None) -> Mix | None:
        self.batches += 1
        return super().sample(labels, torch.Generator().manual_seed(self.batches))


def vit() -> nn.Module:
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=8,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    config.num_labels = 4
    torch.manual_seed(0)
    return transformers.ViTForImageClassification(config)


def rows(count: int = 8) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    return [{"pixel_values": torch.randn(3, 16, 16, generator=generator), "labels": i % 4} for i in range(count)]


@pytest.fixture
def trainer(tmp_path: Path) -> Callable[..., Any]:
    def make(kind: type = MFWTrainer, model: Any = None, epochs: int = 2, **settings: Any) -> Any:
        ours = {name: settings.pop(name) for name in ("mfw", "layer", "drw", "model_init", "compute_loss_func")
                if name in settings}  # fmt: skip
        args = transformers.TrainingArguments(
            output_dir=str(tmp_path), num_train_epochs=epochs, per_device_train_batch_size=4, learning_rate=0.1,
            optim="sgd", lr_scheduler_type="constant", max_grad_norm=0.0, report_to=[], save_strategy="no",
            use_cpu=True, disable_tqdm=True, logging_strategy="no", **settings,
        )  # fmt: skip
        given = {} if "model_init" in ours else {"model": model or vit()}
        return kind(args=args, train_dataset=rows(), eval_dataset=rows(), **given, **ours)

    return make


def own_loop(trainer: Any, model: nn.Module, mfw: MFW | None, drw: DRW | None, *, accumulate: int = 1) -> nn.Module:
    """The same training by hand, on the batches of the Trainer."""
    handle = None if mfw is None else mfw.attach(model, LAYER)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for epoch in range(2):
        transformers.set_seed(42 + epoch)
        for index, batch in enumerate(trainer.seen[epoch]):
            weight = None if drw is None else drw(epoch)

            def loss(batch: Any = batch, weight: Any = weight) -> Tensor:
                logits = model(pixel_values=batch["pixel_values"]).logits
                return F.cross_entropy(logits, batch["labels"], weight=weight) / accumulate

            if handle is None:
                loss().backward()
            else:
                with handle(batch["labels"]):
                    loss().backward()
            if (index + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
    return model


class Watched(MFWTrainer):
    """Remembers its batches, by epoch."""

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if model.training:
            self.__dict__.setdefault("seen", {}).setdefault(int(self.state.epoch or 0), []).append(dict(inputs))
        return super().compute_loss(model, inputs, *args, **kwargs)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("with_drw", [False, True])
def test_the_same_as_a_loop_of_ones_own(accumulate: int, with_drw: bool, trainer: Callable[..., Any]) -> None:
    drw = DRW(COUNTS, epochs=2, start=0.5) if with_drw else None
    made = trainer(Watched, mfw=Repeatable(COUNTS), layer=LAYER, drw=drw, gradient_accumulation_steps=accumulate)
    made.train()
    wanted = own_loop(made, vit(), Repeatable(COUNTS), drw, accumulate=accumulate)
    torch.testing.assert_close(made.model.state_dict(), wanted.state_dict(), atol=1e-5, rtol=1e-4)
    assert {int(epoch): len(batches) for epoch, batches in made.seen.items()} == {0: 2, 1: 2}


@pytest.mark.parametrize("labels", [torch.tensor([0, 3, -100, 2]), torch.eye(4)[[0, 3, 1, 2]] * 0.9 + 0.025])
def test_weighted_labels_that_are_ignored_or_soft(labels: Tensor, trainer: Callable[..., Any]) -> None:
    made = trainer(drw=DRW(COUNTS, epochs=2, start=0.0))
    made.model.train()
    batch = {"pixel_values": torch.randn(4, 3, 16, 16), "labels": labels}
    loss, outputs = made.compute_loss(made.model, batch, return_outputs=True)
    torch.testing.assert_close(loss, F.cross_entropy(outputs.logits, labels, weight=made.drw.weights))


def test_mixing_and_weights_change_the_training(trainer: Callable[..., Any]) -> None:
    ways: list[dict[str, Any]] = [
        {}, {"mfw": MFW(COUNTS), "layer": LAYER}, {"drw": DRW(COUNTS, epochs=2, start=0.0)}
    ]  # fmt: skip
    states = []
    for settings in ways:
        made = trainer(**settings)
        made.train()
        states.append(made.model.state_dict())
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.allclose(states[one]["classifier.weight"], states[other]["classifier.weight"])
    assert list(states[0]) == list(states[1])


def test_evaluation_is_that_of_the_plain_trainer(trainer: Callable[..., Any]) -> None:
    model = vit()
    plain = trainer(transformers.Trainer, model).evaluate()["eval_loss"]
    ours = trainer(model=model, mfw=MFW(COUNTS), layer=LAYER, drw=DRW(COUNTS, epochs=2, start=0.0))
    assert ours.evaluate()["eval_loss"] == plain


def test_a_model_made_by_the_trainer(trainer: Callable[..., Any]) -> None:
    made = trainer(model_init=vit, mfw=MFW(COUNTS), layer=LAYER)
    made.train()
    assert attachments(made.model)[LAYER] is made.mfw_handle


def test_the_mixin_on_a_trainer_of_ones_own(trainer: Callable[..., Any]) -> None:
    class Own(MFWTrainerMixin, transformers.Trainer):  # type: ignore[name-defined,misc]
        pass

    made = trainer(Own, mfw=MFW(COUNTS), layer=LAYER, epochs=1, gradient_checkpointing=True, label_smoothing_factor=0.1)
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    made.train()
    assert attachments(made.model)[LAYER] is made.mfw_handle
    assert any(not torch.equal(value, before[name]) for name, value in made.model.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"mfw": MFW(COUNTS)}, ConfigError, r"layer = None received; give both, or neither"),
        ({"mfw": MFW(COUNTS), "layer": "vit.layer.0"}, LayerError, r"no layer 'vit\.layer\.0'.*'vit\.layers"),
        (
            {"drw": DRW(COUNTS, epochs=2), "label_smoothing_factor": 0.1},
            ConfigError,
            r"weight=drw\(trainer\.state\.epoch\)",
        ),
    ],
)
def test_wrong_settings(
    settings: dict[str, Any], error: type[Exception], message: str, trainer: Callable[..., Any]
) -> None:
    with pytest.raises(error, match=message):
        trainer(**settings)


def test_a_batch_without_labels(trainer: Callable[..., Any]) -> None:
    made = trainer(mfw=MFW(COUNTS), layer=LAYER)
    made.model.train()
    with pytest.raises(LayerError, match=r"a batch without 'labels' received \(it has pixel_values\)"):
        made.compute_loss(made.model, {"pixel_values": torch.randn(2, 3, 16, 16)})


@pytest.mark.parametrize(("settings", "length"), [({"epochs": 2}, "2 epochs"), ({"max_steps": 3}, "3 steps")])
def test_drw_of_another_length_than_the_training(
    settings: dict[str, Any], length: str, trainer: Callable[..., Any]
) -> None:
    made = trainer(drw=DRW(COUNTS, epochs=10), **settings)
    with pytest.raises(ConfigError, match=rf"DRW\(counts, 10\) received for a training of {length}"):
        made.train()


def test_drw_by_steps_where_these_set_the_length(trainer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    drw, asked = DRW(COUNTS, epochs=5), []
    forward = drw.forward
    monkeypatch.setattr(drw, "forward", lambda step: asked.append(step) or forward(step))
    trainer(drw=drw, max_steps=5).train()
    assert asked == [0, 1, 2, 3, 4]

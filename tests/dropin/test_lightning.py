"""MFW and DRW in Lightning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from procrustean import DRW, MFW
from procrustean.balance import MFWCallback, Mix, attachments
from procrustean.base import DataError, LayerError

lightning = pytest.importorskip("lightning.pytorch")

COUNTS = [500, 400, 20, 10]
Make = Callable[[], nn.Module]


class Repeatable(MFW):
    """Draws the same numbers for the n-th batch, whatever else draws."""

    batches = 0

    def sample(self, labels: Tensor, generator: torch.Generator | None = None) -> Mix | None:
        self.batches += 1
        return super().sample(labels, torch.Generator().manual_seed(self.batches))


class Steps:
    """What the modules of both packages have in common."""

    def __init__(self, net: nn.Module, drw: DRW | None = None, keyed: bool = False) -> None:
        super().__init__()
        self.net, self.drw, self.keyed = net, drw, keyed
        self.mixed: list[bool] = []
        self.weights: list[list[float]] = []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, y = (batch["image"], batch["label"]) if self.keyed else batch
        weight = None if self.drw is None else self.drw(self.current_epoch)
        if weight is not None:
            self.weights.append(weight.tolist())
        handle = attachments(self).get("net.layer1")
        self.mixed.append(handle is not None and handle.mix is not None)
        return F.cross_entropy(self.net(x), y, weight=weight)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        assert not self.net.training
        self.net(batch[0])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)


class Module(Steps, lightning.LightningModule):  # type: ignore[name-defined,misc]
    pass


@pytest.fixture
def trainer(tmp_path: Path) -> Callable[..., Any]:
    def make(*callbacks: Any, epochs: int = 2, **settings: Any) -> Any:
        return lightning.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            callbacks=list(callbacks),
            default_root_dir=tmp_path,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            **settings,
        )

    return make


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="lightning|torch", category=UserWarning)
        yield


def loader(batch_size: int = 6) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(12, 3, 8, 8, generator=generator), torch.arange(12) % 4
    return DataLoader(TensorDataset(x, y), batch_size=batch_size)


def test_the_same_as_a_loop_of_ones_own(convolutions: Make, trainer: Callable[..., Any]) -> None:
    module = Module(convolutions())
    twin = convolutions()
    twin.load_state_dict(module.net.state_dict())
    trainer(MFWCallback(Repeatable(COUNTS), "net.layer1"), accumulate_grad_batches=2).fit(module, loader(), loader())
    assert module.mixed == [True] * 4
    assert not attachments(module)  # taken off at the end

    handle = Repeatable(COUNTS).attach(twin, "layer1")
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.05)
    for _ in range(2):
        optimizer.zero_grad()
        for x, y in loader():
            with handle(y):
                (F.cross_entropy(twin(x), y) / 2).backward()
        optimizer.step()
    torch.testing.assert_close(module.net.state_dict(), twin.state_dict())


def test_mixing_changes_the_training(convolutions: Make, trainer: Callable[..., Any]) -> None:
    plain, mixed = Module(convolutions()), Module(convolutions())
    mixed.load_state_dict(plain.state_dict())
    trainer().fit(plain, loader())
    trainer(MFWCallback(MFW(COUNTS), "net.layer1")).fit(mixed, loader())
    assert plain.mixed == [False] * 4
    assert not torch.allclose(plain.net.head.weight, mixed.net.head.weight)
    assert list(plain.state_dict()) == list(mixed.state_dict())


def test_drw(convolutions: Make, trainer: Callable[..., Any]) -> None:
    module = Module(convolutions(), DRW(COUNTS, epochs=5))
    trainer(MFWCallback(MFW(COUNTS), "net.layer1"), epochs=5).fit(module, loader(12))
    assert module.weights[:4] == [[1.0] * 4] * 4
    assert module.weights[4] == module.drw.weights.tolist()
    assert "drw.weights" not in module.state_dict()


@pytest.mark.parametrize("labels", [None, "label", lambda batch: batch["label"]])
def test_where_the_labels_are(labels: Any, convolutions: Make, trainer: Callable[..., Any]) -> None:
    module = Module(convolutions(), keyed=True)
    rows = [{"image": torch.randn(3, 8, 8), "label": index % 4} for index in range(8)]
    trainer(MFWCallback(MFW(COUNTS), "net.layer1", labels=labels), epochs=1).fit(module, DataLoader(rows, batch_size=8))
    assert module.mixed == [True]


def test_weights_averaged_by_lightning_get_statistics_of_mixed_batches(
    convolutions: Make, trainer: Callable[..., Any]
) -> None:
    module = Module(convolutions())
    average = lightning.callbacks.StochasticWeightAveraging(swa_lrs=0.01, swa_epoch_start=1)
    trainer(average, MFWCallback(MFW(COUNTS), "net.layer1"), epochs=3).fit(module, loader())
    assert module.mixed == [True] * 8  # three epochs and the pass that recomputes the statistics
    assert not torch.equal(module.net.layer2[1].running_mean, torch.zeros(8))


class BuiltLater(Module):
    """Has no layers before `configure_model`."""

    def __init__(self, make: Make) -> None:
        super().__init__(nn.Module())
        self.make = make

    def configure_model(self) -> None:
        if not list(self.net.children()):
            self.net = self.make()


def test_a_module_that_builds_itself(convolutions: Make, trainer: Callable[..., Any]) -> None:
    module = BuiltLater(convolutions)
    for _ in range(2):  # the second time its layers are there
        trainer(MFWCallback(MFW(COUNTS), "net.layer1")).fit(module, loader())
    assert module.mixed == [True] * 8
    assert not attachments(module)


def accepted(kind: Any, value: Any) -> bool:
    """Whether a value of a configuration file fits an annotation, as LightningCLI's parser sees it."""
    parts = get_args(kind)
    if get_origin(kind) in (Union, UnionType):
        return any(accepted(part, value) for part in parts)
    if get_origin(kind) is Iterable:
        return isinstance(value, list) and all(accepted(parts[0], item) for item in value)
    # It compares protocols by the signatures of their methods, which classes written in C have none of.
    return not getattr(kind, "_is_protocol", False) and isinstance(value, kind)


@pytest.mark.parametrize("kind", [MFW, DRW])
def test_counts_can_come_from_a_configuration_file(kind: type) -> None:
    counts = get_type_hints(kind.__init__)["counts"]
    assert accepted(counts, [500, 20])
    assert not accepted(counts, ["many"])


class Skipping(Module):
    """Leaves a batch out, which Lightning allows."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return None if batch_idx == 0 else super().training_step(batch, batch_idx)


def test_a_skipped_batch(convolutions: Make, trainer: Callable[..., Any]) -> None:
    module = Skipping(convolutions())
    trainer(MFWCallback(MFW(COUNTS), "net.layer1")).fit(module, loader())
    assert module.mixed == [True] * 2


def test_a_layer_that_is_never_called(convolutions: Make, trainer: Callable[..., Any]) -> None:
    module = Module(convolutions())
    module.spare = nn.Linear(2, 2)
    with pytest.raises(LayerError, match="'spare' has MFW attached but was not called"):
        trainer(MFWCallback(MFW(COUNTS), "spare")).fit(module, loader())


@pytest.mark.parametrize(
    ("layer", "labels", "error", "message"),
    [
        ("layer1", None, LayerError, r"Module has no layer 'layer1'"),
        ("net.layer1", 2, DataError, r"labels of a batch of type list cannot be found.*labels=lambda batch"),
        ("net.layer1", lambda batch: batch[1].tolist(), DataError, r"labels of type list found"),
    ],
)
def test_errors(
    layer: str, labels: Any, error: type[Exception], message: str, convolutions: Make, trainer: Callable[..., Any]
) -> None:
    with pytest.raises(error, match=message):
        trainer(MFWCallback(MFW(COUNTS), layer, labels=labels)).fit(Module(convolutions()), loader())


def test_the_separate_package(convolutions: Make, tmp_path: Path) -> None:
    separate = pytest.importorskip("pytorch_lightning")
    module = type("Separate", (Steps, separate.LightningModule), {})(convolutions())
    callback = MFWCallback(MFW(COUNTS), "net.layer1")
    assert not isinstance(callback, separate.Callback)
    trainer = separate.Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[callback],
        default_root_dir=tmp_path,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, loader())
    assert module.mixed == [True] * 2


def test_it_goes_on_after_an_error_in_the_step(convolutions: Make, trainer: Callable[..., Any]) -> None:
    module = Module(convolutions())
    callback = MFWCallback(MFW(COUNTS), "net.layer1")
    module.net.head = nn.Linear(3, 4)  # does not fit
    with pytest.raises(RuntimeError, match="mat1"):
        trainer(callback).fit(module, loader())
    module.net.head = nn.Linear(8, 4)
    trainer(callback).fit(module, loader())
    assert module.mixed[-4:] == [True] * 4


def test_after_an_error_another_module_is_trained(convolutions: Make, trainer: Callable[..., Any]) -> None:
    """As in a notebook: the cell with the model is run again, the one with the callback is not."""
    broken, mended = Module(convolutions()), Module(convolutions())
    callback = MFWCallback(MFW(COUNTS), "net.layer1")
    broken.net.head = nn.Linear(3, 4)  # does not fit
    with pytest.raises(RuntimeError, match="mat1"):
        trainer(callback).fit(broken, loader())
    assert not attachments(broken)
    trainer(callback).fit(mended, loader())
    assert mended.mixed == [True] * 4


class OwnOptimisation(Module):
    """Optimises by itself; `unused` is never called."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(net)
        self.unused = nn.Linear(2, 2)
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        self.manual_backward(super().training_step(batch, batch_idx))


def test_a_module_that_optimises_by_itself(convolutions: Make, trainer: Callable[..., Any]) -> None:
    module = OwnOptimisation(convolutions())
    trainer(MFWCallback(MFW(COUNTS), "net.layer1")).fit(module, loader())
    assert module.mixed == [True] * 4
    with pytest.raises(LayerError, match="layer 'unused' has MFW attached but was not called"):
        trainer(MFWCallback(MFW(COUNTS), "unused")).fit(OwnOptimisation(convolutions()), loader())


def test_tuning_leaves_callbacks_out(convolutions: Make, trainer: Callable[..., Any]) -> None:
    module = Module(convolutions())
    module.lr = 0.05
    tuner = pytest.importorskip("lightning.pytorch.tuner").Tuner(trainer(MFWCallback(MFW(COUNTS), "net.layer1")))
    with pytest.raises(LayerError, match=r"got no labels; Lightning leaves callbacks out while it tunes.*of its own"):
        tuner.lr_find(module, loader(), num_training=3)

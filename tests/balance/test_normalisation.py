"""Statistics of batch normalisation recomputed, on clean and on mixed batches."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, update_bn

from procrustean import MFW, recalibrate
from procrustean.balance import attachments, blend
from procrustean.base import ConfigError, DataError, LayerError
from procrustean.nets import build_net
from procrustean.nets.blocks import BatchNorm

COUNTS = [500, 400, 20, 10]
Batches = list[tuple[Tensor, Tensor]]


class Model(nn.Module):
    def __init__(self, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Dropout(0.0))
        self.layer2 = nn.Sequential(nn.Conv2d(6, 5, 1), norm(5), nn.ReLU())
        self.head = nn.Linear(5, 4)

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        scores: Tensor = self.head(self.layer2(self.layer1(images)).mean((2, 3)))
        return scores if labels is None else F.cross_entropy(scores, labels)


@pytest.fixture
def batches() -> Batches:
    generator = torch.Generator().manual_seed(0)
    sizes = (8, 8, 4)
    return [
        (2 * torch.randn(n, 3, 8, 8, generator=generator) + 1, torch.randint(4, (n,), generator=generator))
        for n in sizes
    ]


def naive(features: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Means over the batches, weighted by their sizes, of the mean and the unbiased variance of each batch; float64."""
    total = sum(len(z) for z in features)
    mean = sum(len(z) * z.double().mean((0, 2, 3)) for z in features) / total
    var = sum(len(z) * z.double().transpose(0, 1).flatten(1).var(1) for z in features) / total
    assert isinstance(mean, Tensor)
    assert isinstance(var, Tensor)
    return mean, var


def assert_statistics(model: Any, wanted: tuple[Tensor, Tensor]) -> None:
    norm = model.layer2[1]
    torch.testing.assert_close(norm.running_mean.double(), wanted[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(norm.running_var.double(), wanted[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", [nn.BatchNorm2d, BatchNorm])
def test_clean(norm: type[nn.BatchNorm2d], batches: Batches) -> None:
    model: Any = Model(norm)
    model.layer1.eval()
    model.layer2[1].running_mean.fill_(float("nan"))
    modes = [module.training for module in model.modules()]
    assert recalibrate(model, batches, on="clean") == 1
    with torch.no_grad():
        assert_statistics(model, naive([model.layer2[0](model.layer1(x)) for x, _ in batches]))
    assert modes == [module.training for module in model.modules()]
    assert model.layer2[1].momentum == 0.1
    assert all(p.grad is None for p in model.parameters())


def test_batches_that_pass_a_layer_in_one_step_weigh_alike(batches: Batches) -> None:
    class TwoStreams(Model):
        def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
            return super().forward(images) + super().forward(100 - 3 * images)

    model: Any = TwoStreams()
    recalibrate(model, batches, on="clean")
    with torch.no_grad():
        seen = [x for images, _ in batches for x in (images, 100 - 3 * images)]
        mean, var = naive([model.layer2[0](model.layer1(x)) for x in seen])
    torch.testing.assert_close(model.layer2[1].running_mean.double(), mean, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(model.layer2[1].running_var.double(), var, atol=1e-3, rtol=1e-4)
    assert not model.layer2[1]._forward_pre_hooks


@pytest.mark.parametrize("called_with_labels", [False, True])
def test_mixed(called_with_labels: bool, batches: Batches) -> None:
    model: Any = Model()
    mfw = MFW(COUNTS)
    mfw.attach(model, "layer1", labels="labels" if called_with_labels else None)
    twin = copy.deepcopy(model)
    given = [{"images": x, "labels": y} for x, y in batches] if called_with_labels else batches
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        assert recalibrate(model, given) == 1
        torch.manual_seed(5)
        mixes = [mfw.sample(y) for _, y in batches]
    clean = Model()
    clean.load_state_dict(twin.state_dict())
    with torch.no_grad():
        features = [blend(clean.layer1(x), mix) for (x, _), mix in zip(batches, mixes, strict=True) if mix is not None]
        assert_statistics(model, naive([clean.layer2[0](z) for z in features]))


@pytest.mark.parametrize("called_with_labels", [False, True])
def test_clean_batches_on_a_model_with_mfw_warn(called_with_labels: bool, batches: Batches) -> None:
    model: Any = Model()
    MFW(COUNTS).attach(model, "layer1", labels="labels" if called_with_labels else None)
    clean = Model()
    clean.load_state_dict(model.state_dict())
    given = [{"images": x, "labels": y} for x, y in batches] if called_with_labels else batches
    with pytest.warns(UserWarning, match=r"clean batches.*on='mixed' recomputes them as in training"):
        recalibrate(model, given, on="clean")
    with torch.no_grad():
        assert_statistics(model, naive([clean.layer2[0](clean.layer1(x)) for x, _ in batches]))
    with pytest.raises(LayerError, match="labels"):  # it mixes again
        model(batches[0][0])


def test_equal_counts_need_no_warning(batches: Batches) -> None:
    model = Model()
    with pytest.warns(UserWarning, match="changes nothing"):
        MFW([20] * 4).attach(model, "layer1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recalibrate(model, batches, on="clean")


def test_an_averaged_model(batches: Batches) -> None:
    model = Model()
    handle = MFW(COUNTS).attach(model, "layer1")
    averaged = AveragedModel(model)
    averaged.update_parameters(model)
    with handle(batches[0][1]):
        model(batches[0][0])
    with pytest.raises(LayerError, match=r"update_bn.*procrustean\.recalibrate\(model, loader\) in its place"):
        update_bn(batches, averaged)
    assert recalibrate(averaged, batches) == 1
    norm = averaged.module.layer2[1]
    assert not torch.equal(norm.running_mean, torch.zeros(5))
    averaged.eval()
    assert bool(averaged(batches[0][0]).isfinite().all())


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_average_made_before_mfw_was_attached_takes_it_with_the_weights(wrapped: bool, batches: Batches) -> None:
    model = Model()
    averaged = AveragedModel(model)
    MFW(COUNTS).attach(model, "layer1")
    averaged.update_parameters(nn.ModuleDict({"module": model}) if wrapped else model)
    averaged.update_parameters(model)
    assert list(attachments(averaged.module)) == ["layer1"]
    with pytest.raises(LayerError, match=r"update_bn.*procrustean\.recalibrate\(model, loader\) in its place"):
        update_bn(batches, averaged)
    assert recalibrate(averaged, batches) == 1


def test_averages_of_models_without_mfw_stay_as_they_are(batches: Batches) -> None:
    MFW(COUNTS).attach(Model(), "layer1")
    model = Model()
    averaged = AveragedModel(model)
    averaged.update_parameters(model)
    update_bn(batches, averaged)
    assert not attachments(averaged)


@pytest.mark.parametrize("copied", [AveragedModel, copy.deepcopy, lambda model: model])
def test_a_model_that_knows_nothing_of_mfw_is_recalibrated_with_consent(copied: Any, batches: Batches) -> None:
    """A copy made before MFW was attached is one; a model that was trained without looks the same."""
    model = copied(Model())
    with pytest.raises(LayerError, match=r"no MFW is attached.* before an average .*on='clean' for a model that was"):
        recalibrate(model, batches)
    assert recalibrate(model, batches, on="clean") == 1


def test_networks_without_batch_normalisation() -> None:
    model = Model(lambda channels: nn.GroupNorm(1, channels))

    def refuse() -> Any:
        pytest.fail("a batch was asked for")
        yield

    assert recalibrate(model, refuse()) == 0
    assert recalibrate(build_net("resnet20-gn", channels=3, classes=4, seed=0), refuse()) == 0


def test_after_an_error_the_statistics_are_those_of_before(batches: Batches) -> None:
    model: Any = Model().eval()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="channels"):
        recalibrate(model, [*batches, (torch.randn(4, 2, 8, 8), batches[0][1][:4])], on="clean")
    for name in ("running_mean", "running_var"):
        assert torch.equal(model.state_dict()[f"layer2.1.{name}"], before[f"layer2.1.{name}"])
    assert not model.layer2[1].training
    assert model.layer2[1].momentum == 0.1


@pytest.mark.parametrize(
    ("given", "on", "error", "message"),
    [
        ([], "clean", DataError, "no batches received"),
        ([3], "clean", DataError, r"a batch of type int received"),
        ([{"labels": [1]}], "clean", DataError, r"a batch without tensors"),
        ([], "both", ConfigError, r"on = 'both' received"),
    ],
)
def test_errors(given: Any, on: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        recalibrate(Model(), given, on=on)


def test_labels_that_are_no_tensor_are_refused(batches: Batches) -> None:
    model = Model()
    MFW([90, 10]).attach(model, "layer1")
    with pytest.raises(DataError, match="labels of type list received; give a tensor of class indices"):
        recalibrate(model, [(images, labels.tolist()) for images, labels in batches])


def test_a_mapping_of_other_names_than_those_of_the_arguments_is_told() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    with pytest.raises(DataError, match=r"a batch of image, label \(.*give batches as mappings of the arguments"):
        recalibrate(model, [{"image": torch.randn(4, 2), "label": torch.zeros(4)}], on="clean")


def test_frozen_statistics_stay_in_a_model_that_trains(batches: Batches) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
    model[1].eval()
    frozen, other = model[1].running_mean.clone(), model[3].running_mean.clone()
    assert recalibrate(model, batches, on="clean") == 1
    assert torch.equal(model[1].running_mean, frozen)
    assert not torch.equal(model[3].running_mean, other)
    assert (model[1].training, model[3].training) == (False, True)
    assert (
        recalibrate(model.eval(), batches, on="clean") == 2
    )  # of a model that is not in training nothing can be called frozen
    assert not torch.equal(model[1].running_mean, frozen)


class NeedsLabels(Model):
    def forward(self, images: Tensor, labels: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(images, labels)


@pytest.mark.parametrize("on", ["mixed", "clean"])
@pytest.mark.filterwarnings("ignore:statistics recomputed on clean batches")
def test_a_model_that_cannot_be_called_without_its_labels(on: Any, batches: Batches) -> None:
    model = NeedsLabels()
    MFW(COUNTS).attach(model, "layer1", labels="labels")
    assert recalibrate(model, batches, on=on) == 1


def test_batches_without_what_the_model_is_called_with(batches: Batches) -> None:
    with pytest.raises(DataError, match=r"called with images alone \(missing a required argument: 'labels'\)"):
        recalibrate(NeedsLabels(), batches, on="clean")


def test_an_error_of_a_type_inside_the_model_is_its_own(batches: Batches) -> None:
    class Faulty(Model):
        def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
            return F.relu(super().forward(images), unknown=True)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        recalibrate(Faulty(), batches, on="clean")

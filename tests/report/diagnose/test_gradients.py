from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean import MFW
from procrustean.balance import Mix
from procrustean.balance.mixing import inverse_permutation
from procrustean.base import DataError, LayerError
from procrustean.engine import feature_gradient_norms, mean_per_class
from procrustean.engine.class_measures import gradient_norms_at

COUNTS = [60, 30, 3]


@pytest.fixture
def net() -> nn.Module:
    """A network with batch normalisation on both sides of the layer, in float64, with statistics of its own."""
    torch.manual_seed(0)
    parts = {
        "first": nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU()),
        "rest": nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 3)),
    }
    model = nn.Sequential()
    for name, part in parts.items():
        model.add_module(name, part)
    model = model.double()
    model.train()
    model(torch.randn(64, 4, dtype=torch.float64))
    return model


@pytest.fixture
def images() -> Tensor:
    return torch.randn(11, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def labels() -> Tensor:
    return torch.tensor([0, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2])


def alone(net: nn.Module, x: Tensor, y: Tensor) -> float:
    """The gradient of one image's loss at the layer, by autograd, in a batch of one."""
    z = net.first(x[None]).detach().requires_grad_()
    loss = F.cross_entropy(net.rest(z), y[None])
    return float(torch.autograd.grad(loss, z)[0].norm())


def test_without_mixing_it_is_the_gradient_of_each_image_alone(net: nn.Module, images: Tensor, labels: Tensor) -> None:
    judged = copy.deepcopy(net).eval()
    expected = [alone(judged, x, y) for x, y in zip(images, labels, strict=True)]
    for batch_size in (4, 128):
        found = feature_gradient_norms(net, "first", images, labels, batch_size=batch_size)
        assert found.tolist() == pytest.approx(expected, rel=1e-10)


def mixed_alone(net: nn.Module, x: Tensor, y: Tensor, mix: Mix) -> list[float]:
    """Own part and the part of the image it is mixed into, each by autograd."""
    z = net.first(x).detach()
    norms = []
    for i in range(len(x)):
        mine = z[i].clone().requires_grad_()
        user = int(mix.inverse[i])  # whose partner is i
        total = torch.zeros((), dtype=z.dtype)
        for n in {i, user}:
            own = mine if n == i else z[n]
            other = mine if int(mix.partner[n]) == i else z[int(mix.partner[n])]
            blended = (1 - mix.weight[n]) * own + mix.weight[n] * other
            total = total + F.cross_entropy(net.rest(blended[None]), y[n][None])
        norms.append(float(torch.autograd.grad(total, mine)[0].norm()))
    return norms


def test_with_mixing_it_has_both_parts(net: nn.Module, images: Tensor, labels: Tensor) -> None:
    mfw = MFW(COUNTS, alpha=2.0, strength=[0.5, 0.3, 0.1])
    mix = mfw.sample(labels, torch.Generator().manual_seed(5))
    assert mix is not None
    expected = mixed_alone(copy.deepcopy(net).eval(), images, labels, mix)
    found = feature_gradient_norms(net, "first", images, labels, mfw=mfw, generator=torch.Generator().manual_seed(5))
    assert found.tolist() == pytest.approx(expected, rel=1e-6)  # shares are float32
    unmixed = feature_gradient_norms(net, "first", images, labels)
    assert not torch.allclose(found, unmixed, rtol=1e-3)


def test_the_closed_form_of_a_linear_classifier() -> None:
    """Sec. 3 of the paper: (1 - lambda_i) W'(p_i - e_i) + lambda_j W'(p_j - e_j), j the image mixed with i."""
    generator = torch.Generator().manual_seed(2)
    z = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    y = torch.tensor([0, 1, 2, 0, 0, 1])
    net = nn.Sequential(nn.Identity(), nn.Linear(4, 3)).double()
    partner = torch.tensor([3, 0, 1, 2, 5, 4])
    share = torch.tensor([0.5, 0.4, 0.3, 0.2, 0.1, 0.0], dtype=torch.float64)
    mix = Mix(partner, inverse_permutation(partner), share)
    blended = (1 - share)[:, None] * z + share[:, None] * z[partner]
    slopes = (net[1](blended).softmax(1) - F.one_hot(y, 3)) @ net[1].weight
    inverse = mix.inverse
    expected = (1 - share)[:, None] * slopes + (share[:, None] * slopes)[inverse]
    found = gradient_norms_at(
        net, net[0], z, lambda scores: F.cross_entropy(scores, y, reduction="sum"), ((net[0], mix),)
    )
    assert found.tolist() == pytest.approx(expected.norm(dim=1).tolist(), rel=1e-10)


def test_weakening_the_major_image_reduces_the_gradient_of_the_minor_one() -> None:
    """Two images of two classes, as in the paper: the minor one is mixed into the major one, and is pulled less."""
    z = torch.tensor([[1.0, 0.2], [0.8, 0.3]], dtype=torch.float64)
    y = torch.tensor([0, 1])
    net = nn.Sequential(nn.Identity(), nn.Linear(2, 2, bias=False)).double()
    with torch.no_grad():
        net[1].weight.copy_(torch.tensor([[1.0, 1.0], [-1.0, -1.0]]))
    swap = torch.tensor([1, 0])
    norms = {
        share: gradient_norms_at(
            net,
            net[0],
            z,
            lambda scores: F.cross_entropy(scores, y, reduction="sum"),
            ((net[0], Mix(swap, swap, torch.tensor([share, 0.0], dtype=torch.float64))),),
        )[1].item()
        for share in (0.0, 0.2, 0.4)
    }
    assert norms[0.0] > norms[0.2] > norms[0.4]


def test_the_model_and_the_global_generator_stay_as_they_were(net: nn.Module, images: Tensor, labels: Tensor) -> None:
    net.first.eval()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    feature_gradient_norms(net, "first", images, labels, mfw=MFW(COUNTS))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert [net.training, net.first.training, net.rest.training, net.rest[1].training] == [True, False, True, True]
    assert not net.first._forward_hooks
    assert torch.equal(torch.get_rng_state(), state)
    with torch.no_grad():  # evaluation code often is in it
        assert feature_gradient_norms(net, "first", images, labels).min() > 0


def test_another_loss_and_half_precision(net: nn.Module, images: Tensor, labels: Tensor) -> None:
    double = feature_gradient_norms(
        net, "first", images, labels, loss=lambda s, y: 2 * F.cross_entropy(s, y, reduction="none")
    )
    assert torch.allclose(double, 2 * feature_gradient_norms(net, "first", images, labels))
    half = feature_gradient_norms(net.bfloat16(), "first", images.bfloat16(), labels)
    assert half.dtype == torch.float32
    assert torch.allclose(2 * half.double(), double, rtol=0.1, atol=0.02)


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x))


class Named(nn.Linear):
    def forward(self, x: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        return {"logits": super().forward(x)}


def test_layers_that_have_no_single_output_are_refused(images: Tensor, labels: Tensor) -> None:
    x = images.float()
    with pytest.raises(LayerError, match="has no layer 'nowhere'"):
        feature_gradient_norms(Twice(), "nowhere", x, labels)
    with pytest.raises(LayerError, match="used twice"):
        feature_gradient_norms(Twice(), "layer", x, labels)
    with pytest.raises(LayerError, match="not used"):
        feature_gradient_norms(Twice(), "unused", x, labels)
    with pytest.raises(LayerError, match="returns dict"):
        feature_gradient_norms(nn.Sequential(Named(4, 3)), "0", x, labels)
    with pytest.raises(DataError, match="returns dict; wrap it"):
        feature_gradient_norms(nn.Sequential(nn.Identity(), Named(4, 3)), "0", x, labels)


@pytest.mark.parametrize("kind", [torch.uint8, torch.uint16, torch.uint32, torch.int8, torch.int16, torch.int32])
def test_labels_of_any_integers(kind: torch.dtype, net: nn.Module, images: Tensor, labels: Tensor) -> None:
    norms = feature_gradient_norms(net, "first", images, labels)
    assert feature_gradient_norms(net, "first", images, labels.to(kind)).equal(norms)
    assert mean_per_class(norms, labels.to(kind), 3).equal(mean_per_class(norms, labels, 3))


def test_means_per_class() -> None:
    values, labels = torch.tensor([1.0, 2.0, 3.0, 10.0]), torch.tensor([2, 2, 0, 2])
    means = mean_per_class(values, labels, 4)
    assert means[[0, 2]].tolist() == pytest.approx([3.0, 13 / 3])
    assert torch.isnan(means[[1, 3]]).all()

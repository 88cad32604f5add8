"""Major-to-minor translation against a slow reference, image by image, in float64."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance import Batch, Clock, Problem
from procrustean.balance.types import Images, PixelRange
from procrustean.base import ConfigError
from procrustean.methods import make_method
from procrustean.methods.m2m import Translating, _directions
from procrustean.nets import build_net
from procrustean.nets.classifier import CosineHead

CIFAR = (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
KEPT = (1, 0.5994, 0.3592, 0.2154, 0.1290, 0.0774, 0.0464, 0.0278, 0.0166, 0.0100)
COUNTS = (2000, 500, 100)
SHAPE = (2, 3, 3)


class Flat(nn.Module):
    """Batch normalisation, then a linear layer on all pixels."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(SHAPE[0])
        self.head = nn.Linear(math.prod(SHAPE), classes)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.norm(x).flatten(1))
        return scores


def nets(classes: int = 3) -> tuple[Flat, Flat]:
    with torch.random.fork_rng():
        torch.manual_seed(11)
        f, g = Flat(classes).double(), Flat(classes).double()
        nn.init.normal_(g.head.weight, std=2.0)
        for net in (f, g):
            net.norm.running_mean.uniform_(0.2, 0.6)
            net.norm.running_var.uniform_(0.5, 1.5)
    return f, g


def objective(counts: tuple[int, ...] = COUNTS, *, gamma: float = 0.5, beta: float = 0.999) -> Translating:
    _, g = nets(len(counts))
    made = Translating(counts, beta=beta, gamma=gamma, lam=0.5, loss=None)
    made.keep(g)
    return made


def batch_of(y: list[int], seed: int = 0, u: Tensor | None = None) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(len(y), *SHAPE, generator=generator, dtype=torch.float64)
    drawn = torch.rand(len(y), 4, generator=generator) if u is None else u
    order = torch.arange(len(y))
    return Batch(torch.zeros_like(x), order % 3, order, order, {"translate": drawn}, Images(x, torch.tensor(y)))


def clock(epoch: int) -> Clock:
    return Clock(torch.tensor(epoch), torch.tensor(0.1), 10)


def slowly_translated(f: Flat, g: Flat, batch: Batch, *, gamma: float) -> tuple[Tensor, list[bool]]:
    """Image by image, from the formula; random numbers are used in the order mark, pick, accept, noise."""
    assert batch.extra is not None
    x, y = batch.extra
    f, g = copy.deepcopy(f).eval(), copy.deepcopy(g).eval()
    size = len(y)
    plans: list[tuple[int, float] | None] = []
    for i in range(size):
        k = int(y[i])
        mark, pick = (float(v) for v in batch.u["translate"][i, :2])
        q = [1 - 0.999 ** max(COUNTS[int(y[j])] - COUNTS[k], 0) for j in range(size)]
        if mark >= 1 - COUNTS[k] / COUNTS[0] or sum(q) == 0:
            plans.append(None)
            continue
        j = next(j for j in range(size) if sum(q[: j + 1]) > pick * sum(q))
        plans.append((j, q[j]))
    generated = sum(plan is not None for plan in plans)
    result, replaced = x.clone(), [False] * size
    for i, plan in enumerate(plans):
        if plan is None:
            continue
        (j, q_ij), k = plan, y[i]
        noise = _directions(batch.u["translate"][i : i + 1, 3], x[i : i + 1])[0]
        image = (x[j] + 0.5 * math.sqrt(SHAPE[0]) / math.sqrt(generated) * noise).clamp(0, 1)
        for _ in range(10):
            image.requires_grad_()
            energy = -torch.log_softmax(g(image[None])[0], 0)[k] + 0.5 * f(image[None])[0, y[j]]
            (slope,) = torch.autograd.grad(energy, image)
            image = (image - 0.1 * slope / (slope.square().sum().sqrt() + 1e-10)).clamp(0, 1).detach()
        if torch.softmax(g(image[None])[0], 0)[k] >= gamma and batch.u["translate"][i, 2] < q_ij:
            result[i], replaced[i] = image, True
    return result, replaced


@pytest.mark.parametrize("seed", range(4))
def test_translation_is_the_slow_one(seed: int) -> None:
    f, g = nets()
    batch = batch_of([0, 1, 2, 2, 1, 0, 2, 1, 2, 0], seed)
    found = objective().translated(f, batch)
    wanted, replaced = slowly_translated(f, g, batch, gamma=0.5)
    assert 0 < sum(replaced) < 7
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-7)


def test_how_welcome_an_origin_is_on_cifar() -> None:
    chances = objective(CIFAR).chances(torch.arange(10))
    wanted = [0, 0.86521, 0.95947, 0.98026, 0.98719, 0.99010, 0.99152, 0.99228, 0.99270, 0.99293]
    torch.testing.assert_close(chances[:, 0], torch.tensor(wanted), rtol=0, atol=6e-6)
    assert not chances.triu().any(), "a class is never the origin of a larger one"


@pytest.mark.parametrize(("offset", "changes"), [(-1e-3, True), (1e-3, False)])
def test_an_image_is_marked_by_the_size_of_its_class(offset: float, changes: bool) -> None:
    u = torch.full((10, 4), 0.5)
    u[:, 0] = 1 - torch.tensor(KEPT) + offset
    u[:, 2] = 0.0
    batch = batch_of(list(range(10)), u=u)
    f, _ = nets(10)
    found = objective(CIFAR, gamma=0.0, beta=1e-6).translated(f, batch)
    assert batch.extra is not None
    changed = (found != batch.extra.x).flatten(1).any(1)
    assert not changed[0]
    assert (changed[1:] == changes).all()


def test_normalised_images_are_translated_as_plain_ones() -> None:
    f, _ = nets()
    made, batch = objective(), batch_of([0, 1, 2, 2, 1, 0, 2, 1, 2, 0])
    assert batch.extra is not None
    plain = made.translated(f, batch)
    assert not torch.equal(plain, batch.extra.x)
    mean, std = (torch.tensor(v, dtype=torch.float64).view(2, 1, 1) for v in ((0.4, 0.5), (0.2, 0.3)))

    class Undone(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor) -> Tensor:
            scores: Tensor = self.net(x * std + mean)
            return scores

    made.keep(Undone(made.first))
    normal = batch._replace(
        extra=Images((batch.extra.x - mean) / std, batch.extra.y), pixels=PixelRange(-mean / std, (1 - mean) / std)
    )
    torch.testing.assert_close(made.translated(Undone(f), normal) * std + mean, plain)


def test_the_last_fifth_learns_from_the_translated_second_stream() -> None:
    f, _ = nets()
    made, batch = objective(), batch_of([0, 1, 2, 2, 1, 0, 2, 1, 2, 0])
    twin = copy.deepcopy(f)
    assert [made.phase_at(epoch, 10) for epoch in (0, 7, 8, 9)] == [0, 0, 1, 1]
    torch.testing.assert_close(made(f, batch, clock(7)), F.cross_entropy(twin(batch.x), batch.y))
    translated = made.translated(twin, batch)
    assert batch.extra is not None
    made.phase = 1
    torch.testing.assert_close(made(f, batch, clock(8)), F.cross_entropy(twin(translated), batch.extra.y))
    assert f.training
    # Statistics have followed the two real forward passes and no image on its way.
    torch.testing.assert_close(f.norm.running_mean, twin.norm.running_mean)


def test_noise_is_of_unit_length_and_depends_on_the_number_alone() -> None:
    like = torch.zeros(64, 3, 8, 8)
    u = torch.rand(64, generator=torch.Generator().manual_seed(0))
    state = torch.get_rng_state()
    noise = _directions(u, like).flatten(1)
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(noise.norm(dim=1), torch.ones(64))
    assert torch.equal(noise, _directions(u, like).flatten(1))
    cosines = noise @ noise.T - torch.eye(64)
    assert cosines.abs().max() < 6 / math.sqrt(192)
    assert abs(cosines.sum() / (64 * 63)) < 0.005
    assert noise.mean().abs() < 0.01 / math.sqrt(192) * 5
    assert abs(float((noise[:, :-1] * noise[:, 1:]).sum(1).mean())) < 0.05


def test_f_starts_again_and_g_is_what_was_trained() -> None:
    problem = Problem((24, 12, 6), "long_tailed", "digits", ("input", "group1", "group2", "group3"), "group2")
    for ldam in (False, True):
        method = make_method("m2m", problem, {"ldam": ldam})
        net = build_net("small", channels=1, classes=3, seed=0, head=method.head)
        net.backbone.group1.norm.running_mean.fill_(5)  # type: ignore[union-attr, operator]
        trained = copy.deepcopy(net.state_dict())
        second = method.stages[1]
        assert second.reshape is not None
        with torch.random.fork_rng():
            second.reshape(net)
        kept = {n.removeprefix("first."): v for n, v in second.objective.state_dict().items() if n.startswith("first.")}
        assert kept.keys() == trained.keys()
        assert all(torch.equal(value, trained[name]) for name, value in kept.items())
        weights = [name for name in net.state_dict() if "conv" in name]
        assert weights
        assert not any(torch.equal(net.state_dict()[name], trained[name]) for name in weights)
        assert net.backbone.group1.norm.running_mean.abs().max() == 0  # type: ignore[union-attr, operator]
        assert isinstance(net.head, CosineHead) == ldam
        assert not any(p.requires_grad for p in second.objective.parameters())


@pytest.mark.parametrize("options", [{"beta": 0}, {"beta": 1}, {"gamma": 1.1}, {"gamma": -0.1}])
def test_numbers_that_cannot_be_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="both lie between 0 and 1"):
        make_method("m2m", Problem(COUNTS, "long_tailed"), options)

"""Optimisers on flat parameters against PyTorch's, and what a value that is not a number does to them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from procrustean.engine.optimizer import SGD, AdamW, FlatBuffers, FlatParameters
from procrustean.nets import Classifier, build_net

SETTINGS = [
    {"momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay}
    for momentum, nesterov, weight_decay in itertools.product([0.0, 0.9], [False, True], [0.0, 5e-3])
    if momentum or not nesterov
]
USUAL = {"momentum": 0.9, "nesterov": False, "weight_decay": 5e-4}


class Trainer:
    """A network, its flat state and its optimiser."""

    def __init__(self, low: torch.dtype | None = None, lr: float = 0.05, **settings: Any) -> None:
        self.net: Classifier = build_net("small", channels=3, classes=4, seed=0)
        names = [name for name, _ in self.net.named_parameters()]
        self.parameters = FlatParameters(self.net, names, low)
        self.buffers = FlatBuffers(self.net, torch.device("cpu"))
        self.lr = torch.tensor(lr)
        self.optimizer = SGD(self.parameters, self.buffers, lr=self.lr, **{**USUAL, **settings})
        self.low = low

    def step(self, x: Tensor, y: Tensor, *, spoil: float | None = None) -> float:
        self.buffers.remember()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.low is not None):
            loss = F.cross_entropy(self.net(x).float(), y)
        gradients = torch.autograd.grad(loss, self.parameters.parameters)
        if spoil is not None:
            gradients[3][(0,) * gradients[3].dim()] = spoil
        self.optimizer.step(loss, gradients)
        return loss.item()

    def state(self) -> dict[str, Tensor]:
        weights = {f"weight.{n}": v for n, v in self.net.state_dict().items() if v.is_floating_point()}
        return copy.deepcopy({**weights, "master": self.parameters.master, "velocity": self.optimizer.velocity})


def batches(count: int) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(8, 3, 8, 8, generator=generator), torch.randint(4, (8,), generator=generator))
        for _ in range(count)
    ]


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("settings", SETTINGS)
def test_twenty_steps_of_pytorch(settings: dict[str, Any]) -> None:
    trainer = Trainer(lr=0.02, **settings)
    net = build_net("small", channels=3, classes=4, seed=0).to(memory_format=torch.channels_last)
    reference = torch.optim.SGD(net.parameters(), lr=0.02, **settings)
    for x, y in batches(20):
        trainer.step(x, y)
        reference.zero_grad()
        F.cross_entropy(net(x), y).backward()
        reference.step()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(trainer.net.state_dict()[name], value, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("backbone", [1.0, 0.1])
def test_twenty_steps_of_pytorch_s_adamw(decay: float, backbone: float) -> None:
    net, ours = (build_net("small", channels=3, classes=4, seed=0).double() for _ in range(2))
    groups = [{"params": net.head.parameters()}, {"params": net.backbone.parameters(), "lr": 0.01 * backbone}]
    reference = torch.optim.AdamW(groups, lr=0.01, weight_decay=decay)
    with default_dtype(torch.float64):
        parameters = FlatParameters(ours, [name for name, _ in ours.named_parameters()], None)
        buffers = FlatBuffers(ours, torch.device("cpu"))
        settings: dict[str, Any] = {"momentum": 0.9, "weight_decay": decay, "rates": {"backbone": backbone}}
        optimizer = AdamW(parameters, buffers, lr=torch.tensor(0.01), **settings)
    for x, y in batches(20):
        buffers.remember()
        loss = F.cross_entropy(ours(x.double()), y)
        optimizer.step(loss, torch.autograd.grad(loss, parameters.parameters))
        reference.zero_grad()
        F.cross_entropy(net(x.double()), y).backward()
        reference.step()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, atol=1e-9, rtol=1e-9)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


def test_adamw_keeps_its_moments_after_a_step_that_is_not_finite() -> None:
    net = build_net("small", channels=3, classes=4, seed=0)
    parameters = FlatParameters(net, [name for name, _ in net.named_parameters()], None)
    buffers = FlatBuffers(net, torch.device("cpu"))
    optimizer = AdamW(parameters, buffers, lr=torch.tensor(0.01), momentum=0.9, weight_decay=0.0)
    for number, (x, y) in enumerate(batches(3)):
        before = copy.deepcopy({**optimizer.state(), "master": parameters.master})
        buffers.remember()
        loss = F.cross_entropy(net(x), y) * (torch.inf if number == 2 else 1)
        optimizer.step(loss, torch.autograd.grad(loss, parameters.parameters))
    assert_same({**optimizer.state(), "master": parameters.master}, before)
    assert float(optimizer.state()["optimizer.steps"]) == 2


def test_the_rate_is_read_from_its_tensor() -> None:
    trainer, (x, y) = Trainer(momentum=0.0, weight_decay=0.0), batches(1)[0]
    before = trainer.parameters.master.clone()
    trainer.lr.fill_(0.0)
    trainer.step(x, y)
    assert torch.equal(trainer.parameters.master, before)
    trainer.lr.fill_(0.5)
    trainer.step(x, y)
    torch.testing.assert_close(trainer.parameters.master, before - 0.5 * trainer.parameters.gradient)


def test_training_lowers_the_loss() -> None:
    trainer, (x, y) = Trainer(), batches(1)[0]
    losses = [trainer.step(x, y) for _ in range(20)]
    assert losses[-1] < 0.3 * losses[0]


def test_working_copies_are_the_masters_rounded() -> None:
    trainer = Trainer(torch.bfloat16)
    for x, y in batches(5):
        trainer.step(x, y)
        for name, master in trainer.parameters.named(trainer.parameters.master):
            parameter = trainer.net.get_parameter(name)
            assert torch.equal(parameter, master.to(parameter.dtype)), name
    kept = [p for p in trainer.net.parameters() if p.dtype == torch.bfloat16]
    assert len(kept) == 5


def test_masters_collect_updates_too_small_for_bf16() -> None:
    trainer = Trainer(torch.bfloat16, lr=1e-5, momentum=0.0, weight_decay=0.0)
    before = trainer.parameters.master.clone()
    for _ in range(4):
        trainer.step(*batches(1)[0])
    moved = (trainer.parameters.master - before).abs()
    assert moved.max() > 0
    assert (moved > 0).float().mean() > 0.5


@pytest.mark.parametrize("low", [None, torch.bfloat16])
@pytest.mark.parametrize("spoil", [float("nan"), float("inf"), float("-inf")])
def test_a_bad_gradient_changes_nothing_then_or_later(low: torch.dtype | None, spoil: float) -> None:
    trainer = Trainer(low)
    data = batches(6)
    for x, y in data[:3]:
        trainer.step(x, y)
    before = trainer.state()
    trainer.step(*data[3], spoil=spoil)
    assert not trainer.optimizer.healthy
    assert_same(trainer.state(), before)
    trainer.step(*data[4])  # a good one: too late
    assert not trainer.optimizer.healthy
    assert_same(trainer.state(), before)


def test_bad_images_do_not_reach_the_statistics() -> None:
    trainer = Trainer()
    (x, y), (more, labels) = batches(2)
    trainer.step(x, y)
    before = trainer.state()
    more[0, 0, 0, 0] = torch.nan
    trainer.step(more, labels)
    assert_same(trainer.state(), before)
    assert all(bool(value.isfinite().all()) for value in trainer.state().values())


def test_a_bad_loss_alone_is_enough() -> None:
    trainer = Trainer()
    before = trainer.state()
    trainer.buffers.remember()
    good = tuple(torch.ones_like(p) for p in trainer.parameters.parameters)
    trainer.optimizer.step(torch.tensor(torch.inf), good)
    assert not trainer.optimizer.healthy
    assert_same(trainer.state(), before)


def test_a_network_of_one_layer_without_statistics() -> None:
    net = nn.Linear(3, 2)
    parameters = FlatParameters(net, ["weight", "bias"], None)
    optimizer = SGD(parameters, FlatBuffers(net, torch.device("cpu")), lr=torch.tensor(0.1), **USUAL)
    before = net.weight.detach().clone()
    optimizer.step(torch.tensor(0.0), (torch.ones(2, 3), torch.ones(2)))
    torch.testing.assert_close(net.weight.detach(), before - 0.1 * (1 + 5e-4 * before))

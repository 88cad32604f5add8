"""Values that are no numbers never reach the weights, however they come about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from procrustean.base import RunError
from procrustean.data import Splits
from procrustean.engine.optimizer import SGD, FlatBuffers, FlatParameters
from procrustean.records import RunSpec
from procrustean.runs import fit, fit_many
from saved_states import saved_states, state


def optimiser(net: nn.Module, lr: float) -> SGD:
    parameters = FlatParameters(net, [name for name, _ in net.named_parameters()], None)
    buffers = FlatBuffers(net, torch.device("cpu"))
    return SGD(parameters, buffers, lr=torch.tensor(lr), momentum=0.9, nesterov=False, weight_decay=0.0)


def step(sgd: SGD, gradient: float, loss: float = 1.0) -> None:
    gradients = tuple(torch.full_like(parameter, gradient) for parameter in sgd.parameters.parameters)
    sgd.step(torch.tensor(loss), gradients)


@pytest.mark.parametrize("gradient", [1e38, -1e38, float("inf"), float("nan")])
def test_an_update_that_overflows_is_not_made(gradient: float) -> None:
    """A gradient may be finite and the weight it leads to not."""
    sgd = optimiser(nn.Linear(3, 2), lr=1e3)
    before = sgd.parameters.master.clone()
    sgd.buffers.remember()
    step(sgd, gradient)
    assert not bool(sgd.healthy)
    assert torch.equal(sgd.parameters.master, before)
    assert torch.equal(sgd.velocity, torch.zeros_like(before))


def test_a_velocity_that_overflows_is_not_kept() -> None:
    sgd = optimiser(nn.Linear(3, 2), lr=0.0)
    sgd.buffers.remember()
    step(sgd, 3e38)
    kept = sgd.velocity.clone()
    step(sgd, 3e38)
    assert not bool(sgd.healthy)
    assert torch.equal(sgd.velocity, kept)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_statistics_that_overflow_are_put_back(value: float) -> None:
    """Batch normalisation turns an infinite variance into zeros, and the loss stays finite."""
    net = nn.BatchNorm1d(3)
    sgd = optimiser(net, lr=0.1)
    sgd.buffers.remember()
    net.running_var[1] = value
    step(sgd, 0.5)
    assert not bool(sgd.healthy)
    assert torch.equal(net.running_var, torch.ones(3))
    assert torch.equal(net.weight.data, torch.ones(3))


def test_infinities_that_belong_to_the_network_are_no_failure() -> None:
    net = nn.Linear(2, 2)
    net.register_buffer("mask", torch.tensor([0.0, float("-inf")]))
    sgd = optimiser(net, lr=0.1)
    sgd.buffers.remember()
    step(sgd, 0.5)
    assert bool(sgd.healthy)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_no_checkpoint_ever_holds_a_weight_that_is_no_number(
    precision: str, splits: Splits, tiny: dict[str, Any], tmp_path: Path
) -> None:
    """The first update overflows: without a look at the updated weights it would be saved before anybody noticed."""
    with pytest.raises(
        RunError, match=r"non-finite loss, gradient or weight in epoch 1, step \d, on training images"
    ) as refused:
        fit(splits, **{**tiny, "precision": precision}, lr=1e38, checkpoint_every=0, run_dir=tmp_path / "run")
    assert ("or precision fp32" in str(refused.value)) == (precision == "bf16")  # no advice where it is that already
    for back in range(len(saved_states(tmp_path / "run"))):
        assert all(bool(torch.isfinite(tensor).all()) for tensor in state(tmp_path / "run", back)[0].values())


def test_in_a_grid_the_others_go_on(npz: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    rates = {"good": 0.05, "bad": 1e38, "also good": 0.1}
    configs = [RunSpec(source=str(npz), **tiny, lr=lr, run_dir=tmp_path / name) for name, lr in rates.items()]
    good, bad, also_good = fit_many(configs, width=3)
    assert good.error is None
    assert also_good.error is None
    assert "non-finite" in str(bad.error)

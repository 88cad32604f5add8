"""CMO's box, its labels and its loss against slow references."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import Batch, Clock, Problem, class_balanced, effective_number
from procrustean.balance.types import Images
from procrustean.base import ConfigError
from procrustean.methods import make_method
from procrustean.methods.cmo import Pasting

COUNTS = (50, 20, 5)
PROBLEM = Problem(COUNTS, "long_tailed", "cifar100")
EPOCHS = 20
SIZE = (10, 7)


def pasting(**options: Any) -> Pasting:
    objective = make_method("cmo", PROBLEM, options).stages[0].objective
    assert isinstance(objective, Pasting)
    return objective


def clock(epoch: int) -> Clock:
    return Clock(torch.tensor(epoch), torch.tensor(0.1), EPOCHS)


def batch_with(*numbers: float) -> Batch:
    """Numbers: coin, share, row and column of the centre; those of other samples than the first do not count."""
    torch.manual_seed(0)
    x, other = torch.randn(2, 5, 2, *SIZE, dtype=torch.float64)
    u = torch.rand(5, 4)
    u[0] = torch.tensor(numbers)
    order = torch.arange(5)
    labels = torch.tensor([0, 0, 1, 0, 2]), torch.tensor([2, 1, 0, 1, 2])
    return Batch(x, labels[0], order, order, {"paste": u}, Images(other, labels[1]))


def slow_box(share: float, row: float, column: float) -> list[list[bool]]:
    cut = math.sqrt(1 - share)
    inside = []
    for size, place in zip(SIZE, (row, column), strict=True):
        half, centre = int(size * cut) // 2, int(size * place)
        inside.append(range(max(centre - half, 0), min(centre + half, size)))
    return [[i in inside[0] and j in inside[1] for j in range(SIZE[1])] for i in range(SIZE[0])]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.75, 0.999])
@pytest.mark.parametrize("place", [(0.5, 0.5), (0.0, 0.99), (0.95, 0.1)])
def test_the_box_equals_the_slow_reference(share: float, place: tuple[float, float]) -> None:
    mask = pasting().mask(batch_with(0.1, share, *place), clock(10))
    assert mask.tolist() == slow_box(share, *place)


def test_it_is_active_from_epoch_4_to_4_before_the_end() -> None:
    batch = batch_with(0.1, 0.5, 0.5, 0.5)
    active = [epoch for epoch in range(EPOCHS) if pasting().mask(batch, clock(epoch)).any()]
    assert active == list(range(4, EPOCHS - 3))


@pytest.mark.parametrize(
    ("coin", "probability", "pasted"), [(0.49, 0.5, True), (0.5, 0.5, False), (0.99, 1.0, True), (0.0, 0.0, False)]
)
def test_the_coin_decides_for_the_batch(coin: float, probability: float, pasted: bool) -> None:
    mask = pasting(probability=probability).mask(batch_with(coin, 0.3, 0.5, 0.5), clock(10))
    assert bool(mask.any()) == pasted


class Linear(nn.Module):
    """Scores that are a linear function of the pixels; keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2 * SIZE[0] * SIZE[1], 3, dtype=torch.float64)
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        scores: Tensor = self.layer(x.flatten(1))
        return scores


def slow_loss(net: Linear, batch: Batch, box: list[list[bool]], shift: list[float], weights: list[float]) -> float:
    assert batch.extra is not None
    x = batch.x.clone()
    for i in range(SIZE[0]):
        for j in range(SIZE[1]):
            if box[i][j]:
                x[:, :, i, j] = batch.extra.x[:, :, i, j]
    share = sum(map(sum, box)) / (SIZE[0] * SIZE[1])
    scores = net(x) + torch.tensor(shift, dtype=torch.float64)
    log_p = scores.log_softmax(1).tolist()
    total = 0.0
    for part, labels in ((1 - share, batch.y.tolist()), (share, batch.extra.y.tolist())):
        costs = [-weights[c] * log_p[n][c] for n, c in enumerate(labels)]
        total += part * sum(costs) / sum(weights[c] for c in labels)
    return total


@pytest.mark.parametrize(
    ("options", "epoch"), [({}, 10), ({"loss": "balanced_softmax"}, 10), ({"drw": True}, 10), ({"drw": True}, 16)]
)
def test_the_loss_equals_the_slow_reference(options: dict[str, Any], epoch: int) -> None:
    torch.manual_seed(1)
    net, batch = Linear(), batch_with(0.2, 0.4, 0.8, 0.4)
    shift = [math.log(n) for n in COUNTS] if "loss" in options else [0.0] * 3
    weights = effective_number(COUNTS).tolist() if options.get("drw") and epoch >= 16 else [1.0] * 3
    box = slow_box(0.4, 0.8, 0.4)
    assert 0 < sum(map(sum, box)) < 70
    wanted = slow_loss(net, batch, box, shift, weights)
    assert pasting(**options)(net, batch, clock(epoch)).item() == pytest.approx(wanted, rel=1e-5)


def test_without_pasting_it_is_cross_entropy() -> None:
    net, batch = Linear(), batch_with(0.9, 0.4, 0.8, 0.4)
    loss = pasting()(net, batch, clock(10))
    assert torch.equal(net.seen[0], batch.x)
    torch.testing.assert_close(loss, nn.functional.cross_entropy(net(batch.x), batch.y))


def test_a_box_over_the_whole_image_leaves_the_second_stream_alone() -> None:
    net, batch = Linear(), batch_with(0.1, 0.0, 0.5, 0.5)
    batch.u["paste"][0, 2:] = torch.tensor([0.5, 0.5])
    assert batch.extra is not None
    mask = pasting().mask(batch, clock(10))
    pasting()(net, batch, clock(10))
    assert torch.equal(net.seen[0][..., mask], batch.extra.x[..., mask])
    assert torch.equal(net.seen[0][..., ~mask], batch.x[..., ~mask])


def test_patches_show_all_classes_alike() -> None:
    stage = make_method("cmo", PROBLEM).stages[0]
    assert stage.extra is class_balanced
    assert stage.sampler is None


def test_class_sizes_are_not_counted_twice() -> None:
    with pytest.raises(ConfigError, match="would count the class sizes twice"):
        make_method("cmo", PROBLEM, {"loss": "balanced_softmax", "drw": True})


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_a_probability_that_cannot_be_is_refused(probability: float) -> None:
    with pytest.raises(ConfigError, match="probability = "):
        make_method("cmo", PROBLEM, {"probability": probability})

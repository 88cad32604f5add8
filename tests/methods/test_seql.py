"""SEQL; tests/balance/test_losses.py has what it shares with the other losses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from procrustean.balance import CrossEntropy
from procrustean.base import ConfigError, DataError
from procrustean.methods import SEQL

C10_LONG_TAILED = (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
COUNTS = (400, 90, 20, 4)
UNIFORMS = torch.rand(9, 4, generator=torch.Generator().manual_seed(7))


def scores(size: int = 9) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(size, 4, generator=generator), torch.randint(4, (size,), generator=generator)


@pytest.mark.parametrize("options", [{"gamma": 0.0}, {"lam": 0.0}])
def test_limits_are_cross_entropy(options: dict[str, float]) -> None:
    logits, y = scores()
    assert torch.equal(SEQL(COUNTS, **{"lam": 0.5, **options})(logits, y, UNIFORMS), CrossEntropy()(logits, y))


@pytest.mark.parametrize(
    ("counts", "lam", "rare"),
    [
        (C10_LONG_TAILED, 0.05, 5),
        (C10_LONG_TAILED, None, 5),
        (tuple(int(500 * 0.01 ** (i / 99)) for i in range(100)), 0.005, 52),
        (tuple(int(500 * 0.02 ** (i / 99)) for i in range(100)), 0.006, 52),
    ],
)
def test_rare_classes(counts: tuple[int, ...], lam: float | None, rare: int) -> None:
    assert SEQL(counts, lam=lam).rare.tolist() == [False] * (len(counts) - rare) + [True] * rare


def test_the_label_always_stays() -> None:
    logits, _ = scores(size=1)
    y = torch.tensor([3])
    found = SEQL(COUNTS, gamma=1.0, lam=1.0)(logits, y, torch.zeros(1, 4))
    assert found.item() == 0.0  # nothing else is left


def test_alone_it_draws_from_torchs_generator() -> None:
    counts, size = (1000, 10, 10), 4000
    logits = torch.zeros(size, 3)
    y = torch.zeros(size, dtype=torch.int64)
    loss = SEQL(counts, gamma=0.9, lam=0.1, reduction="none")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        first, second = loss(logits, y), loss(logits, y)
        torch.manual_seed(3)
        assert torch.equal(loss(logits, y), first)
    assert not torch.equal(first, second)
    # exp of the loss is the number of classes left; each of the two rare ones stays with probability 0.1.
    left = first.exp().round()
    shares = [(left == n).float().mean().item() for n in (1, 2, 3)]
    assert shares == pytest.approx([0.81, 0.18, 0.01], abs=0.02)


def test_left_out_classes_get_no_gradient() -> None:
    logits, y = scores()
    logits.requires_grad_()
    loss = SEQL(COUNTS, gamma=0.7, lam=0.2)
    loss(logits, y, UNIFORMS).backward()
    assert logits.grad is not None
    left_out = (UNIFORMS < 0.7) & loss.rare & (torch.arange(4) != y[:, None])
    alone = left_out.sum(1, keepdim=True) == 3  # then the loss of the sample is 0 itself
    assert torch.equal(logits.grad == 0, left_out | alone)
    assert left_out[~alone.squeeze(1)].any()


def test_what_it_needs_drawn() -> None:
    assert dict(SEQL(COUNTS).draws) == {"seql": (4,)}
    with pytest.raises(DataError, match=r"uniforms of shape \(9, 3\) for logits of shape \(9, 4\)"):
        SEQL(COUNTS)(*scores(), UNIFORMS[:, :3])


def test_settings_out_of_range() -> None:
    with pytest.raises(ConfigError, match=r"gamma = 1\.5 received; a probability"):
        SEQL(COUNTS, gamma=1.5)
    with pytest.raises(ConfigError, match="lam = 50 received; it is a share of all images"):
        SEQL(COUNTS, lam=50)

from __future__ import annotations

import pytest

from procrustean.runs.cost import BUDGET, Machine
from procrustean.runs.training_advice import (
    FEWEST_EPOCHS,
    MOST_EPOCHS,
    PRETRAINED_EPOCHS,
    batch_for,
    from_scratch,
    scratch_length,
    settings_of,
)

CPU = Machine("cpu", 2, BUDGET["cpu"])
GPU = Machine("cuda", 16, BUDGET["cuda"])


@pytest.mark.parametrize("machine", [CPU, GPU], ids=lambda machine: machine.device)
@pytest.mark.parametrize("side", [4, 8, 32, 64, 100, 500])
@pytest.mark.parametrize("images", [40, 500, 3000, 50_000])
def test_images_are_never_enlarged_and_the_training_never_too_short(machine: Machine, side: int, images: int) -> None:
    found = from_scratch(images, side, 3, machine, resizable=True)
    assert found.size <= min(side, 64)
    assert found.epochs >= FEWEST_EPOCHS
    assert found.epochs * -(-images // found.batch_size) >= 600 or side < 8
    assert from_scratch(images, side, 3, machine, resizable=False).size == side


def test_images_become_smaller_where_time_is_short() -> None:
    sides = [from_scratch(images, 64, 3, Machine("cpu", 1, 600.0), resizable=True).size for images in (300, 1200, 3000)]
    assert sides == sorted(sides, reverse=True)
    assert (sides[0], sides[-1]) == (64, 32)


def test_a_named_network_gets_the_epochs_that_a_training_needs() -> None:
    hasty = Machine("cpu", 1, 1.0)
    assert settings_of("resnet32", 64, 3000, 3, hasty).epochs == FEWEST_EPOCHS
    assert settings_of("resnet18", 64, 30_000, 3, hasty, pretrained=True).epochs == PRETRAINED_EPOCHS
    assert settings_of("small", 32, 300, 3, CPU).epochs == MOST_EPOCHS


def test_batches_grow_with_the_images() -> None:
    assert [batch_for(n, 64, CPU) for n in (50, 500, 5000, 50_000)] == [16, 32, 64, 64]
    assert batch_for(50_000, 64, GPU) == 128
    assert [batch_for(64 * 40 + 1, side, CPU) for side in (32, 64)] == [65, 64]


def test_very_few_images_get_batches_that_make_three_steps() -> None:
    assert [batch_for(n, 64, CPU) for n in (47, 24, 23, 12, 5)] == [8, 8, 4, 4, 4]
    assert all(-(-n // batch_for(n, side, CPU)) >= 3 for side in (32, 64) for n in range(10, 300))


def test_no_image_is_alone_in_the_last_batch_where_that_cannot_be_normalised() -> None:
    assert [n for n in range(2, 5000) if n % batch_for(n, 32, CPU) == 1] == []
    assert [n for n in range(2, 5000) if n % scratch_length(n, 32)[1] == 1] == []
    assert batch_for(1, 32, CPU) == 4


def test_more_cores_more_epochs() -> None:
    slow, fast = Machine("cpu", 1, 120.0), Machine("cpu", 16, 120.0)
    assert settings_of("resnet20", 32, 3000, 3, fast).epochs > settings_of("resnet20", 32, 3000, 3, slow).epochs

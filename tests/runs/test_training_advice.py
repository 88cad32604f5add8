from __future__ import annotations

import pytest

from procrustean.data import RECIPES
from procrustean.runs.cost import BUDGET, Machine
from procrustean.runs.training_advice import (
    FEWEST_EPOCHS,
    MOST_EPOCHS,
    PRETRAINED_EPOCHS,
    at_least_fewest,
    batch_for,
    choose_settings,
    settings_of,
)

CPU = Machine("cpu", 2, BUDGET["cpu"])
GPU = Machine("cuda", 16, BUDGET["cuda"])


@pytest.mark.parametrize("machine", [CPU, GPU], ids=lambda machine: machine.device)
@pytest.mark.parametrize("side", [8, 32, 64, 100, 500])
@pytest.mark.parametrize("images", [40, 500, 3000, 50_000])
def test_settings_stay_within_the_budget_and_never_enlarge(machine: Machine, side: int, images: int) -> None:
    found = choose_settings(images, side, 3, machine)
    assert found.size <= side
    assert 1 <= found.epochs <= MOST_EPOCHS
    assert found.seconds <= machine.budget or found.epochs == 1
    usual = RECIPES["images"][0]
    assert 0.5 <= (found.lr / found.batch_size) / (usual.lr / usual.batch_size) <= 2.01


def test_a_cpu_gets_what_it_can_train() -> None:
    few, many = choose_settings(300, 64, 3, CPU), choose_settings(3000, 64, 3, CPU)
    assert (few.net, few.size) == ("resnet20", 32)
    assert (many.net, many.size) == ("small", 32)
    assert many.epochs >= FEWEST_EPOCHS


def test_a_gpu_gets_larger_networks() -> None:
    assert choose_settings(3000, 500, 3, GPU).net == "resnet18"
    assert choose_settings(3000, 64, 3, GPU).net == "resnet18-s2"
    assert choose_settings(3000, 32, 3, GPU).net == "resnet32"


def test_a_named_network_gets_the_epochs_that_a_training_needs() -> None:
    short = settings_of("resnet32", 64, 3000, 3, CPU)
    enough = at_least_fewest(short)
    assert (short.epochs < FEWEST_EPOCHS, enough.epochs) == (True, FEWEST_EPOCHS)
    assert enough.seconds == pytest.approx(short.seconds * FEWEST_EPOCHS / short.epochs)
    tuned = at_least_fewest(settings_of("resnet18", 64, 30_000, 3, CPU, pretrained=True))
    assert tuned.epochs == PRETRAINED_EPOCHS
    long = settings_of("small", 32, 300, 3, CPU)
    assert at_least_fewest(long) is long


def test_batches_grow_with_the_images() -> None:
    assert [batch_for(n, 64, CPU) for n in (50, 500, 5000, 50_000)] == [16, 32, 64, 64]
    assert batch_for(50_000, 64, GPU) == 128
    assert [batch_for(64 * 40 + 1, side, CPU) for side in (32, 64)] == [65, 64]


def test_very_few_images_get_batches_that_make_three_steps() -> None:
    assert [batch_for(n, 64, CPU) for n in (47, 24, 23, 12, 5)] == [8, 8, 4, 4, 4]
    assert all(-(-n // batch_for(n, side, CPU)) >= 3 for side in (32, 64) for n in range(10, 300))


def test_no_image_is_alone_in_the_last_batch_where_that_cannot_be_normalised() -> None:
    assert [n for n in range(2, 5000) if n % batch_for(n, 32, CPU) == 1] == []
    assert batch_for(1, 32, CPU) == 4


def test_more_cores_more_epochs() -> None:
    slow, fast = Machine("cpu", 1, 120.0), Machine("cpu", 16, 120.0)
    assert settings_of("resnet20", 32, 3000, 3, fast).epochs > settings_of("resnet20", 32, 3000, 3, slow).epochs

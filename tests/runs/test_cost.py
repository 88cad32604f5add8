from __future__ import annotations

from dataclasses import replace

import pytest

from procrustean.base import ConfigError
from procrustean.records import RunSpec
from procrustean.runs import cost
from procrustean.runs.cost import TimeBox, multiply_adds, predicted_cost, predicted_seconds
from procrustean.runs.training_sizes import trained_images


def test_images_that_the_network_cannot_take_are_named() -> None:
    with pytest.raises(ConfigError, match=r"the network resnet12 cannot take images of 8 x 8 pixels: .*--net"):
        multiply_adds("resnet12", 3, 8)


def test_multiply_adds_are_the_published_ones() -> None:
    assert multiply_adds("resnet20", 3, 32) == pytest.approx(40.6e6, rel=0.01)
    assert multiply_adds("resnet18", 3, 224) == pytest.approx(1.81e9, rel=0.01)
    assert multiply_adds("small", 3, 64) == pytest.approx(4 * multiply_adds("small", 3, 32), rel=0.01)


def test_slow_methods_and_networks_cost_more() -> None:
    erm = RunSpec("cifar10", "step", 100, method="erm")
    assert predicted_cost(erm) == trained_images(erm) == 200 * 25250
    assert predicted_cost(replace(erm, method="bbn")) > 2 * predicted_cost(erm)
    assert predicted_cost(replace(erm, net="small")) < predicted_cost(erm)
    assert predicted_cost(replace(erm, method="meta_weight"), "cpu") > 5 * predicted_cost(erm, "cpu")
    assert predicted_cost(erm, "cuda") == predicted_cost(erm, "cpu")
    assert predicted_cost(replace(erm, precision="fp32")) > 2 * predicted_cost(erm)


@pytest.mark.parametrize(
    ("net", "cuda", "cpu"), [("small", 0.041, 0.051), ("resnet20", 0.589, 0.589), ("densenet121-s1", 17.0, 12.9)]
)
def test_what_networks_cost_on_gpus_and_on_cpus(net: str, cuda: float, cpu: float) -> None:
    erm = RunSpec("cifar10", "step", 100, method="erm")
    assert predicted_cost(replace(erm, net=net), "cuda") == pytest.approx(cuda * predicted_cost(erm, "cuda"), rel=0.02)
    assert predicted_cost(replace(erm, net=net), "cpu") == pytest.approx(cpu * predicted_cost(erm, "cpu"), rel=0.02)


def test_time_is_shared_out_but_one_run_is_not() -> None:
    assert predicted_seconds([], 100.0, 8) == 0
    assert predicted_seconds([100.0] * 8, 100.0, 8) == 8
    assert predicted_seconds([600.0], 100.0, 8) == pytest.approx(10)
    assert predicted_seconds([600.0], 100.0, 1) == 6


def test_larger_images_cost_more() -> None:
    small = RunSpec("tiny-imagenet", method="erm", net="resnet32")
    as_cifar = predicted_cost(replace(small, image_size=32))
    assert predicted_cost(small) == pytest.approx(4 * as_cifar, rel=0.01)


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [(9.0, 540 - 8), (0.5, 30 - 3), (0.0, 0.0)],  # time to save runs in progress, but of a short box a tenth at most
)
def test_the_time_is_up_while_there_is_some_left_to_save(minutes: float, seconds: float) -> None:
    times = iter([100.0, 100.0 + seconds - 0.1, 100.0 + seconds])
    box = TimeBox(minutes, lambda: next(times))
    assert box.deadline == 100 + 60 * minutes
    assert [box.is_over(), box.is_over()] == [False, True]


def test_the_minutes_count_from_when_the_command_began() -> None:
    assert TimeBox(1.0, lambda: 100.0, began=30.0).is_over()


def test_without_a_limit_it_is_never_up() -> None:
    box = TimeBox(None, lambda: 1e9)
    assert (box.deadline, box.is_over()) == (None, False)


def test_speed_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "SECONDS", 0.05)
    assert cost.measured_speed("small", 3, 8, 4, "cpu") > 0

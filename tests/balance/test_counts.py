"""Class counts: checks, geometric mean and spread, the rule that tells a step from a long tail."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from procrustean import MFW
from procrustean.balance import imbalance_kind, two_level_share
from procrustean.balance.count_facts import checked_counts, geometric_mean, spread
from procrustean.base import DataError

CIFAR10, CIFAR100, TINY_IMAGENET = (5000, 10), (500, 100), (500, 200)  # images of the largest class, classes
RATIOS = (2, 10, 50, 100, 200, 500, 1000)
LONG_TAILED_100 = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]

counts_of_classes = st.lists(st.integers(1, 100_000), min_size=2, max_size=12)


def long_tailed(largest: int, classes: int, rho: float) -> list[int]:
    return [int(largest * (1 / rho) ** (i / (classes - 1))) for i in range(classes)]


def step(largest: int, classes: int, rho: float) -> list[int]:
    return [largest] * (classes // 2) + [int(largest * (1 / rho))] * (classes - classes // 2)


def possible(setting: tuple[int, int]) -> list[tuple[int, int, int]]:
    return [(*setting, rho) for rho in RATIOS if setting[0] >= rho]


SETTINGS = [*possible(CIFAR10), *possible(CIFAR100), *possible(TINY_IMAGENET)]


def test_the_settings_cover_what_can_be_built() -> None:
    assert (5000, 10, 1000) in SETTINGS
    assert (500, 100, 500) in SETTINGS
    assert (500, 100, 1000) not in SETTINGS
    assert long_tailed(5000, 10, 100) == LONG_TAILED_100


@pytest.mark.parametrize(("largest", "classes", "rho"), SETTINGS)
def test_a_long_tail_is_long_tailed(largest: int, classes: int, rho: float) -> None:
    assert imbalance_kind(long_tailed(largest, classes, rho)) == "long_tailed"


@pytest.mark.parametrize(("largest", "classes", "rho"), SETTINGS)
def test_a_step_is_a_step(largest: int, classes: int, rho: float) -> None:
    assert imbalance_kind(step(largest, classes, rho)) == "step"


@pytest.mark.parametrize("classes", range(3, 12))
@pytest.mark.parametrize("rho", [2, 10, 100])
def test_few_classes_in_a_long_tail(classes: int, rho: int) -> None:
    assert imbalance_kind(long_tailed(1000, classes, rho)) == "long_tailed"


@pytest.mark.parametrize("classes", [3, 5, 7, 101])
def test_a_step_of_an_odd_number_of_classes(classes: int) -> None:
    assert imbalance_kind(step(500, classes, 100)) == "step"


@pytest.mark.parametrize("minor", [1, 2, 9])
def test_a_step_with_unequal_halves(minor: int) -> None:
    assert imbalance_kind([1000] * (10 - minor) + [10] * minor) == "step"


@pytest.mark.parametrize(
    ("counts", "kind"),
    [
        ([100, 5], "step"),
        ([5, 100], "step"),
        ([150, 100], "step"),
        ([149, 100], "long_tailed"),  # near equal
        ([100, 100], "long_tailed"),
        ([5000] * 10, "long_tailed"),
        ([101, 99, 100, 102], "long_tailed"),
        ([120, 120, 100, 100], "long_tailed"),  # two levels, but near equal
        ([2381, 214, 209], "step"),  # blood cells: one frequent, two rare kinds
        ([5000, 4900, 5100, 52, 50, 49], "step"),  # a step with some noise
        ([5000, 3000, 4000, 100, 40, 60], "step"),  # much noise
        ([5000, 1500, 3000, 200, 20, 60], "long_tailed"),  # too much
        ([1, 2, 4, 8, 16, 32], "long_tailed"),
    ],
)
def test_two_classes_and_natural_counts(counts: list[int], kind: str) -> None:
    assert imbalance_kind(counts) == kind


@pytest.mark.parametrize(
    ("file", "classes"),
    [("ImageNet_LT_train_cls_num.json", 1000), ("iNaturalist18_train_cls_num.json", 8142)],
)
def test_the_large_natural_sets_are_long_tailed(shared_dir: Path, file: str, classes: int) -> None:
    path = shared_dir / "data" / "lists" / file
    if not path.is_file():
        pytest.skip(f"needs the class counts in {path}")
    counts = json.loads(path.read_text())
    assert len(counts) == classes
    assert imbalance_kind(checked_counts(counts)) == "long_tailed"


@given(counts_of_classes, st.randoms())
def test_the_order_of_the_classes_does_not_matter(counts: list[int], random: object) -> None:
    shuffled = list(counts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert imbalance_kind(shuffled) == imbalance_kind(counts)
    assert spread(shuffled) == pytest.approx(spread(counts))


@given(counts_of_classes)
def test_two_level_share_against_every_split(counts: list[int]) -> None:
    logs = np.sort(np.log(np.array(counts, dtype=np.float64)))
    total = ((logs - logs.mean()) ** 2).sum()
    if min(counts) == max(counts):
        assert two_level_share(counts) == 0.0
        return
    within = [((part - part.mean()) ** 2).sum() for k in range(1, len(logs)) for part in (logs[:k], logs[k:])]
    best = max(1 - (left + right) / total for left, right in zip(within[::2], within[1::2], strict=True))
    assert two_level_share(counts) == pytest.approx(best, abs=1e-4)


def test_two_level_share_of_known_shapes() -> None:
    assert two_level_share([500, 500, 5, 5]) == pytest.approx(1.0)
    assert two_level_share([7, 7, 7]) == 0.0
    assert two_level_share(long_tailed(10**9, 1000, 10**6)) == pytest.approx(0.75, abs=1e-3)


@pytest.mark.parametrize(
    ("counts", "mean", "deviation"),
    [
        (LONG_TAILED_100, 499.57, 1537.04),
        (long_tailed(5000, 10, 10), 1580.71, 1424.38),
        (long_tailed(5000, 10, 200), 353.26, 1535.42),
        (long_tailed(500, 100, 100), 48.99, 127.57),
        (long_tailed(500, 100, 10), 157.49, 126.40),
        (long_tailed(500, 100, 200), 33.98, 124.51),
        (step(5000, 10, 100), 500.0, 2475.0),
        (step(500, 100, 100), 50.0, 247.5),
    ],
)
def test_geometric_mean_and_arithmetic_deviation(counts: list[int], mean: float, deviation: float) -> None:
    assert geometric_mean(counts) == pytest.approx(mean, abs=0.005)
    assert spread(counts, "arithmetic") == pytest.approx(deviation, abs=0.005)


def test_geometric_deviation_is_a_population_value() -> None:
    assert spread(LONG_TAILED_100) == pytest.approx(4.35, abs=0.005)
    assert spread(LONG_TAILED_100) == pytest.approx(math.exp(np.std(np.log(LONG_TAILED_100))))
    assert spread([10, 1000]) == pytest.approx(10.0)
    assert spread([7, 7, 7]) == 1.0
    assert spread([7, 7, 7], "arithmetic") == 0.0


@pytest.mark.parametrize(
    "counts", [[5, 3], (5, 3), np.array([5, 3]), np.array([5.0, 3.0]), torch.tensor([5, 3]), iter([5, 3])]
)
def test_counts_of_any_sequence(counts: object) -> None:
    checked = checked_counts(counts)  # type: ignore[arg-type]
    assert checked == (5, 3)
    assert all(type(n) is int for n in checked)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([5, 0, 3, 0], r"classes \[1, 3\] have no images"),
        ([5, -2, 0], r"classes \[1, 2\] have no images"),
        ([5, 2.5], r"class 1 has a count of 2\.5"),
        ([math.nan, 2], "class 0 has a count of nan"),
        ([math.inf, 2], "class 0 has a count of inf"),
        ([5], r"1 class\(es\)"),
        ([], r"0 class\(es\)"),
    ],
)
def test_counts_that_cannot_be(counts: list[float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        checked_counts(counts)


@pytest.mark.parametrize("counts", [["many", "few"], [5, None]])
def test_counts_that_are_no_numbers(counts: object) -> None:
    with pytest.raises(DataError, match="give one whole number of images per class"):
        checked_counts(counts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("counts", "kind"),
    [(None, "NoneType"), (5, "int"), ("a.csv", "str"), (b"52", "bytes"), ({5, 2}, "set"), (torch.tensor(5), "Tensor")],
)
def test_counts_that_are_not_several(counts: Any, kind: str) -> None:
    with pytest.raises(DataError, match=rf"counts of type {kind} received; give the training images of each class"):
        MFW(counts)


def test_counts_by_class_index() -> None:
    assert checked_counts(Counter([1, 0, 0, 2, 0])) == (3, 1, 1)
    for wrong in ({1: 500, 2: 50}, {"cat": 5, "dog": 3}):
        with pytest.raises(DataError, match="needs the class indices 0 to 1 as keys"):
            checked_counts(wrong)


def test_counts_of_pandas_are_in_the_order_of_the_classes() -> None:
    """`value_counts` puts the largest class first."""
    labels = pd.Series([2, 2, 2, 1, 0, 0])
    assert MFW(labels.value_counts()).counts == (2, 1, 3)
    with pytest.raises(DataError, match="counts by 'cat', 'dog' received; a mapping needs the class indices"):
        checked_counts(pd.Series(["dog", "cat", "cat"]).value_counts())
    with pytest.raises(DataError, match="whose index has a class twice"):
        checked_counts(pd.concat([labels.value_counts(), labels.value_counts()]))


def test_labels_in_place_of_counts() -> None:
    with pytest.raises(DataError, match=r"classes \[0, 3, .*and 90 more have no images.*give class_counts\(labels\)"):
        checked_counts([0, 1, 2] * 100)

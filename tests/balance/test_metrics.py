from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from procrustean.balance.metrics import Metrics, class_groups, metrics_from_confusion, metrics_from_totals
from procrustean.base import DataError
from procrustean.base.json_files import to_typed, typed_json

CIFAR10_LONG_TAILED_100 = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]


def cifar100_long_tailed(rho: int) -> list[int]:
    return [int(500 * (1 / rho) ** (i / 99)) for i in range(100)]


@st.composite
def classified(draw: st.DrawFn) -> tuple[int, list[int], list[int]]:
    classes = draw(st.integers(1, 8))
    label = st.integers(0, classes - 1)
    pairs = draw(st.lists(st.tuples(label, label), min_size=1, max_size=60))
    return classes, [true for true, _ in pairs], [predicted for _, predicted in pairs]


def confusion_of(classes: int, true: list[int], predicted: list[int]) -> np.ndarray[Any, Any]:
    confusion = np.zeros((classes, classes), int)
    np.add.at(confusion, (true, predicted), 1)
    return confusion


@settings(max_examples=150, deadline=None)
@given(classified())
def test_agrees_with_scikit_learn(data: tuple[int, list[int], list[int]]) -> None:
    classes, true, predicted = data
    result = metrics_from_confusion(confusion_of(classes, true, predicted), np.ones(classes, int))
    present = sorted(set(true))
    recall = oracle.recall_score(true, predicted, labels=range(classes), average=None, zero_division=0)
    precision = oracle.precision_score(true, predicted, labels=range(classes), average=None, zero_division=0)

    assert result.accuracy == pytest.approx(oracle.accuracy_score(true, predicted))
    assert result.balanced_accuracy == pytest.approx(
        oracle.recall_score(true, predicted, labels=present, average="macro", zero_division=0)
    )
    assert result.macro_f1 == pytest.approx(
        oracle.f1_score(true, predicted, labels=present, average="macro", zero_division=0)
    )
    assert result.recall == [pytest.approx(recall[c]) if c in present else None for c in range(classes)]
    known = {*present} & {*predicted}
    assert result.precision == [pytest.approx(precision[c]) if c in known else None for c in range(classes)]
    assert result.images == len(true)


@settings(max_examples=100, deadline=None)
@given(classified(), st.data())
def test_totals_give_what_the_matrix_gives(data: tuple[int, list[int], list[int]], more: st.DataObject) -> None:
    classes, true, predicted = data
    counts = more.draw(st.lists(st.integers(1, 400), min_size=classes, max_size=classes))
    confusion = confusion_of(classes, true, predicted)
    whole = metrics_from_confusion(confusion, counts)
    totals = metrics_from_totals(confusion.diagonal(), confusion.sum(1), confusion.sum(0), counts)
    assert whole.confusion == confusion.tolist()
    assert totals.confusion is None
    assert msgspec.structs.replace(whole, confusion=None) == totals


@settings(max_examples=100, deadline=None)
@given(classified(), st.data())
def test_renaming_the_classes_changes_no_summary(data: tuple[int, list[int], list[int]], more: st.DataObject) -> None:
    classes, true, predicted = data
    counts = np.array(more.draw(st.lists(st.integers(1, 400), min_size=classes, max_size=classes)))
    order = np.array(more.draw(st.permutations(range(classes))))
    confusion = confusion_of(classes, true, predicted)
    plain = metrics_from_confusion(confusion, counts)
    renamed = metrics_from_confusion(confusion[np.ix_(order, order)], counts[order])
    for name in ("accuracy", "balanced_accuracy", "macro_f1"):
        assert renamed.value(name) == pytest.approx(plain.value(name))
    for name, value in plain.groups.items():
        assert renamed.groups[name] == (None if value is None else pytest.approx(value))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40).filter(any))
def test_every_class_is_in_one_group_of_each_kind(counts: list[int]) -> None:
    groups = {name: mask.astype(int) for name, mask in class_groups(counts).items()}
    assert (groups["many"] + groups["medium"] + groups["few"] == 1).all()
    assert (groups["major"] + groups["minor"] == 1).all()
    assert groups["major"][int(np.argmax(counts))] == 1


@given(st.integers(1, 10**7), st.integers(1, 300))
def test_equal_counts_are_all_major(count: int, classes: int) -> None:
    assert class_groups([count] * classes)["major"].all()


@pytest.mark.parametrize(
    ("rho", "sizes"), [(100, (35, 35, 30)), (50, (41, 41, 18)), (10, (69, 31, 0)), (200, (30, 31, 39))]
)
def test_many_medium_few_on_cifar100(rho: int, sizes: tuple[int, int, int]) -> None:
    groups = class_groups(cifar100_long_tailed(rho))
    assert (groups["many"].sum(), groups["medium"].sum(), groups["few"].sum()) == sizes


def test_the_borders_of_many_medium_few() -> None:
    groups = class_groups([101, 100, 20, 19])
    assert groups["many"].tolist() == [True, False, False, False]
    assert groups["medium"].tolist() == [False, True, True, False]
    assert groups["few"].tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("counts", "major"),
    [
        (CIFAR10_LONG_TAILED_100, 5),
        ([5000] * 5 + [50] * 5, 5),
        ([500] * 50 + [2] * 50, 50),
        ([100] * 2 + [1] * 3, 2),
        ([100, 1], 1),
        ([1, 10, 100], 2),
        ([9, 0, 3], 1),
    ],
)
def test_major_is_at_least_the_geometric_mean(counts: list[int], major: int) -> None:
    assert class_groups(counts)["major"].sum() == major


def test_groups_average_the_recalls_of_their_tested_classes() -> None:
    confusion = [[8, 2, 0, 0], [0, 5, 5, 0], [1, 0, 1, 0], [0, 0, 0, 0]]
    groups = metrics_from_confusion(confusion, [1000, 200, 50, 40]).groups
    assert groups["many"] == pytest.approx((0.8 + 0.5) / 2)
    assert groups["medium"] == pytest.approx(0.5)
    assert groups["few"] is None
    assert groups["major"] == pytest.approx((0.8 + 0.5) / 2)
    assert groups["minor"] == pytest.approx(0.5)


def test_headline_is_accuracy_only_on_a_balanced_test_set() -> None:
    balanced = metrics_from_totals([4, 1], [4, 4], [7, 1], [10, 1])
    assert (balanced.headline, balanced.headline_value) == ("accuracy", 5 / 8)
    skewed = metrics_from_totals([4, 1], [4, 2], [5, 1], [10, 1])
    assert (skewed.headline, skewed.headline_value) == ("balanced_accuracy", 0.75)


def test_top5_needs_more_than_five_classes() -> None:
    six = metrics_from_totals([1] * 6, [2] * 6, [2] * 6, [9] * 6, top5_correct=9)
    assert six.top5 == 9 / 12
    assert metrics_from_totals([1] * 5, [2] * 5, [2] * 5, [9] * 5, top5_correct=10).top5 is None
    assert metrics_from_totals([1] * 6, [2] * 6, [2] * 6, [9] * 6).top5 is None


def test_large_class_numbers_need_no_matrix() -> None:
    classes = 8142
    ones = np.ones(classes, int)
    result = metrics_from_totals(ones, 3 * ones, 3 * ones, np.arange(1, classes + 1), top5_correct=2 * classes)
    assert result.accuracy == pytest.approx(1 / 3)
    assert result.top5 == pytest.approx(2 / 3)
    assert metrics_from_confusion(np.eye(1001, dtype=int), np.ones(1001, int)).confusion is None
    assert metrics_from_confusion(np.eye(1000, dtype=int), np.ones(1000, int)).confusion is not None


def test_the_result_is_plain_json() -> None:
    result = metrics_from_confusion(np.eye(6, dtype=np.int64), np.arange(1, 7), top5_correct=np.int64(6))
    assert to_typed(json.loads(typed_json(result)), Metrics) == result


def test_nothing_is_measured_without_test_images() -> None:
    with pytest.raises(DataError, match="no test images"):
        metrics_from_totals([0, 0], [0, 0], [0, 0], [1, 1])


def test_importing_the_readers_of_results_loads_nothing_heavy() -> None:
    code = (
        "import sys, procrustean.balance.metrics, procrustean.base.console, procrustean.records.groups\n"
        "import procrustean.report.comparison_table, procrustean.report.figures.figure_table\n"
        "print([m for m in ('torch', 'matplotlib', 'sklearn', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

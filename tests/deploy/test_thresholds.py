from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from procrustean.base import ConfigError
from procrustean.base.table_formats import to_csv
from procrustean.deploy.thresholds import announced, joined, levels_of, read_levels, table_of, thresholds


def slow(p: np.ndarray, own: np.ndarray, weights: np.ndarray, wanted: float, kind: str) -> float | None:
    """Try every probability that occurs as a threshold."""
    good = []
    for value in sorted(set(p.tolist())):
        announced = p >= value
        right = weights[announced & own].sum()
        precision, recall = right / weights[announced].sum(), right / weights[own].sum()
        if (precision if kind == "precision" else recall) >= wanted - 1e-12:
            good.append(value)
    return (min(good) if kind == "precision" else max(good)) if good else None


@pytest.mark.parametrize("kind", ["precision", "recall"])
@pytest.mark.parametrize("wanted", [0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_against_every_possible_threshold(kind: str, wanted: float, weighted: bool) -> None:
    random = np.random.default_rng(0)
    p = np.round(random.dirichlet([1.0] * 3, 120), 2)  # rounded: many are equal
    labels = np.array([random.choice(3, p=row / row.sum()) for row in p])
    weights = np.array([1.0, 3.0, 0.5])[labels] if weighted else np.ones(120)
    found = thresholds(p, labels, "abc", weights=weights, **{kind: wanted})
    for c, row in enumerate(found):
        expected = slow(p[:, c], labels == c, weights, wanted, kind)
        assert (row.value is None) == (expected is None)
        if row.value is not None:  # the same images are announced
            assert row.value <= expected
            assert ((p[:, c] >= row.value) == (p[:, c] >= expected)).all()
        assert row.images == (labels == c).sum()


def test_what_cannot_be_reached_is_none() -> None:
    p, labels = np.array([[0.9, 0.1], [0.8, 0.2]]), np.array([1, 0])
    first, second = thresholds(p, labels, ["a", "b"], precision=0.9)
    assert first.value is None
    assert second.value is None
    (only, missing) = thresholds(p, np.array([0, 0]), ["a", "b"], recall=0.5)
    assert only.value == 0.85
    assert (missing.value, missing.images) == (None, 0)


@pytest.mark.parametrize("wanted", [{}, {"precision": 0.5, "recall": 0.5}])
def test_one_of_the_two_is_wanted(wanted: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="either a precision or a recall"):
        thresholds(np.eye(2), np.arange(2), "ab", **wanted)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["precision", "recall"])
def test_classes_that_do_not_occur_where_the_model_is_used(kind: str) -> None:
    p = np.array([[0.9, 0.1], [0.95, 0.05], [0.6, 0.4], [0.2, 0.8]])
    first, second = thresholds(p, np.array([0, 1, 0, 1]), "ab", weights=np.array([1.0, 0.0, 1.0, 0.0]), **{kind: 1.0})
    assert (first.precision, first.recall, first.images) == (1.0, 1.0, 2)
    assert (second.value, second.precision, second.recall, second.images) == (None, None, None, 2)


@pytest.mark.parametrize("value", [0.0, 1.5, -1.0])
def test_values_outside_0_to_1(value: float) -> None:
    with pytest.raises(ConfigError, match=f"precision = {value} received"):
        thresholds(np.eye(2), np.arange(2), "ab", precision=value)


@pytest.mark.parametrize("kind", ["precision", "recall"])
@pytest.mark.parametrize("closeness", [1.0, 1e-3, 1e-6, 1e-9])
def test_the_printed_numbers_keep_the_promise(kind: str, closeness: float) -> None:
    random = np.random.default_rng(3)
    labels = random.integers(0, 2, 400)
    first = 1 - closeness * (0.3 * random.random(400) + 0.2 * labels)
    p = np.stack([first, 1 - first], axis=1)
    found = thresholds(p, labels, "ab", **{kind: 0.93})
    printed = [line.split(",")[1] for line in to_csv(table_of(found, kind)).splitlines()[1:]]
    for row, text in zip(table_of(found, kind).rows, printed, strict=True):
        assert row[1].text in (text, "always") or (row[1].text == "below 0.001" and float(text) < 0.001)
    for c, (row, text) in enumerate(zip(found, printed, strict=True)):
        announced, own = p[:, c] >= float(text), labels == c
        right = (announced & own).sum()
        assert right / own.sum() == pytest.approx(row.recall)
        assert right / announced.sum() == pytest.approx(row.precision)
        assert (row.recall if kind == "recall" else row.precision) >= 0.93
    if closeness == 1:
        assert all(len(text) <= 8 for text in printed)  # no more digits than it takes


def test_tiny_numbers_are_named_in_the_table_and_whole_in_the_file() -> None:
    p = np.array([[0.9, 0.1], [0.8, 0.2], [4e-8, 0.1], [2e-8, 0.9]])
    table = table_of(thresholds(p, np.array([0, 0, 0, 1]), "ab", precision=1.0), "precision 1.0")
    assert [row[1].text for row in table.rows] == ["below 0.001", "0.55"]
    written = [line.split(",")[1] for line in to_csv(table).splitlines()[1:]]
    assert float(written[0]) == pytest.approx(3e-8)
    table = table_of(thresholds(p, np.array([0, 0, 0, 1]), "ab", precision=0.25), "precision 0.25")
    assert [row[1].text for row in table.rows] == ["always", "always"]


def test_probabilities_that_only_just_differ() -> None:
    upper = 0.7
    below = np.nextafter(upper, 0)
    (first, _) = thresholds(np.array([[upper, 0.3], [below, 0.3]]), np.array([0, 1]), "ab", precision=1.0)
    assert first.value == upper
    (first, _) = thresholds(np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([0, 1]), "ab", recall=1.0)
    assert first.value == 0


CLASSES = ["-none", "b, c", "d"]


def test_what_thresholds_writes_is_read_again(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    p, labels = random.dirichlet([1.0] * 3, 60), random.integers(0, 2, 60)  # nothing of the last class
    found = thresholds(p, labels, CLASSES, recall=0.8)
    path = tmp_path / "t.csv"
    path.write_text(to_csv(table_of(found, "recall 0.8")))
    levels, made_for = read_levels(path, CLASSES)
    assert made_for is None
    assert levels.tolist() == [found[0].value, found[1].value, np.inf]
    recall = np.mean(["-none" in announced(row, levels, CLASSES) for row in p[labels == 0]])
    assert recall == pytest.approx(found[0].recall)


def test_the_class_frequencies_are_read_with_them(tmp_path: Path) -> None:
    p, labels = np.random.default_rng(0).dirichlet([1.0] * 3, 60), np.arange(60) % 3
    shares = (0.1, 0.2, 0.7)
    found = thresholds(p, labels, CLASSES, recall=0.8)
    found = [replace(row, frequency=share) for row, share in zip(found, shares, strict=True)]
    path = tmp_path / "t.csv"
    path.write_text(to_csv(table_of(found, "recall 0.8")))
    _, made_for = read_levels(path, CLASSES)
    assert made_for is not None
    assert made_for.tolist() == pytest.approx(shares)


@pytest.mark.parametrize(
    "names", [("cat", "cat; dog"), ('the "dog"', "'it's'"), (" a", "b "), ("-none", "b, c"), ("a\nb", "c\r\n"), ()]
)
def test_joined_names_are_told_apart(names: tuple[str, ...]) -> None:
    rows = list(csv.reader([joined(names)], delimiter=";", skipinitialspace=True))
    assert tuple(name for row in rows for name in row) == names


@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "a\u2028b", "a\x85b"])
def test_names_with_line_breaks_are_read_again(name: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    found = thresholds(random.dirichlet([1.0] * 2, 60), random.integers(0, 2, 60), [name, "c"], recall=0.8)
    path = tmp_path / "t.csv"
    path.write_text(to_csv(table_of(found, "recall 0.8")), encoding="utf-8", newline="")
    levels, _ = read_levels(path, [name, "c"])
    assert levels.tolist() == [row.value for row in found]


def test_a_path_with_braces_is_shown_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "{0.__class__}.csv"
    path.write_text("class,announce_from\na,often\nb,1\n")
    with pytest.raises(ConfigError, match=re.escape("{0.__class__}.csv, line 2: 'often' is no probability")):
        read_levels(path, "ab")


def test_several_classes_or_none_the_most_probable_first() -> None:
    levels = levels_of({"d": 0.3, "-none": 0.2, "b, c": None}, CLASSES)
    assert announced(np.array([0.3, 0.1, 0.6]), levels, CLASSES) == ("d", "-none")
    assert announced(np.array([0.2, 0.7, 0.1]), levels, CLASSES) == ("-none",)
    assert announced(np.array([0.1, 0.8, 0.1]), levels, CLASSES) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no columns class and announce_from"),
        ("class,p\na,1\n", "no columns class and announce_from"),
        ("class,announce_from\na,0.5\n", "nothing for b; every class needs a line"),
        ("class,announce_from\na,0.5\na,0.5\n", "line 3: the class 'a' is given twice"),
        ("class,announce_from\na,0.5\nb,often\n", "line 3: 'often' is no probability"),
        ("class,announce_from\na,0.5\nb,5\n", "5.0 received for 'b'"),
        ("class,announce_from,prior\na,0.5,even\nb,1,even\n", "line 2: 'even' is no probability"),
        ("class,announce_from,prior\na,0.5,1\nb,1,\n", "column prior: no frequency for b"),
        ("class,announce_from\na,0.5\nb,nan\n", "nan received for 'b'"),
        ("class,announce_from\na\nb,0.5\nc,1\n", "there is no class 'c'"),
        ("announce_from,class\n0.5,a\n0.1\n", r"there is no class ''"),
        ('class,announce_from\n"a,0.5\n' + "b,0.1\n" * 40_000, "field larger than field limit"),
    ],
)
def test_wrong_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_levels(path, ["a", "b"])
    with pytest.raises(ConfigError, match="cannot read the thresholds"):
        read_levels(tmp_path / "none.csv", "ab")

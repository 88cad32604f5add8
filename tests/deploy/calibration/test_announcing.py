"""Thresholds read from a file and applied to probabilities."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from procrustean.base import ConfigError
from procrustean.base.table_formats import to_csv
from procrustean.deploy.calibration.announce import announced, joined, levels_of, read_levels
from procrustean.deploy.calibration.class_thresholds import thresholds
from procrustean.deploy.threshold_table import table_of

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
        ("class,announce_from,prior\na,0.5,even\nb,1,even\n", "line 2: 'even' in the column prior is no frequency"),
        ("class,announce_from,prior\na,0.5,1\nb,1,\n", "column prior: no frequency for b"),
        ("class,announce_from\na,0.5\nb,nan\n", "nan received for 'b'"),
        ("class,announce_from\na\nb,0.5\nc,1\n", "there is no class 'c'"),
        ("announce_from,class\n0.5,a\n0.1\n", r"there is no class ''"),
        ('class,announce_from\n"a,0.5\n' + "b,0.1\n" * 40_000, r"line \d+: field larger than field limit"),
    ],
)
def test_wrong_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_levels(path, ["a", "b"])
    with pytest.raises(ConfigError, match="cannot read the thresholds"):
        read_levels(tmp_path / "none.csv", "ab")

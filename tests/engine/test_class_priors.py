from __future__ import annotations

from pathlib import Path

import pytest

from procrustean.base import ConfigError
from procrustean.engine.probabilities import prior_of, read_prior

CLASSES, COUNTS = ("cat", "dog"), (30, 10)


def test_by_name() -> None:
    assert read_prior(None, CLASSES, COUNTS) is None
    for name, expected in (("balanced", [0.5, 0.5]), ("train", [0.75, 0.25])):
        found = read_prior(name, CLASSES, COUNTS)
        assert found is not None
        assert found.tolist() == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", '{"dog": 3, "cat": 1}'),
        ("p.csv", "dog,3\ncat,1\n"),
        ("p.csv", "class,frequency\ncat,0.25\ndog,0.75\n"),
        ("p.csv", "\ufeffclass;frequency\r\ncat;0.25\r\n\r\ndog;0.75\r\n"),
        ("p.csv", "cat, 0.25\ndog, 0.75\n,\n"),
    ],
)
def test_from_a_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_prior(str(tmp_path / name), CLASSES, COUNTS)
    assert found is not None
    assert found.tolist() == [0.25, 0.75]


def test_names_as_they_stand_in_the_files_of_this_library(tmp_path: Path) -> None:
    """A class that spreadsheets would compute has an apostrophe before it in predictions.csv."""
    (tmp_path / "p.csv").write_text("'-none,3\ncat,1\n")
    prior = read_prior(str(tmp_path / "p.csv"), ["cat", "-none"], [1, 1])
    assert prior is not None
    assert prior.tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.json", '{"dgo": 3, "cat": 1}', "there is no class 'dgo'. Did you mean 'dog'"),
        ("p.json", '{"cat": 1}', "no frequency for dog"),
        ("p.json", '{"cat": -1, "dog": 2}', "frequencies are 0 or more"),
        ("p.json", '{"cat": 0, "dog": 0}', "one is above 0"),
        ("p.json", "[1, 2]", 'cannot read the prior .*; write {"class": frequency, ...}'),
        ("p.json", "3", "cannot read the prior"),
        ("p.json", "{", "cannot read the prior"),
        ("p.json", "[" * 100_000, "cannot read the prior"),
        ("p.json", '{"cat": 1, "dog": 2, "cat": 3}', "a class is given twice"),
        ("p.json", '{"cat": 1, "dog": {"a": 1}}', "give a count or a share for each class"),
        ("p.json", '{"cat": 1, "dog": NaN}', "frequencies are 0 or more"),
        ("p.csv", "cat,many\ndog,1\n", "'many'; give a count or a share for each class, such as 0.25"),
        ("p.csv", "class,frequency\nname,share\ncat,1\ndog,2\n", "there is no class 'name'"),
        ("p.csv", "cat,1\ndog,1\ncat,2\n", "a class is given twice; keep one"),
        ("p.csv", "cat,1,2\ndog,1\n", "write one line per class: class,frequency"),
        ("p.csv", "cat;0,25\ndog;0,75\n", "'0,25'; give a count or a share for each class, such as 0.25"),
        ("p.csv", "cat,1\ndgo,1\n", "there is no class 'dgo'. Did you mean 'dog'"),
        ("p.csv", f"cat,1\n{'d' * 140_000},1\n", "field larger than field limit"),
        ("p.csv", "", "no frequency for cat, dog"),
        ("p.txt", "", "accepted: balanced, train"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_prior(str(tmp_path / name), CLASSES, COUNTS)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="cannot read the prior"):
        read_prior("nowhere.json", CLASSES, COUNTS)
    with pytest.raises(ConfigError, match="accepted: balanced, train"):
        read_prior("uniform", CLASSES, COUNTS)


def test_counts_are_scaled() -> None:
    assert prior_of({"cat": 30, "dog": 10}, CLASSES).tolist() == [0.75, 0.25]

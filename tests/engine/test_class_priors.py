from __future__ import annotations

from pathlib import Path

import pytest

from procrustean.base import ConfigError
from procrustean.engine.class_priors import prior_of, read_prior

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
        ("p.json", "[1, 2]", r"holds '\[1, 2\]'; write"),
        ("p.json", "3", "holds '3'; write"),
        ("p.json", "{", "no JSON"),
        ("p.json", "[" * 100_000, "no JSON"),
        ("p.json", '{"cat": 1, "dog": 2, "cat": 3}', "'cat': the class 'cat' is given twice"),
        ("p.json", '{"cat": 1, "dog": {"a": 1}}', "'dog': .* is no number"),
        ("p.json", '{"cat": 1, "dog": true}', "'dog': True is no number"),
        ("p.json", '{"cat": 1, "dog": NaN}', "'dog': nan is no number"),
        ("p.csv", "cat,many\ndog,1\n", "line 1: 'many' is no number; give a count or a share"),
        ("p.csv", "class,frequency\ncat,1\ndog,few\n", "line 3: 'few' is no number"),
        ("p.csv", "class,frequency\nname,share\ncat,1\ndog,2\n", "line 2: 'share' is no number"),
        ("p.csv", "cat,1\ndog,1\ncat,2\n", "line 3: the class 'cat' is given twice; keep one"),
        ("p.csv", "cat,1,2\ndog,1\n", "line 1: 'cat,1,2' received; write class,frequency"),
        ("p.csv", "cat;0,25\ndog;0,75\n", "line 1: '0,25' is no number; give a count or a share, such as 0.25"),
        ("p.csv", "dgo,1\ncat,1\n", "there is no class 'dgo'. Did you mean 'dog'"),
        ("p.csv", f"cat,1\n{'d' * 140_000},1\n", "line 2: field larger than field limit"),
        ("p.csv", "", "holds no frequencies"),
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

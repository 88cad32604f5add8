"""The settings of a run, as Python hands them over."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from procrustean import fit
from procrustean.base import ConfigError
from procrustean.records import RunSpec

PLAIN = {"source": "digits", "imbalance": "step", "rho": 20, "epochs": 3, "seed": 1, "hold_out": 2}


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = {"rho": np.float32(20), "epochs": np.int64(3), "seed": np.uint8(1), "hold_out": np.int32(2)}
    plain, other = RunSpec.from_json(PLAIN), RunSpec.from_json({**PLAIN, **numpy})
    assert other.to_json() == plain.to_json()
    assert {type(value) for value in other.to_json().values()} == {type(value) for value in plain.to_json().values()}
    assert other.hash == plain.hash


def test_numbers_of_numpy_are_numbers_in_lists_and_among_the_options() -> None:
    given = {"features_at": [1, 3], "options": {"alpha": 1, "beta": 0.5, "keep_mixing": False}}
    numpy = {
        "features_at": [np.int64(1), np.uint8(3)],
        "options": {"alpha": np.int64(1), "beta": np.float32(0.5), "keep_mixing": np.bool_(False)},
    }
    plain, other = RunSpec.from_json({**PLAIN, **given}), RunSpec.from_json({**PLAIN, **numpy})
    assert json.dumps(other.to_json()) == json.dumps(plain.to_json())
    assert other.hash == plain.hash


@pytest.mark.parametrize(
    ("setting", "value", "wanted"),
    [
        ("epochs", 3.5, "a whole number"),
        ("epochs", True, "a whole number"),
        ("seed", "one", "a whole number"),
        ("rho", "much", "a number"),
        ("rho", True, "a number"),
        ("rho", 20j, "a number"),
    ],
)
def test_what_is_no_number(setting: str, value: Any, wanted: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} = .* received; it has to be {wanted}"):
        RunSpec.from_json({**PLAIN, setting: value})


def test_a_number_that_yaml_takes_for_a_text_is_a_number() -> None:
    assert RunSpec.from_json({**PLAIN, "lr": "1e-1", "epochs": "3"}).lr == 0.1


def test_images_in_memory_are_not_taken_for_no_data_set() -> None:
    with pytest.raises(ConfigError, match=r"source of type ndarray received; .* procrustean\.Classifier\(\)\.fit"):
        fit(np.zeros((4, 8, 8)))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="names no data set; add source"):
        RunSpec.from_json({"method": "erm"})


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("device", "gpu", "one of auto, cpu, cuda; gpu is cuda here$"),
        ("imbalance", "exp", "one of natural, long_tailed, step; exp is long_tailed here$"),
        ("device", "exp", "one of auto, cpu, cuda$"),
        ("precision", 16, "one of auto, fp32, bf16$"),
    ],
)
def test_values_that_are_called_otherwise_elsewhere(setting: str, value: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting} = {value!r} received; it has to be {said}"):
        RunSpec.from_json({**PLAIN, setting: value})


def test_what_is_done_to_the_plain_data_does_not_reach_the_settings() -> None:
    config = RunSpec("digits", options={"alpha": 5}, features_at=(1, 2))
    plain = config.to_json()
    plain["options"]["alpha"] = 7
    plain["features_at"].append(3)
    assert (config.options, config.features_at) == ({"alpha": 5.0}, (1, 2))


@pytest.mark.parametrize("setting", ["source", "run_dir", "net"])
def test_a_null_character_is_refused(setting: str) -> None:
    with pytest.raises(ConfigError, match="no name or path has a null character in it"):
        RunSpec(**{"source": "digits", setting: "a\0b"})

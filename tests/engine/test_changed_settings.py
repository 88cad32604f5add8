"""A run goes on only as what it began as; what has changed is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.base import ProcrusteanError, RunError
from procrustean.records import RunSpec
from procrustean.records.identity import difference, image_counts_difference
from procrustean.records.run_folder import RunFolder
from procrustean.runs import fit
from procrustean.runs.train_api import Stopped, resume


@pytest.fixture
def stopped(npz: Path, tiny: dict[str, Any], tmp_path: Path, stop_after: Callable[[int], None]) -> Path:
    stop_after(5)
    settings = {**tiny, "method": "mfw", "options": {"alpha": 2.0}}
    with pytest.raises(Stopped):
        fit(str(npz), **{**settings, "hold_out": 2}, run_dir=tmp_path / "run")
    stop_after(0)
    return tmp_path / "run"


def edit(run: Path, part: str, rehash: bool = False, **changes: Any) -> None:
    """Change settings of a run as an editor would, with or without the hash that tells."""
    path = run / "config.json"
    record = json.loads(path.read_text())
    record[part].update(changes)
    if rehash:
        record["hash"] = RunSpec.from_json(record["config"]).hash
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    "changes",
    [{"method": "erm", "options": {}}, {"seed": 1}, {"options": {"alpha": 3.0}}, {"evaluate_every": 7}, {"lr": 0.01}],
    ids=lambda changes: next(iter(changes)),
)
def test_an_edited_configuration_is_refused(changes: dict[str, Any], stopped: Path) -> None:
    edit(stopped, "config", **changes)
    with pytest.raises(RunError, match=r"config\.json has been changed or damaged since the run began"):
        resume(stopped)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "erm", "options": {}}, "method: MFW when it began, ERM now"),
        ({"seed": 1}, "seed: 0 when it began, 1 now"),
        ({"options": {"alpha": 3.0}}, r"options\.alpha: 2\.0 when it began, 3\.0 now"),
        ({"lr": 0.01}, r"recipe\.lr: 0\.0\d+ when it began, 0\.01 now"),
        ({"hold_out": 3}, r"counts: \[22, 16, 10, 4\] when it began, \[21, 15, 9, 3\] now"),
        ({"data_seed": 1}, r"its images have changed \(as many as before, but others\)\. Put those back"),
        ({"epochs": 4}, r"recipe\.epochs: 3 when it began, 4 now"),
        ({"net": "resnet20"}, r"recipe\.net: small when it began, resnet20 now"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_difference_is_shown(changes: dict[str, Any], message: str, stopped: Path) -> None:
    edit(stopped, "config", rehash=True, **changes)
    with pytest.raises(RunError, match=f"cannot go on: .*{message}"):
        resume(stopped)


def test_renamed_classes_are_refused(stopped: Path, npz: Path) -> None:
    arrays = dict(np.load(npz))
    np.savez(npz, **{**arrays, "classes": np.array(["class0", "class1", "owl", "class3"])})
    with pytest.raises(RunError, match=r"classes: \['class0', 'class1', 'class2', 'class3'\] when .*'owl'"):
        resume(stopped)


def test_settings_of_where_and_how_may_change(stopped: Path) -> None:
    edit(stopped, "config", checkpoint_every=0.5, data_dir="elsewhere")
    assert resume(stopped).record.selections.last.epoch == 2


def test_one_bit_of_the_configuration(stopped: Path) -> None:
    """Whatever a flipped bit makes of the settings, the run does not go on with others unnoticed."""
    path = stopped / "config.json"
    content, (_, config, _) = path.read_bytes(), RunFolder.open(stopped)
    refused = 0
    for place in range(0, content.index(b'"identity"'), 11):
        flipped = bytearray(content)
        flipped[place] ^= 1
        path.write_bytes(flipped)
        try:
            _, found, _ = RunFolder.open(stopped)
        except ProcrusteanError:
            refused += 1
        else:
            assert found.hash == config.hash
    assert refused > 20


def test_of_long_lists_the_places_that_differ_are_shown() -> None:
    before, now = [f"class {i}" for i in range(100)], [f"class {i}" for i in range(99)]
    assert difference("classes", before, now) == "classes, how many: 100 when it began, 99 now"
    now[7] = "owl"
    assert difference("classes", before[:99], now) == "classes, place 7: class 7 when it began, owl now"


def test_of_many_classes_with_other_counts_the_first_are_named() -> None:
    before = {f"class {i}": 10 for i in range(5)}
    now = {name: count + 1 for name, count in before.items()}
    assert image_counts_difference(before, now).endswith("class 2 11, was 10; and 2 more classes")
    assert image_counts_difference(before, before) == image_counts_difference(before, {"other": 1}) == ""

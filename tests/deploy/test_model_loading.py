"""Models read back: what cannot be a model is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from made_records import comparison
from procrustean.base import RunError
from procrustean.base.json_files import typed_json
from procrustean.deploy.model_loading import spec_of
from procrustean.records.several_runs import chosen_run

SPEC: dict[str, Any] = {
    "label": "ERM", "net": "small", "method": "erm", "options": {}, "seed": 0, "classes": ["cat", "dog"],
    "image_shape": [8, 8, 1], "crop": None, "evaluation_crop": None, "mean": [0.5], "std": [0.25], "kind": "step",
    "calibration": {"scale": 1.0, "tau": 0.0, "counts": [20, 5], "images": 10},
}  # fmt: skip


def written(folder: Path, **changes: Any) -> Path:
    record = {
        "format": 1,
        "classes": ["cat", "dog"],
        "input": {"shape": ["N", 8, 8, 1]},
        "prior": None,
        "frequencies": {"cat": 0.8, "dog": 0.2},
        "spec": {**SPEC, **changes},
    }
    (folder / "model.json").write_text(json.dumps(record))
    return folder


def test_a_model_is_read(tmp_path: Path) -> None:
    assert spec_of(written(tmp_path)).classes == ("cat", "dog")


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"classes": ["cat", "cat"]}, "impossible classes"),
        ({"classes": ["cat"]}, "impossible classes, counts"),
        ({"evaluation_crop": 0}, r"Expected `int` >= 1 - at `\$\.spec\.evaluation_crop`"),
        ({"image_shape": [8, 1 << 20, 1]}, r"Expected `int` <= 16384 - at `\$\.spec\.image_shape\[1\]`"),
        ({"mean": [0.5, 0.5]}, "impossible mean"),
        ({"std": [0.0]}, "impossible std"),
        ({"kind": "upside down"}, r"Invalid enum value 'upside down' - at `\$\.spec\.kind`"),
        ({"seed": "0"}, r"Expected `int`, got `str` - at `\$\.spec\.seed`"),
        ({"calibration": {**SPEC["calibration"], "scale": -1.0}}, "impossible calibration"),
    ],
)
def test_an_impossible_model_is_refused(changes: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=rf"model\.json is damaged \(.*{wrong}.*\); export the model again"):
        spec_of(written(tmp_path, **changes))


def test_a_format_of_the_future_is_refused(tmp_path: Path) -> None:
    record = json.loads((written(tmp_path) / "model.json").read_text())
    (tmp_path / "model.json").write_text(json.dumps({**record, "format": 99}))
    with pytest.raises(RunError, match=r"format 99; this version of procrustean reads format 1"):
        spec_of(tmp_path)


@pytest.mark.parametrize(
    ("chosen", "wrong"),
    [
        ("../erm", r"\(Expected `str` matching regex .* at `\$\.chosen`\)"),
        ("/etc", r"\(Expected `str` matching regex .* at `\$\.chosen`\)"),
        ("nowhere", "it chose 'nowhere', which is no run of this folder"),
        (5, r"\(Expected `str \| null`, got `int` - at `\$\.chosen`\)"),
    ],
)
def test_a_comparison_chooses_among_its_own_runs(chosen: Any, wrong: str, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "erm").mkdir()
    (tmp_path / "all/auto.json").write_bytes(typed_json(comparison(chosen)))
    with pytest.raises(RunError, match=rf"auto\.json is damaged:? {wrong}"):
        chosen_run(tmp_path / "all")

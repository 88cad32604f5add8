from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from comparing import differences
from kills import BESIDES, SEVERAL, Disturbed

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format-1"


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _other_features(path: Path) -> None:
    with np.load(path) as kept:
        arrays = dict(kept)
    arrays["train_features"][0, 0] += 1
    np.savez(path, **arrays)


def _other_choice(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "chosen": "erm"}))


CHANGES: dict[str, Callable[[Path], None]] = {
    "model.safetensors": _flip,
    "ema.safetensors": _flip,
    "swa.safetensors": Path.unlink,
    "weights-000002.safetensors": _flip,
    "features-000002.npz": _other_features,
    "auto.json": _other_choice,
}


@pytest.mark.parametrize("changed", CHANGES)
def test_whatever_a_run_keeps_is_compared(changed: str, tmp_path: Path) -> None:
    """Also averages, kept weights and features; else a kill that changes one of them would count as survived."""
    one = shutil.copytree(FIXTURE / "finished", tmp_path / "one")
    for name in ("ema", "swa", "weights-000002"):
        shutil.copy(one / "model.safetensors", one / f"{name}.safetensors")
    shutil.copy(FIXTURE / "features/features-000002.npz", one)
    shutil.copy(FIXTURE / "comparison/auto.json", one)
    other = shutil.copytree(one, tmp_path / "other")
    with np.load(other / "features-000002.npz") as kept:
        np.savez(other / "features-000002.npz", **dict(kept))  # the same arrays in other bytes
    assert differences(one, other) == []
    CHANGES[changed](other / changed)
    assert differences(one, other) == [changed]


def test_a_run_that_is_missing_is_noticed(tmp_path: Path) -> None:
    one = shutil.copytree(FIXTURE / "tuning", tmp_path / "one")
    other = shutil.copytree(one, tmp_path / "other")
    assert differences(one, other) == []
    shutil.rmtree(next((other / "final").iterdir()))
    assert differences(one, other) == ["the runs"]


def test_kills_meet_everything_that_runs_can_keep_or_do(tmp_path: Path) -> None:
    class Always:
        """Chance that adds whatever can be added."""

        def random(self) -> float:
            return 0.0

        def randint(self, low: int, high: int) -> int:
            return low

        def choice(self, values: list[str]) -> str:
            return values[0]

    made = [Disturbed(Path("x.npz"), tmp_path / kind, kind, Always()) for kind in ("mfw", *set(SEVERAL))]  # type: ignore[arg-type]
    assert set().union(*(run.used for run in made)) == {*BESIDES, "comparison of methods", "tuning"}
    words = {word for run in made for word in run.settings}
    assert {"--average", "--probes", "--features-at", "--keep-weights-every", "streamed", "auto", "tune"} <= words
    # Methods in stages refuse averages.
    assert "averages" not in Disturbed(Path("x.npz"), tmp_path / "crt", "crt", Always()).used  # type: ignore[arg-type]

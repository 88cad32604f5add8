"""Checkpoints that were damaged, or written by something else."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from procrustean.base import RunError
from procrustean.base.files import write_atomically
from procrustean.data import Splits
from procrustean.records import checkpoints as checkpoint
from procrustean.runs import fit
from procrustean.runs import train_api as api
from procrustean.runs.train_api import Stopped, resume
from saved_states import change_state, saved_states

Same = Callable[[Path, Path], None]


@pytest.fixture(scope="module")
def settings(tiny: dict[str, Any]) -> dict[str, Any]:
    return {**tiny, "method": "mfw", "hold_out": 2, "checkpoint_every": 0.0}


@pytest.fixture(scope="module")
def whole(splits: Splits, settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(splits, **settings, run_dir=tmp_path_factory.mktemp("whole")).path


class AfterSix:
    """A stop request at the sixth boundary between steps."""

    exit_code = 130

    def __init__(self, say: Any) -> None:
        self.left = 6

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


@pytest.fixture(scope="module")
def original(splits: Splits, settings: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(api, "stop_on_signal", lambda say: nullcontext(AfterSix(say)))
        with pytest.raises(Stopped):
            fit(splits, **settings, run_dir=path)
    return path


@pytest.fixture
def stopped(original: Path, tmp_path: Path) -> Path:
    """A run that was saved after each of six steps."""
    return Path(shutil.copytree(original, tmp_path / "run"))


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 4
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "a header longer than any file": lambda path: path.write_bytes(
        (1 << 62).to_bytes(8, "little") + path.read_bytes()[8:]
    ),
    **{f"one bit at {place:.0%}": lambda path, place=place: flip(path, place) for place in (0.01, 0.3, 0.7, 0.99)},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(
    damage: str, stopped: Path, whole: Path, splits: Splits, same_run: Same
) -> None:
    newest = saved_states(stopped)[-1]
    DAMAGE[damage](newest)
    with pytest.warns(UserWarning, match=rf"{re.escape(newest.name)} is damaged \(.+\); going back to the checkpoint"):
        resume(stopped, splits=splits)
    same_run(stopped, whole)


def test_a_position_that_one_bit_has_changed_is_not_believed(stopped: Path, splits: Splits) -> None:
    """Still a valid file with the right tensors: only the hash tells."""
    newest = saved_states(stopped)[-1]
    content = newest.read_bytes()
    assert content.count(rb"\"step\": 2") == 1
    newest.write_bytes(content.replace(rb"\"step\": 2", rb"\"step\": 3"))
    with pytest.warns(UserWarning, match="does not match its hash"):
        resume(stopped, splits=splits)


def test_no_whole_checkpoint_is_left(stopped: Path, splits: Splits, files_of: Callable[[Path], Any]) -> None:
    for path in saved_states(stopped):
        flip(path, 0.5)
    before = files_of(stopped)
    with (
        pytest.warns(UserWarning, match="is damaged"),
        pytest.raises(RunError, match=f"every checkpoint in {stopped} is damaged; start the run again"),
    ):
        resume(stopped, splits=splits)
    assert files_of(stopped) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("net.head.weight"), r"net\.head\.weight is missing, float32 \["),
        (lambda tensors: tensors.update({"net.head.bias": torch.zeros(5)}), r"net\.head\.bias is float32 \[5\]"),
        (lambda tensors: tensors.update({"net.head.bias": torch.zeros(4).half()}), r"net\.head\.bias is float16 \[4\]"),
    ],
)
def test_tensors_of_another_network_are_refused(
    change: Callable[[Any], Any], message: str, stopped: Path, splits: Splits
) -> None:
    change_state(stopped, lambda tensors, position: change(tensors))
    with pytest.raises(RunError, match=f"does not fit this run: {message}"):
        resume(stopped, splits=splits)


@pytest.mark.parametrize(
    ("position", "message"),
    [
        ({"stage": -1}, r"damaged .*Expected `int` >= 0 - at `\$\.stage`"),
        ({"oracle": "best"}, r"damaged .*Expected `object \| null`, got `str` - at `\$\.oracle`"),
    ],
)
def test_a_position_that_cannot_be_is_refused(
    position: dict[str, Any], message: str, stopped: Path, splits: Splits
) -> None:
    change_state(stopped, lambda tensors, before: before.update(position))
    with pytest.raises(RunError, match=message):
        resume(stopped, splits=splits)


def test_the_weights_chosen_on_held_out_images_are_part_of_the_checkpoint(
    stopped: Path, whole: Path, splits: Splits, same_run: Same
) -> None:
    """A file of their own could be of an epoch that the resumed run does not choose again."""
    assert not (stopped / "held_out.safetensors").exists()
    (stopped / "held_out.safetensors").write_bytes(b"of another epoch")
    same_run(resume(stopped, splits=splits).path, whole)


def test_what_a_kill_left_of_the_very_first_file_is_cleared_away(
    splits: Splits, settings: dict[str, Any], whole: Path, tmp_path: Path, same_run: Same
) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new/.config.json.4711.tmp").write_bytes(b'{"format"')
    same_run(fit(splits, **settings, run_dir=tmp_path / "new").path, whole)
    assert not list((tmp_path / "new").glob(".*"))


def test_checkpoints_that_cannot_be_removed_are_told_of(
    splits: Splits, settings: dict[str, Any], whole: Path, tmp_path: Path, same_run: Same, monkeypatch: Any
) -> None:
    unlink = Path.unlink

    def refuse(self: Path, missing_ok: bool = False) -> None:
        if self.name.startswith("checkpoint-"):
            raise PermissionError(1, "Operation not permitted")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.warns(UserWarning, match=r"cannot remove .*\(Operation not permitted\); it is not needed any more"):
        run = fit(splits, **settings, run_dir=tmp_path / "run")
    same_run(run.path, whole)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_files_may_be_read_by_whom_the_umask_allows(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "bytes", b"1")
        for _ in range(2):  # new, and in place of an old one
            checkpoint.save_tensors(tmp_path / "tensors", {"a": torch.zeros(2)})
    finally:
        os.umask(before)
    for name in ("bytes", "tensors"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o666 & ~mask
    assert load_file(tmp_path / "tensors")["a"].tolist() == [0, 0]

"""A disk that is full or read-only, at any moment: what was saved stays, and the run goes on when there is room."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.base import RunError
from procrustean.data import Splits
from procrustean.records import checkpoints as checkpoint
from procrustean.runs import fit
from procrustean.runs.train_api import resume

Same = Callable[[Path, Path], None]
SMALL_DISK = Path(__file__).parents[1] / "faults" / "small_disk.py"
SETTINGS = {"epochs": 2, "batch_size": 32, "hold_out": 2, "checkpoint_every": 0.0}


class Disk:
    """Counts what is asked of the system while files are written, and refuses the n-th request."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, refuse: int | None = None) -> None:
        self.requests, self.refuse, self.folder = 0, refuse, folder
        for module, name in ((os, "fsync"), (os, "replace"), (checkpoint, "save_file")):
            monkeypatch.setattr(module, name, self._asking(getattr(module, name)))
        monkeypatch.setattr(builtins, "open", self._opening(builtins.open))

    def request(self) -> None:
        self.requests += 1
        if self.requests == self.refuse:
            raise OSError(28, "No space left on device")

    def _asking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any, **more: Any) -> Any:
            self.request()
            return function(*arguments, **more)

        return ask

    def _opening(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def ask(file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
            if mode in ("wb", "ab") and self.folder in Path(file).parents:
                self.request()
            return function(file, mode, *arguments, **more)

        return ask


def test_a_full_disk_at_any_moment_loses_nothing(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, same_run: Same, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**tiny, **SETTINGS}
    with monkeypatch.context() as patched:
        disk = Disk(patched, tmp_path)
        whole = fit(splits, **settings, run_dir=tmp_path / "whole").path
    assert disk.requests > 40
    for refused in sorted({*range(1, 6), *range(6, disk.requests, 13), disk.requests - 1, disk.requests}):
        path = tmp_path / str(refused)
        with monkeypatch.context() as patched:
            Disk(patched, tmp_path, refused)
            with pytest.raises(RunError, match="No space left on device") as raised:
                fit(splits, **settings, run_dir=path)
        assert "cannot write" in str(raised.value)
        if (path / "result.json").exists():  # the very last request: the result is in its place, but not synced yet
            continue
        again = (
            resume(path, splits=splits) if (path / "config.json").exists() else fit(splits, **settings, run_dir=path)
        )
        same_run(again.path, whole)


@pytest.mark.slow
def test_a_real_disk_that_is_full_and_then_read_only(
    npz: Path, tiny: dict[str, Any], tmp_path: Path, same_run: Same
) -> None:
    allowed = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        subprocess.run([*allowed, "mount", "-t", "tmpfs", "tmpfs", tmp_path], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this system does not let the test mount a small disk")
    (tmp_path / "disk").mkdir()
    command = [*allowed, sys.executable, SMALL_DISK, tmp_path / "disk", npz, tmp_path / "resumed"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    full, read_only = done.stdout.splitlines()
    assert "cannot write" in full
    assert "No space left on device" in full
    assert "what was saved before is intact" in full
    assert "Read-only file system" in read_only
    whole = fit(str(npz), **{**tiny, "epochs": 4}, checkpoint_every=0.0, run_dir=tmp_path / "whole")
    same_run(tmp_path / "resumed", whole.path)

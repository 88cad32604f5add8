"""A run on a disk of 800 kB that is full, then read-only, then neither. Needs a mount namespace of its own.

Usage: unshare --user --map-root-user --mount python small_disk.py MOUNT_POINT IMAGES.npz OUTPUT
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from procrustean.base import RunError
from procrustean.base.epochs import EpochRecord
from procrustean.base.progress import Reporter
from procrustean.runs import fit
from procrustean.runs.train_api import resume
from saved_states import saved_states

SETTINGS: dict[str, Any] = {
    "net": "small",
    "batch_size": 16,
    "epochs": 4,
    "hold_out": 0,
    "precision": "fp32",
    "device": "cpu",
    "method": "erm",
    "checkpoint_every": 0.0,
}


class Filling(Reporter):
    """Fills the disk at the end of the second epoch."""

    def __init__(self, disk: Path) -> None:
        self.disk = disk

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        if epoch == 1:
            with open(self.disk / "other", "wb", buffering=0) as other, suppress(OSError):
                while other.write(bytes(4096)):
                    pass


def mount(disk: Path, *options: str) -> None:
    subprocess.run(["mount", *options, disk], check=True)


def contents(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir()}


def main(disk: Path, source: Path, output: Path) -> None:
    mount(disk, "-t", "tmpfs", "-o", "size=800k", "tmpfs")
    run = disk / "run"
    try:
        fit(str(source), **SETTINGS, run_dir=run, reporter=Filling(disk))
    except RunError as error:
        print("full:", error)
    assert not (run / "result.json").exists()
    assert len(saved_states(run)) == 2
    (disk / "other").unlink()

    mount(disk, "-o", "remount,ro")
    before = contents(run)
    try:
        resume(run)
    except RunError as error:
        print("read-only:", error)
    assert contents(run) == before

    mount(disk, "-o", "remount,rw")
    shutil.copytree(resume(run).path, output)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

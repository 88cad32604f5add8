"""What a process leaves that is killed in the middle of a file, and what is left of it at the end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import forked
from procrustean.runs import fit
from procrustean.runs.train_api import resume

Same = Callable[[Path, Path], None]
resource = pytest.importorskip("resource")
FLAGS = ("--net", "small", "--batch-size", "16", "--precision", "fp32", "--device", "cpu", "--method", "erm")
SPAN = ("--epochs", "3", "--hold-out", "0", "--checkpoint-every", "0")


def die_in_a_large_file() -> None:
    """Lets the system kill the process in the middle of its first file of more than 8 kB, a checkpoint."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which nothing can catch then, no more than SIGKILL
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, resource.RLIM_INFINITY))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_half_a_checkpoint_is_gone_when_the_run_has_ended(
    npz: Path, tiny: dict[str, Any], tmp_path: Path, same_run: Same
) -> None:
    run, log = tmp_path / "run", tmp_path / "log"
    process = forked.start(["train", npz, *FLAGS, *SPAN, "--run-dir", run], log, die_in_a_large_file)
    process.join(60)
    assert process.exitcode == -signal.SIGXFSZ, log.read_text()
    assert any(name.startswith(".") for name in names_in(run))
    assert not any(name.endswith(".safetensors") for name in names_in(run))
    whole = fit(str(npz), **tiny, checkpoint_every=0.0, run_dir=tmp_path / "whole").path
    same_run(resume(run).path, whole)
    assert names_in(run) == names_in(whole)

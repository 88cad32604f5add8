"""A run belongs to one process at a time."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import filelock
import pytest
from filelock._identity import host_name
from filelock._marker import OwnerRecord, encode_marker

from procrustean.base import Claim, RunError, RunInUse
from procrustean.base import lease as claims
from procrustean.base.lease import MARKER
from procrustean.data import Splits
from procrustean.records import RunSpec
from procrustean.records.run_folder import RunFolder
from procrustean.runs import fit, fit_many
from procrustean.runs.train_api import Stopped, resume

HOLDER = (
    "import sys; from pathlib import Path; from procrustean.base import Claim\n"
    "claim = Claim(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


def test_a_run_in_progress_is_not_touched(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: Callable[[int], None], files_of: Any
) -> None:
    path = tmp_path / "run"
    stop_after(5)
    with pytest.raises(Stopped):
        fit(splits, **tiny, run_dir=path)
    stop_after(0)
    claim = Claim(path)
    before = files_of(path)
    for attempt in (lambda: resume(path, splits=splits), lambda: fit(splits, **tiny, run_dir=path)):
        with pytest.raises(RunInUse, match=f"{path} is being trained by another process; wait for it, or stop it"):
            attempt()
    assert files_of(path) == before
    claim.release()
    assert resume(path, splits=splits).record.selections.last.epoch == 2


def test_a_run_in_use_does_not_keep_the_others_of_a_grid(npz: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    configs = [RunSpec(source=str(npz), **tiny, seed=seed, run_dir=tmp_path / str(seed)) for seed in range(3)]
    (tmp_path / "1").mkdir()
    claim = Claim(tmp_path / "1")
    outcomes = fit_many(configs)
    assert [type(outcome.error) for outcome in outcomes] == [type(None), RunInUse, type(None)]
    claim.release()
    assert all(outcome.error is None for outcome in fit_many(configs))


@pytest.mark.parametrize("ending", ["finished", "failed", "stopped"])
def test_every_ending_gives_the_run_back(
    ending: str, splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: Any, nan_at: Any
) -> None:
    if ending == "failed":
        nan_at(2)
    stop_after(5 if ending == "stopped" else 0)
    try:
        fit(splits, **tiny, run_dir=tmp_path / "run")
    except Exception:
        assert ending != "finished"
    Claim(tmp_path / "run").release()


def test_a_claim_ends_with_its_process_and_leaves_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(RunInUse):
        Claim(tmp_path)
    holder.kill()
    holder.communicate()
    Claim(tmp_path).release()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PATIENCE", 1.0)
    monkeypatch.setattr(claims, "BEAT", 0.2)


def test_a_claim_needs_no_locks_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network file systems refuse them."""
    fcntl = pytest.importorskip("fcntl")
    for name in ("flock", "lockf"):
        monkeypatch.setattr(fcntl, name, Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    claim = Claim(tmp_path)
    with pytest.raises(RunInUse):
        Claim(tmp_path)
    claim.release()


@pytest.mark.parametrize("kind", ["another host", "no exchange", "half-written"])
def test_a_claim_without_a_sign_of_life_is_taken_over(
    kind: str, tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a process on a machine that is off; where a file system does not exchange files; after a power cut."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = "another.host" if kind == "another host" else host_name()
    record = OwnerRecord(dead.pid, host, "lease", token="0", lease_duration=claims.PATIENCE)
    (tmp_path / MARKER).write_bytes(b"" if kind == "half-written" else encode_marker(record))
    if kind == "no exchange":
        monkeypatch.setattr(filelock._soft, "exchange_names", lambda one, other: False)
    began = time.monotonic()
    claim = Claim(tmp_path)
    assert time.monotonic() - began >= claims.PATIENCE
    claim.check()
    claim.release()
    assert not list(tmp_path.iterdir())


def test_a_process_that_was_suspended_finds_that_it_holds_nothing(tmp_path: Path, impatient: None) -> None:
    code = "from procrustean.base import lease as claims\n"
    code += f"claims.PATIENCE, claims.BEAT = {claims.PATIENCE}, {claims.BEAT}\n"
    code += HOLDER.replace("sys.stdin.read()", "sys.stdin.readline(); claim.check()")
    holder = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    os.kill(holder.pid, signal.SIGSTOP)
    claim = Claim(tmp_path)
    os.kill(holder.pid, signal.SIGCONT)
    assert b"is no longer held by this process" in holder.communicate(b"\n")[1]
    claim.check()


def test_a_run_that_is_taken_over_commits_nothing_more(
    npz: Path, tiny: dict[str, Any], tmp_path: Path, files_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any moment: whenever a file is synced, another process has the run from then on."""
    short = {**tiny, "hold_out": 2, "epochs": 2, "batch_size": 64}

    def lost_at(number: int, path: Path) -> int:
        requests, fsync = count(1), os.fsync

        def sync(handle: int) -> None:
            fsync(handle)
            if next(requests) == number:
                (path / MARKER).unlink()
                held.append(Claim(path))
                found.append(files_of(path))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", sync)
            fit(str(npz), **short, checkpoint_every=0.0, run_dir=path)
        return next(requests) - 1

    held: list[Claim] = []
    found: list[dict[str, bytes]] = []
    requests = lost_at(0, tmp_path / "whole")
    assert {"epochs.jsonl", "predictions.csv", "held_out_scores.safetensors"} <= files_of(tmp_path / "whole").keys()
    for number in range(1, requests):
        path = tmp_path / str(number)
        with pytest.raises(RunInUse, match="is no longer held by this process"):
            lost_at(number, path)
        assert files_of(path).items() <= found[-1].items()
        held[-1].check()
        held[-1].release()


def test_a_finished_run_is_claimed_by_nobody(splits: Splits, tiny: dict[str, Any], tmp_path: Path) -> None:
    """It may be kept where nothing can be written."""
    path = fit(splits, **tiny, run_dir=tmp_path / "run").path
    claim = Claim(path)
    with pytest.raises(RunError, match="is finished already"):
        resume(path, splits=splits)
    claim.release()


def test_a_forgotten_claim_leaves_no_handle_open(tmp_path: Path) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(5):
        directory = RunFolder(tmp_path)
        directory.claim()
        del directory
    gc.collect()
    assert len([*Path("/proc/self/fd").iterdir()]) == before

"""A run belongs to one process at a time."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.api import Stopped, fit, resume
from procrustean.config import RunConfig
from procrustean.data.imageset import Splits
from procrustean.engine.claims import Claim, RunInUse
from procrustean.engine.run_directory import RunDirectory
from procrustean.runs.many import fit_many

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
HOLDER = (
    "import sys; from pathlib import Path; from procrustean.engine.claims import Claim\n"
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
    before = files_of(path)
    claim = Claim(path)
    for attempt in (lambda: resume(path, splits=splits), lambda: fit(splits, **tiny, run_dir=path)):
        with pytest.raises(RunInUse, match=f"{path} is being trained by another process; wait for it, or stop it"):
            attempt()
    assert files_of(path) == before
    claim.release()
    assert resume(path, splits=splits).result["status"] == "complete"


def test_a_run_in_use_does_not_keep_the_others_of_a_grid(npz: Path, tiny: dict[str, Any], tmp_path: Path) -> None:
    configs = [RunConfig(source=str(npz), **tiny, seed=seed, run_dir=tmp_path / str(seed)) for seed in range(3)]
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


def test_a_forgotten_claim_leaves_no_handle_open(tmp_path: Path) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(5):
        directory = RunDirectory(tmp_path)
        directory.claim()
        del directory
    gc.collect()
    assert len([*Path("/proc/self/fd").iterdir()]) == before

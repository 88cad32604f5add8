"""Threads of a run: as many from Python as from the command line, and as before when it is over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from procrustean.balance import Classify
from procrustean.base.progress import Reporter
from procrustean.data import Splits
from procrustean.engine.device import sane_threads
from procrustean.nets import NETS
from procrustean.runs import fit


def flushes() -> bool:
    return bool(torch.tensor(1e-40) * 1.0 == 0)


@pytest.mark.usefixtures("two_threads")
class TestThreads:
    @pytest.mark.parametrize(("net", "threads"), [("small", 1), ("another", 2)])
    def test_inside_and_outside(
        self, net: str, threads: int, splits: Splits, tiny: dict[str, Any], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        monkeypatch.setitem(NETS, "another", NETS["small"])
        seen = set()
        forward = Classify.forward

        def noted(self: Classify, *arguments: Any) -> torch.Tensor:
            seen.add((torch.get_num_threads(), flushes()))
            return forward(self, *arguments)

        monkeypatch.setattr(Classify, "forward", noted)
        fit(splits, **{**tiny, "net": net, "epochs": 1}, run_dir=tmp_path / "run", reporter=Reporter())
        assert seen == {(threads, True)}
        assert torch.get_num_threads() == 2
        assert not flushes()

    def test_after_a_failure(self) -> None:
        with pytest.raises(KeyError), sane_threads("small"):
            raise KeyError
        assert torch.get_num_threads() == 2
        assert not flushes()

    def test_what_the_user_had_set_stays(self) -> None:
        torch.set_flush_denormal(True)
        try:
            with sane_threads("small"):
                assert flushes()
            assert flushes()
        finally:
            torch.set_flush_denormal(False)


@pytest.mark.parametrize(("given", "used"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_of_the_command_line_sleep_while_they_wait(given: dict[str, str], used: str) -> None:
    libraries = list((Path(torch.__file__).parent / "lib").glob("libgomp*"))
    if not libraries:
        pytest.skip("this build of torch comes without GNU's OpenMP, which tells what it has read")
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    # As the `procrustean` command begins, and then as torch loads OpenMP.
    program = "from procrustean.cli import main; main(['recipes']); import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    answer = subprocess.run(
        [sys.executable, "-c", program, str(libraries[0])],
        env={**environment, **given, "OMP_DISPLAY_ENV": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"OMP_WAIT_POLICY = '{used}'" in answer.stderr

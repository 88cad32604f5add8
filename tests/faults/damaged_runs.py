"""Interrupted runs whose files are damaged, and disks that refuse to write, at any moment."""

from __future__ import annotations

import builtins
import os
import random
import shutil
import warnings
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest import mock

from comparing import differences
from procrustean.base import ProcrusteanError, RunError
from procrustean.records import checkpoints
from procrustean.runs import fit
from procrustean.runs import train_api as api
from procrustean.runs.train_api import Stopped, resume
from tally import Tally

SETTINGS: dict[str, Any] = {
    "net": "small",
    "epochs": 3,
    "batch_size": 16,
    "device": "cpu",
    "precision": "fp32",
    "method": "mfw",
    "hold_out": 2,
    "checkpoint_every": 0.0,
}


class Stopping:
    """A stop request at the seventh boundary between steps."""

    exit_code = 130

    def __init__(self) -> None:
        self.left = 7

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


def damaged_files(source: Path, folder: Path, count: int, seed: int, say: Callable[[str], None]) -> Tally:
    """Damage one file of an interrupted run after the other; it ends as it would have, or is refused as a whole."""
    chance, tally = random.Random(seed), Tally("damaged files of interrupted runs")
    whole = fit(str(source), **SETTINGS, run_dir=folder / "whole").path
    with mock.patch.object(api, "stop_on_signal", return_value=nullcontext(Stopping())), suppress(Stopped):
        fit(str(source), **SETTINGS, run_dir=folder / "stopped")
    names = sorted(path.name for path in (folder / "stopped").iterdir())
    for number in range(count):
        run, name = folder / "damaged", chance.choice(names)
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(folder / "stopped", run)
        how = damage(run / name, chance)
        tally.details[f"{name.replace('000006', 'before').replace('000007', 'newest')}: {how}"] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                resume(run)
            except ProcrusteanError:
                tally.refused += 1
                continue
        if differing := differences(run, whole):
            tally.problems.append(f"{name} {how}: {', '.join(differing)} differ")
        else:
            tally.survived += 1
        if number % 50 == 49:
            say(f"{number + 1} of {count} damaged files")
    return tally


def damage(path: Path, chance: random.Random) -> str:
    content = bytearray(path.read_bytes())
    how = chance.choice(["one bit", "cut", "zeros", "missing"])
    at = chance.randrange(len(content))
    if how == "one bit":
        content[at] ^= 1 << chance.randrange(8)
    elif how == "cut":
        del content[at:]
    elif how == "zeros":
        content[at : at + 512] = bytes(len(content[at : at + 512]))
    path.write_bytes(content)
    if how == "missing":
        path.unlink()
    return how


def full_disk(source: Path, folder: Path, most: int, seed: int, say: Callable[[str], None]) -> Tally:
    """Refuse one request to the system after the other, while files are written."""
    tally, chance = Tally("full disk, at any request to write"), random.Random(seed)
    settings = {**SETTINGS, "epochs": 2, "batch_size": 32}
    with Disk(folder, None) as disk:
        whole = fit(str(source), **settings, run_dir=folder / "whole").path
    chosen = sorted(chance.sample(range(1, disk.requests + 1), min(most, disk.requests)))
    tally.measured["requests of one run"] = disk.requests
    for number in chosen:
        run = folder / str(number)
        try:
            with Disk(folder, number):
                fit(str(source), **settings, run_dir=run)
            tally.problems.append(f"request {number} was refused and nobody noticed")
            continue
        except RunError as error:
            if "No space left on device" not in str(error):
                tally.problems.append(f"request {number}: {error}")
                continue
        if not (run / "result.json").exists():
            if (run / "config.json").exists():
                resume(run)
            else:
                fit(str(source), **settings, run_dir=run)
        if differing := differences(run, whole):
            tally.problems.append(f"request {number}: {', '.join(differing)} differ")
        else:
            tally.survived += 1
        shutil.rmtree(run)
    say(f"{tally.injected} refused requests")
    return tally


class Disk:
    """Counts what is asked of the system while files are written, and refuses the n-th request."""

    def __init__(self, folder: Path, refuse: int | None) -> None:
        self.requests, self.refuse, self.folder = 0, refuse, folder
        self._patches = [
            mock.patch.object(module, name, self._asking(getattr(module, name)))
            for module, name in ((os, "fsync"), (os, "replace"), (checkpoints, "save_file"))
        ]
        self._patches.append(mock.patch.object(builtins, "open", self._opening(builtins.open)))

    def __enter__(self) -> Disk:
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(self, *error: object) -> None:
        for patch in self._patches:
            patch.stop()

    def _request(self) -> None:
        self.requests += 1
        if self.requests == self.refuse:
            raise OSError(28, "No space left on device")

    def _asking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any, **more: Any) -> Any:
            self._request()
            return function(*arguments, **more)

        return ask

    def _opening(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def ask(file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
            if mode in ("wb", "ab") and self.folder in Path(file).parents:
                self._request()
            return function(file, mode, *arguments, **more)

        return ask

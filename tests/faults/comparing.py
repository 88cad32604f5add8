"""Whether two runs, or two folders of runs, are the same, bit for bit, in everything but times and places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from saved_states import saved_states

TIMES = ("finished_at", "seconds", "images_per_second")
PLACES = ("run_dir", "source", "checkpoint_every")


def runs_below(folder: Path) -> list[Path]:
    """The runs of a folder: itself, or those of a comparison or a tuning."""
    return sorted(path.parent for path in folder.rglob("config.json"))


def differences(one: Path, other: Path) -> list[str]:
    """Names of what differs; empty if nothing does."""
    names = [sorted(run.relative_to(folder).as_posix() for run in runs_below(folder)) for folder in (one, other)]
    if names[0] != names[1]:
        return ["the runs"]
    found = [name for run in names[0] for name in _differing(one / run, other / run)]
    for name in ("auto.json", "tuning.json"):
        if _outcome(one / name) != _outcome(other / name):
            found.append(name)
    return found


def _differing(one: Path, other: Path) -> list[str]:
    """Names of files of a run that differ."""
    # Checkpoints of a finished run are dropped, but a full disk may come between the result and that.
    paths = [path for run in (one, other) for path in run.iterdir() if path not in saved_states(run)]
    kept = sorted({path.name for path in paths if path.suffix in READ})
    found = [name for name in kept if READ[Path(name).suffix](one / name) != READ[Path(name).suffix](other / name)]
    if _bare(one) != _bare(other):
        found.append("result.json")
    if _epochs(one) != _epochs(other):
        found.append("epochs.jsonl")
    return found


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _arrays(path: Path) -> dict[str, bytes] | None:
    """Without the times at which an archive was written."""
    if not path.exists():
        return None
    with np.load(path) as arrays:
        return {name: arrays[name].tobytes() for name in arrays.files}


READ: dict[str, Any] = {".safetensors": _bytes, ".npz": _arrays}


def _outcome(path: Path) -> Any:
    """What several runs together have shown."""
    if not path.exists():
        return None
    record = json.loads(path.read_text())
    return {name: record.get(name) for name in ("chosen", "compared", "scores", "ties", "held_out_images")}


def _bare(run: Path) -> dict[str, Any]:
    record = json.loads((run / "result.json").read_text())
    config = {name: value for name, value in record["config"].items() if name not in PLACES}
    return {**{name: value for name, value in record.items() if name not in TIMES}, "config": config}


def _epochs(run: Path) -> list[dict[str, Any]]:
    lines = (run / "epochs.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in TIMES} for line in lines]

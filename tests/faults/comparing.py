"""Whether two runs are the same, bit for bit, in everything but times and places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TIMES = ("seconds", "images_per_second")
PLACES = ("run_dir", "source", "checkpoint_every")


def differences(one: Path, other: Path) -> list[str]:
    """Names of what differs; empty if nothing does."""
    found = []
    for name in ("model.safetensors", "held_out.safetensors"):
        contents = [(run / name).read_bytes() if (run / name).exists() else None for run in (one, other)]
        if contents[0] != contents[1]:
            found.append(name)
    if _bare(one) != _bare(other):
        found.append("result.json")
    if _epochs(one) != _epochs(other):
        found.append("epochs.jsonl")
    return found


def _bare(run: Path) -> dict[str, Any]:
    record = json.loads((run / "result.json").read_text())
    config = {name: value for name, value in record["config"].items() if name not in PLACES}
    return {**{name: value for name, value in record.items() if name not in TIMES}, "config": config}


def _epochs(run: Path) -> list[dict[str, Any]]:
    lines = (run / "epochs.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in TIMES} for line in lines]

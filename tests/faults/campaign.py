"""Breaks things on purpose, by the hundred, and counts what is lost. `make faults` runs it.

Usage: python tests/faults/campaign.py [--output results/faults.json] [--scale 1.0] [--seed N] [PART ...]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import procrustean
from damaged_runs import damaged_files, full_disk
from fuzzing import fuzz, random_number
from kills import kills_and_signals
from procrustean.engine.device import machine
from soak import soak
from tally import Tally

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format-1" / "stripes.npz"
PARTS = ("kills", "damage", "disk", "soak", "fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts; all of them by default")
    parser.add_argument("--output", type=Path, help="where the figures go, as JSON")
    parser.add_argument("--scale", type=float, default=1.0, help="how many faults, relative to the usual number")
    parser.add_argument("--seed", type=int, default=None, help="of the random moments; drawn and told by default")
    chosen = parser.parse_args()
    seed = random_number() if chosen.seed is None else chosen.seed
    torch.set_num_threads(1)
    say(f"seed {seed}")
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="procrustean-faults-") as made:
        tallies = [
            t for part in chosen.parts or PARTS for t in carried_out(part, Path(made) / part, chosen.scale, seed)
        ]
    record = {
        "format": 1,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
        "environment": {
            "machine": f"{machine(torch.device('cpu'))}, {os.cpu_count()} cores",
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
            "procrustean": procrustean.__version__,
        },
        "parts": tallies,
    }
    text = json.dumps(record, indent=1) + "\n"
    if chosen.output is None:
        sys.stdout.write(text)
    else:
        chosen.output.write_text(text)
    lost = sum(tally["lost"] for tally in tallies)
    say(f"{sum(tally['injected'] for tally in tallies)} faults, {lost} lost, {record['seconds']:.0f} s")
    return 1 if lost else 0


def carried_out(part: str, folder: Path, scale: float, seed: int) -> list[dict[str, object]]:
    """The figures of one part."""
    folder.mkdir(parents=True)

    def times(number: int) -> int:
        return max(1, round(scale * number))

    tallies: list[Tally]
    if part == "kills":
        tallies = kills_and_signals(FIXTURE, folder, times(200), seed, say)
    elif part == "damage":
        tallies = [damaged_files(FIXTURE, folder, times(200), seed, say)]
    elif part == "disk":
        tallies = [full_disk(FIXTURE, folder, times(100), seed, say)]
    elif part == "soak":
        tallies = [soak(FIXTURE, folder, max(40, times(200)), seed, say)]
    else:
        tallies = [fuzz(folder, times(300), seed, say)]
    return [tally.to_json() for tally in tallies]


def say(text: str) -> None:
    sys.stderr.write(f"faults: {text}\n")


if __name__ == "__main__":
    sys.exit(main())

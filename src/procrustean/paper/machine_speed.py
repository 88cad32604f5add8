"""How fast this machine has trained before, kept beside the runs."""

from __future__ import annotations

import math
from pathlib import Path

from procrustean.base.errors import RunError
from procrustean.base.json_files import read_object
from procrustean.base.whole_files import write_json
from procrustean.runs.cost import FIRST_GUESS
from procrustean.runs.step_cost import Device

FILE = "pace.json"
#: A measurement over less is left out, and older ones count half as much with every newer one.
SHORTEST, FADE = 20.0, 0.5


def machine_name() -> tuple[Device, str]:
    """Kind of device ("cuda" or "cpu") and its name."""
    import torch

    if torch.cuda.is_available():
        return "cuda", torch.cuda.get_device_name()
    return "cpu", "cpu"


def expected_rate(folder: Path) -> float:
    """Cost per second of a fleet: measured on this kind of machine, or a first guess."""
    kind, name = machine_name()
    measured = _read(folder).get(name)
    return measured["cost"] / measured["seconds"] if measured else FIRST_GUESS[kind]


def note_rate(folder: Path, cost: float, seconds: float) -> None:
    """Remember a measurement."""
    if seconds < SHORTEST or cost <= 0:
        return
    _, name = machine_name()
    known = _read(folder)
    before = known.get(name, {"cost": 0.0, "seconds": 0.0})
    known[name] = {"cost": FADE * before["cost"] + cost, "seconds": FADE * before["seconds"] + seconds}
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / FILE, known)


def _read(folder: Path) -> dict[str, dict[str, float]]:
    path = folder / FILE
    known = read_object(path, "remove it; it only remembers how fast runs were") if path.exists() else {}
    whole = all(isinstance(rate, dict) and _positive(rate.get("cost"), rate.get("seconds")) for rate in known.values())
    if not whole:
        raise RunError(f"{path} is damaged; remove it; it only remembers how fast runs were")
    return known


def _positive(*numbers: object) -> bool:
    return all(isinstance(n, int | float) and 0 < n < math.inf for n in numbers)

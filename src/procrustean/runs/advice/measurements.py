"""What this project has measured, as far as it decides which method is advised.

`measured.csv` beside this file holds it. `python experiments/measured.py` writes that from the files under results/ of
the repository, so that the advice says what docs/which-method.md says; a test keeps them equal.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import cast

from procrustean.balance.count_facts import Kind
from procrustean.base.table_formats import Statistic
from procrustean.records.best_of_many import Mean


@dataclass(frozen=True)
class Setting:
    """A kind of imbalance in which methods were compared."""

    name: str
    kind: Kind
    largest: int  # training images of the largest class
    smallest: int
    net: str


@dataclass(frozen=True)
class Measured:
    """The test balanced accuracy of the last epoch of a method in a setting, 0 to 100; of runs with data seed 0."""

    setting: Setting
    method: str
    drw: bool
    options: tuple[tuple[str, float], ...]  # other than the defaults
    mean: float  # over the training seeds
    sd: float
    seeds: int

    @property
    def result(self) -> Mean:
        return Mean.of(Statistic(self.mean / 100, self.sd / 100, self.seeds))


@cache
def measured() -> tuple[Measured, ...]:
    """All of it, in the order of the file."""
    lines = (files(__package__) / "measured.csv").read_text(encoding="utf-8").splitlines()
    return tuple(_row(line) for line in csv.DictReader(lines))


def _row(line: dict[str, str]) -> Measured:
    kind = cast(Kind, line["kind"])
    pairs = (pair.split("=") for pair in line["options"].split())
    return Measured(
        Setting(line["setting"], kind, int(line["largest"]), int(line["smallest"]), line["net"]),
        line["method"],
        line["drw"] == "yes",
        tuple((name, float(value)) for name, value in pairs),
        float(line["mean"]),
        float(line["sd"]),
        int(line["seeds"]),
    )

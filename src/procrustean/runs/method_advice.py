"""What this project has measured, as far as it decides which method is advised.

`measured.csv` beside this file holds it. `python experiments/measured.py` writes that from the files under results/ of
the repository, so that the advice says what docs/which-method.md says; a test keeps them equal.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import cast

from procrustean.balance.count_facts import Kind, checked_counts, imbalance_kind
from procrustean.base.table_formats import Statistic
from procrustean.records.best_of_many import Mean
from procrustean.records.run_spec import RunSpec


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
    return Measured(
        Setting(line["setting"], kind, int(line["largest"]), int(line["smallest"]), line["net"]),
        line["method"],
        line["drw"] == "yes",
        float(line["mean"]),
        float(line["sd"]),
        int(line["seeds"]),
    )


#: Below this ratio of the largest to the smallest class there is next to nothing to correct.
MILD = 3.0
#: The best of a few says little about the rest: advice comes from settings in which at least so many methods were
#: compared.
LEAST_COMPARED = 6


@dataclass(frozen=True)
class MethodChoice:
    """A method with its settings."""

    method: str
    drw: bool
    options: tuple[tuple[str, float], ...] = ()  # other than the defaults

    @property
    def name(self) -> str:
        """As a folder is called."""
        settings = "".join(f"-{option.replace('_', '-')}-{value:g}" for option, value in self.options)
        return self.method.replace("_", "-") + "-drw" * self.drw + settings


@dataclass(frozen=True)
class Advice:
    """The method to take, and why."""

    choice: MethodChoice
    why: str


def advised(counts: Sequence[int]) -> Advice:
    """The method that did best where the classes were most like these.

    >>> advised([1200, 1100, 1000]).choice.name
    'erm'
    """
    checked = checked_counts(counts)
    ratio = max(checked) / min(checked)
    if ratio < MILD:
        return Advice(MethodChoice("erm", False), f"the classes are near equal (ratio {ratio:.1f}): nothing to correct")
    many, near = nearest(checked), nearest(checked, least_compared=1)
    setting = near if _beaten(ranked(many)[0], near) else many
    best, *others = ranked(setting)
    erm = _found(setting, "erm", drw=False)
    plain = f" against {_percent(erm)} of plain training" if erm is not None else ""
    equals = [MethodChoice(row.method, row.drw).name for row in others if not best.result.told_apart(row.result)]
    doubt = f" Not told apart from it: {', '.join(equals)}." if equals else ""
    why = (
        f"best of {1 + len(others)} methods measured with three seeds or more on {setting.name}, which is like these "
        f"counts ({setting.largest} to {setting.smallest} images per class): {_percent(best)}{plain}, {best.seeds} "
        f"seeds.{doubt} More: docs/which-method.md"
    )
    return Advice(MethodChoice(best.method, best.drw), why)


def _beaten(best: Measured, near: Setting) -> bool:
    """Whether the best method of another setting is told apart from the first one here, and so is not it."""
    own = _found(near, best.method, drw=best.drw)
    return own is not None and ranked(near)[0].result.told_apart(own.result) is True


def _found(setting: Setting, method: str, *, drw: bool) -> Measured | None:
    return next((row for row in ranked(setting) if (row.method, row.drw) == (method, drw)), None)


def _percent(row: Measured) -> str:
    return f"{row.mean:.1f} ± {row.sd:.1f} %"


#: On images of a user, what corrects for the class sizes where no method is named, and with which deferred weights go
#: where these alone are asked for. LDAM with DRW gained more, though n.s., but has a head of its own.
CORRECTION, WITH_DRW = MethodChoice("balanced_softmax", False), MethodChoice("erm", True)
#: How much it gained on plain training from scratch, in points of balanced accuracy on held-out images: the mean over
#: four sets of photographs with three seeds each, and its standard error.
GAIN, GAIN_ERROR = 3.1, 1.1
#: What `--method auto` compares, by their gain on those photographs; plain training shows what it is worth.
COMPARED = (
    CORRECTION, MethodChoice("erm", False), MethodChoice("ldam", True), WITH_DRW, MethodChoice("remix", True),
    MethodChoice("mfw", True), MethodChoice("mfw", False), MethodChoice("tau_norm", False),
)  # fmt: skip


def with_correction(config: RunSpec) -> RunSpec:
    """The settings of a user's own images with a method where they leave it open."""
    choice = WITH_DRW if config.drw else CORRECTION
    return replace(config, method=choice.method, drw=choice.drw)


def correction_text(config: RunSpec) -> str:
    """The method that was taken, and why."""
    if config.drw:
        return f"method {config.method} with DRW, as asked for"
    return (
        f"method {config.method}: from scratch it gained {GAIN:g} ± {GAIN_ERROR:g} points of balanced accuracy on "
        "plain training, over four sets of photographs; docs/photographs.md has others"
    )


def nearest(counts: Sequence[int], *, least_compared: int = LEAST_COMPARED) -> Setting:
    """The measured setting of the same kind whose ratio and smallest class are nearest, on a logarithmic scale.

    Args:
        counts: training images of the classes.
        least_compared: methods that must have been compared in it.
    """
    kind, largest, smallest = imbalance_kind(counts), max(counts), min(counts)

    def distance(setting: Setting) -> float:
        ratio = math.log((largest / smallest) / (setting.largest / setting.smallest))
        return abs(ratio) + abs(math.log(smallest / setting.smallest))

    settings = dict.fromkeys(row.setting for row in measured())
    same = [setting for setting in settings if setting.kind == kind and len(ranked(setting)) >= least_compared]
    return min(same, key=distance)


def ranked(setting: Setting) -> list[Measured]:
    """What was measured in a setting with the defaults of the methods, the best first."""
    rows = [row for row in measured() if row.setting == setting]
    return sorted(rows, key=lambda row: -row.mean)

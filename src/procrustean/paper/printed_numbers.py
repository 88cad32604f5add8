"""Every number of the paper's tables, as data."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast

Origin = Literal["ran", "copied", "unstated"]
Metric = Literal["top1", "top5"]


@dataclass(frozen=True)
class PaperNumber:
    """One number of the paper, in percent.

    Its `origin` says whether the authors ran the method themselves or took the number over, as far as their text
    tells: their own method, what they say they re-implemented, what they say they trained; "theirs". A citation
    beside the name of a row tells neither.
    """

    table: str
    row: str
    column: str
    metric: Metric
    value: float
    origin: Origin
    note: str

    @property
    def text(self) -> str:
        """As the paper prints it."""
        return f"{self.value:.1f}" if round(self.value, 1) == self.value else f"{self.value:g}"


@cache
def paper_numbers() -> tuple[PaperNumber, ...]:
    """All of them, in the order of the paper."""
    text = files(__package__).joinpath("paper.csv").read_text(encoding="utf-8")
    return tuple(
        PaperNumber(
            line["table"],
            line["row"],
            line["column"],
            cast(Metric, line["metric"]),
            float(line["value"]),
            cast(Origin, line["origin"]),
            line["note"],
        )
        for line in csv.DictReader(text.splitlines())
    )


@cache
def _by_place() -> dict[tuple[str, str, str, str], PaperNumber]:
    return {(n.table, n.row, n.column, n.metric): n for n in paper_numbers()}


def paper_number(table: str, row: str, column: str, metric: str = "top1") -> PaperNumber | None:
    """The number in one place, None where the paper has none.

    >>> paper_number("cifar", "MFW-DRW", "cifar10-step100").value
    81.6
    """
    return _by_place().get((table, row, column, metric))


@cache
def paper_rows(table: str) -> frozenset[str]:
    """Names of the rows that a table of the paper has; none for tables that are not the paper's."""
    return frozenset(n.row for n in paper_numbers() if n.table == table)

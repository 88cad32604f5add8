"""Write what the advice is taken from, src/procrustean/runs/measured.csv, from the files under results/.

python experiments/measured.py
"""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from procrustean.base.console import notify
from procrustean.paper import Ranking, Store, paper_definitions, rankings
from procrustean.records.groups import Group

PROJECT = Path(__file__).resolve().parents[1]
#: What docs/which-method.md calls the data in its headings, as people call them.
NAMES = {"cifar10": "CIFAR-10"}
LEAST_SEEDS = 3
COLUMNS = ("setting", "kind", "largest", "smallest", "net", "method", "drw", "mean", "sd", "seeds")


@dataclass(frozen=True)
class Measurements:
    """Write the table; run it again whenever there are new results."""

    results: Path = PROJECT / "results"
    """Where the result files are."""
    table: Path = PROJECT / "src" / "procrustean" / "runs" / "measured.csv"
    """What is written."""


def main(arguments: Measurements) -> int:
    arguments.table.write_text(table(arguments.results), encoding="utf-8", newline="")
    notify(f"wrote {arguments.table}")
    return 0


def table(results: Path) -> str:
    """The methods of docs/which-method.md as they are by default.

    Variants of a method, such as another loss, are not advised, and single runs have no rank.
    """
    ranked = rankings(paper_definitions(), Store(results, None, notify))
    groups = [_each_method(ranking) for ranking in ranked]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_line(group) for together in groups for group in together if len(group.results) >= LEAST_SEEDS)
    return text.getvalue()


def _each_method(ranking: Ranking) -> list[Group]:
    """Each method once, by the shortest of its schedules, trained on the images of plain training and no others."""
    plain = ranking.named("ERM")
    found: dict[tuple[str, bool], Group] = {}
    for group in sorted((entry.group for entry in ranking.entries), key=lambda group: group.epochs):
        alike = plain is not None and group.counts == plain.group.counts and group.data.meta is None
        if alike and not group.config.options and len(group.results) >= LEAST_SEEDS:
            found.setdefault((group.config.method, group.config.drw), group)
    return list(found.values())


def _line(group: Group) -> tuple[str, ...]:
    data, config = group.data, group.config
    kind = data.kind
    source = NAMES.get(data.source, data.source)
    statistic = group.statistic("balanced_accuracy")
    assert statistic is not None
    assert statistic.sd is not None
    return (
        f"{source}, {kind.replace('_', '-')}, ratio {data.rho:g}",
        kind,
        str(max(group.counts)),
        str(min(group.counts)),
        group.net,
        config.method,
        "yes" if config.drw else "no",
        f"{100 * statistic.mean:.4f}",  # with two decimals some are rounded twice, and told otherwise than in the docs
        f"{100 * statistic.sd:.4f}",
        str(statistic.n),
    )


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Measurements)))

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from procrustean.paper import paper_definitions, paper_number, paper_numbers
from procrustean.paper.printed_numbers import paper_rows


def test_every_place_is_named_once_and_every_origin_is_known() -> None:
    numbers = paper_numbers()
    assert max(Counter((n.table, n.row, n.column, n.metric) for n in numbers).values()) == 1
    assert {n.origin for n in numbers} == {"ran", "copied", "unstated"}
    assert {n.metric for n in numbers} == {"top1", "top5"}
    assert all(20 < n.value < 95 for n in numbers)


def test_the_numbers_are_those_of_the_paper(shared_dir: Path) -> None:
    with (shared_dir / "paper-results.csv").open() as file:
        theirs = {place_of(row): float(row["value"]) for row in csv.DictReader(file)}
    ours = {(n.table, n.row, n.column, n.metric): n.value for n in paper_numbers()}
    assert {place: ours.get(place) for place in theirs} == theirs
    # The table of label mixing repeats ERM and MFW of the layer table; the list has them there only.
    repeated = {place: value for place, value in ours.items() if place not in theirs}
    assert {(table, row) for table, row, *_ in repeated} == {("label-mixing", "ERM"), ("label-mixing", "MFW")}
    rows = {"ERM": "ERM", "MFW": "MFW@group2"}
    assert repeated == {place: ours["layer", rows[place[1]], *place[2:]] for place in repeated}


def place_of(line: dict[str, str]) -> tuple[str, str, str, str]:
    """Where a line of the list stands in our tables."""
    table, sets = line["table"], {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "Tiny-ImageNet": "tiny"}
    if line["dataset"] in sets:
        kind = {"long-tailed": "lt", "step": "step"}[line["imbalance"]]
        column = f"{sets[line['dataset']]}-{kind}{line['rho']}"
    elif table == "imagenet-lt":
        column = line["net"].lower().replace("-", "")
    else:
        column = {"tiered-imagenet": "tiered-step", "toy": "four-classes"}.get(table) or line["note"].replace(" ", "-")
    return table, line["note"] if table == "alpha" else line["method"], column, line["metric"]


@pytest.mark.parametrize(
    ("place", "value", "origin"),
    [
        (("cifar", "MFW", "cifar10-lt100"), 78.5, "ran"),
        (("cifar", "MFW-DRW", "cifar100-step100"), 48.4, "ran"),
        (("cifar", "ERM", "cifar10-step100"), 65.3, "ran"),
        (("layer", "ERM", "cifar10-step100"), 65.8, "ran"),
        (("cifar", "BBN", "cifar10-lt10"), 88.3, "unstated"),
        (("strong-augmentation", "SEQL", "cifar100-lt200"), 43.4, "copied"),
        (("tiered-imagenet", "cRT", "tiered-step", "top5"), 66.5, "ran"),
        (("inaturalist18", "Remix-DRW", "180-epochs"), 70.5, "copied"),
        (("imagenet-lt", "MFW", "resnext50"), 50.5, "ran"),
        (("alpha", "alpha=0.2", "cifar100-lt100"), 44.7, "ran"),
        (("toy", "MFW", "four-classes"), 83.65, "ran"),
    ],
)
def test_numbers_by_their_place(place: tuple[str, ...], value: float, origin: str) -> None:
    found = paper_number(*place)
    assert found is not None
    assert (found.value, found.origin) == (value, origin)


def test_numbers_are_shown_as_they_are_printed() -> None:
    shown = [paper_number(*place) for place in (("toy", "MFW", "four-classes"), ("cifar", "LDAM-DRW", "cifar10-lt100"))]
    assert [number.text for number in shown if number] == ["83.65", "77.0"]


def test_where_the_paper_has_a_dash_there_is_no_number() -> None:
    assert paper_number("cifar", "BBN", "cifar10-step100") is None
    assert paper_rows("beyond") == frozenset()


def test_every_number_of_the_paper_has_a_cell_that_is_trained() -> None:
    tables = paper_definitions().tables
    cells = {(c.table, c.row, c.column) for spec in tables.values() for c in spec.cells()}
    assert [n for n in paper_numbers() if (n.table, n.row, n.column) not in cells] == []
    assert [n for n in paper_numbers() if n.metric not in tables[n.table].metrics] == []

from __future__ import annotations

import pytest

from procrustean.balance.mfw import DEFAULT_BETA
from procrustean.methods.equal_settings import SAME_POINT, SAME_RUN, furthest_apart
from procrustean.paper.table_files import paper_definitions
from procrustean.records import RunSpec
from procrustean.runs.training_sizes import training_counts


def test_the_distance_is_that_of_the_class_that_differs_most() -> None:
    # The standard deviation is 90, the geometric mean 43.6. The class of 190 goes from 0.4179 to 0.4814, 0.25 * (1 +
    # tanh(0.5 * 146.4 / 90)) and 0.25 * (1 + tanh(146.4 / 90)); that of 10 from 0.2039 to 0.1608.
    apart = furthest_apart((190, 10), ("arithmetic", 1.0), ("arithmetic", 0.5))
    assert apart == pytest.approx(0.0635, abs=1e-4)
    assert furthest_apart((190, 10), ("geometric", 1.0), ("geometric", 1.0)) == 0


@pytest.mark.parametrize("kind", ["long_tailed", "step"])
@pytest.mark.parametrize("held_out", [0, 500])
def test_one_row_of_the_table_of_beta_stands_for_all_of_cifar10(kind: str, held_out: int) -> None:
    """What the note of the table says, and why it has no other rows there."""
    config = RunSpec("cifar10", kind, 100, hold_out=held_out, hold_out_from="source")  # type: ignore[arg-type]
    counts = training_counts(config)
    assert counts is not None
    default = DEFAULT_BETA[kind]  # type: ignore[index]
    for beta in (0.01, 0.1, 0.5, 1, 2, 5):
        assert furthest_apart(counts, ("geometric", beta), ("geometric", default)) < SAME_POINT
    assert furthest_apart(counts, ("geometric", 10), ("geometric", default)) > SAME_POINT
    table = paper_definitions().tables["beta"]
    assert f"the same to {SAME_POINT:g}" in table.note
    geometric = [cell.row for cell in table.cells(columns=["cifar10-*"]) if cell.row.startswith("geometric")]
    assert set(geometric) == {"geometric, the default beta"}


def test_tables_ask_more_of_one_run_than_curves_of_one_point() -> None:
    assert SAME_RUN < SAME_POINT

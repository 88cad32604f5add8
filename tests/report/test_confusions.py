from __future__ import annotations

from collections.abc import Callable

import numpy as np

from made_records import with_changes
from procrustean.records import group_results
from procrustean.records.run_record import Result
from procrustean.report.mistakes import Confusion, summed_confusion, worst_confusions

Make = Callable[..., Result]


def test_matrices_of_all_seeds_are_added_up(result: Make) -> None:
    runs = [result(seed=seed, recall=[0.9] * 9 + [0.2 + 0.1 * seed]) for seed in range(2)]
    (group,) = group_results(runs)
    matrix = summed_confusion(group)
    assert matrix is not None
    assert matrix[9, 9] == 20 + 30
    assert matrix.sum() == 2 * 1000
    assert summed_confusion(group, "held_out") is None
    runs[1] = with_changes(runs[1], selections__last__metrics__confusion=None)
    assert summed_confusion(*group_results(runs)) is None


def test_the_worst_take_the_largest_share_of_their_class() -> None:
    matrix = np.array([[90, 10, 0], [2, 6, 2], [0, 3, 0]])
    found = worst_confusions(matrix, 3)
    assert found == [Confusion(2, 1, 3, 3), Confusion(1, 0, 2, 10), Confusion(1, 2, 2, 10)]
    assert found[0].share == 1
    assert worst_confusions(np.eye(3, dtype=np.int64), 3) == []

from __future__ import annotations

import pytest

from procrustean.runs.time_box import TimeBox


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [(9.0, 540 - 8), (0.5, 30 - 3), (0.0, 0.0)],  # time to save runs in progress, but of a short box a tenth at most
)
def test_the_time_is_up_while_there_is_some_left_to_save(minutes: float, seconds: float) -> None:
    times = iter([100.0, 100.0 + seconds - 0.1, 100.0 + seconds])
    box = TimeBox(minutes, lambda: next(times))
    assert box.deadline == 100 + 60 * minutes
    assert [box.is_over(), box.is_over()] == [False, True]


def test_the_minutes_count_from_when_the_command_began() -> None:
    assert TimeBox(1.0, lambda: 100.0, began=30.0).is_over()


def test_without_a_limit_it_is_never_up() -> None:
    box = TimeBox(None, lambda: 1e9)
    assert (box.deadline, box.is_over()) == (None, False)

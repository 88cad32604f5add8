"""Verdicts on a page that holds what they would recommend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from made_records import with_changes
from probed_runs import AT
from procrustean.records.run_record import Result
from procrustean.report.findings import repeats_of
from procrustean.report.page_data import page_data
from procrustean.runs.method_advice import advised

Make = Callable[..., Result]

#: Fitted late, so that the method that is advised for these counts is suggested, ldam --drw, and nothing else.
LATE = {"train": np.array([(1.0, 0.9, minor, minor) for minor in (0.0, 0.1, 0.9, 0.9, 0.9)]), "deviation": 0.1}
WHY = "The minor classes need 40 % of the training to catch up."
TRY_LDAM = f"{WHY} Try --method ldam --drw, {advised([100, 80, 10, 5]).why}."


def suggested(result: Make, *others: dict[str, Any]) -> str:
    """The suggestion for ERM, three seeds of 51.8 ± 4.0, beside others."""
    runs = [result(**LATE, seed=seed, accuracy=0.518 + 0.04 * (seed - 1)) for seed in range(3)]
    for other in others:
        mean = other.pop("mean")
        runs += [result(seed=seed, accuracy=mean + 0.034 * (seed - 1), **other) for seed in range(3)]
    (setting,) = page_data(runs)["settings"]
    sentences = setting["methods"][0]["verdicts"][0]["sentences"]
    assert len(sentences) == 3
    return str(sentences[-1])


def ldam(mean: float, label: str = "LDAM-DRW", **more: Any) -> dict[str, Any]:
    return {"label": label, "method": "ldam", "drw": True, "mean": mean, **more}


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ([], TRY_LDAM),
        ([{"label": "Focal", "method": "focal", "mean": 0.9}], TRY_LDAM),
        ([ldam(0.9, "LDAM", drw=False)], TRY_LDAM),
        (
            [ldam(0.517)],
            f"{TRY_LDAM} On this page: LDAM-DRW 51.7 ± 3.4 against 51.8 ± 4.0.",
        ),
        (
            [ldam(0.517), ldam(0.6, options={"max_margin": 0.3})],
            f"{TRY_LDAM} On this page: LDAM-DRW (max_margin=unknown) 51.7 ± 3.4, LDAM-DRW (max_margin=0.3) 60.0 ± 3.4 "
            "against 51.8 ± 4.0.",
        ),
    ],
)
def test_advice_for_what_is_on_the_page_says_how_that_does(others: list[Any], text: str, result: Make) -> None:
    assert suggested(result, *others) == text


def test_the_weightiest_come_first_and_the_others_are_kept(result: Make) -> None:
    (setting,) = page_data([result(**LATE)])["settings"]
    (verdict,) = setting["methods"][0]["verdicts"]
    progress, fit, suggestion = verdict["sentences"]
    assert progress.startswith("Training accuracy: of 2 minor classes 2 under-fitted")
    assert fit.startswith("After epoch 100 the minor classes have 90.0 % training")
    assert suggestion == TRY_LDAM
    assert len(verdict["more"]) == 3
    assert verdict["more"][0].startswith("Classification ratio")


def test_of_several_seeds_the_mean_comes_first(result: Make) -> None:
    seen = LATE["train"]
    runs = [result(**{**LATE, "train": seen + 0.02 * seed * (seen < 0.5)}, seed=seed) for seed in range(3)]
    (setting,) = page_data(runs)["settings"]
    mean, *each = setting["methods"][0]["verdicts"]
    assert mean["seeds"] == [0, 1, 2]
    assert [verdict["seeds"] for verdict in each] == [[0], [1], [2]]
    assert mean == {**each[1], "seeds": [0, 1, 2]}
    runs[0] = with_changes(runs[0], probes=None)
    (setting,) = page_data(runs)["settings"]
    assert [verdict["seeds"] for verdict in setting["methods"][0]["verdicts"]] == [[1], [2]]


def test_seeds_that_were_measured_at_other_epochs_are_not_judged_by_the_few_they_share(result: Make) -> None:
    often, seldom = result(seed=0), result(seed=1, at=(50, 100))
    (setting,) = page_data([often, seldom])["settings"]
    verdicts = setting["methods"][0]["verdicts"]
    assert [verdict["seeds"] for verdict in verdicts] == [[0], [1]]
    assert repeats_of([often, seldom]) == []
    few = [result(seed=seed, at=(50, 100)) for seed in range(2)]
    more = [often, result(seed=1, at=(5, *AT))]
    for runs in (few, more):
        (setting,) = page_data(runs)["settings"]
        assert setting["methods"][0]["verdicts"][0]["seeds"] == [0, 1]
        assert len(repeats_of(runs)) == 1

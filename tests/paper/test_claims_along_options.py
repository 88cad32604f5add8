from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made_records import with_changes
from procrustean.base.table_formats import NOTHING
from procrustean.paper import claims_table, coverage
from procrustean.paper.claims import NOT_YET
from procrustean.records.run_record import Result

Make = Callable[..., Result]

LONG_TAILED = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
STEP = [5000] * 5 + [50] * 5
HELD_OUT: dict[str, Any] = {"hold_out": 500, "hold_out_from": "source"}


def best(results: list[Result], option: str, std: str = "geometric") -> tuple[str, str, str]:
    """What the row of an option says: how it was measured, the best values, whether the claim was seen."""
    names = [column.name for column in claims_table(results).columns]
    found = [dict(zip(names, (cell.text for cell in row), strict=True)) for row in claims_table(results).rows]
    (row,) = (row for row in found if row["measured"].startswith(f"best {option},") and f"; {std} " in row["measured"])
    return row["measured"], row["mfw"], row["seen"]


@pytest.fixture
def mfw(result: Make) -> Make:
    """A run of MFW on CIFAR-10 at ratio 100."""

    def make(kind: str, accuracy: float, options: dict[str, Any] | None = None, **fields: Any) -> Result:
        counts = LONG_TAILED if kind == "long_tailed" else STEP
        common = {"source": "cifar10", "rho": 100.0, "net": "resnet32", "counts": counts, "epochs": 300}
        made = result(label="MFW", method="mfw", kind=kind, accuracy=accuracy, options=options, **{**common, **fields})
        return made if fields.get("probe_every") else with_changes(made, probes=None)

    return make


@pytest.fixture
def along_beta(mfw: Make) -> list[Result]:
    """Runs as `reproduce beta` keeps them: one with the defaults stands for the geometric standard deviation."""
    tail, step = ([9 * count // 10 for count in counts] for counts in (LONG_TAILED, STEP))
    return [
        mfw("long_tailed", 0.7, counts=tail, **HELD_OUT),
        mfw("step", 0.7, counts=step, **HELD_OUT),  # stands for the arithmetic one with beta = 0.01 too
        *(
            mfw("long_tailed", accuracy, {"std": "arithmetic", "beta": beta}, counts=tail, **HELD_OUT)
            for beta, accuracy in ((0.01, 0.6), (0.1, 0.6), (0.5, 0.7), (5.0, 0.6))
        ),
        *(mfw("step", 0.6, {"std": "arithmetic", "beta": beta}, counts=step, **HELD_OUT) for beta in (0.1, 0.5, 5.0)),
    ]


def test_a_run_with_the_default_completes_a_line(mfw: Make) -> None:
    runs = [mfw(kind, 0.6, {"alpha": alpha}) for kind in ("long_tailed", "step") for alpha in (0.1, 0.5)]
    assert best(runs, "alpha")[1:] == ("0.1 and 0.1", "no")
    defaults = [mfw("long_tailed", 0.7), mfw("step", 0.7)]
    assert best([*runs, *defaults], "alpha")[1:] == ("1 and 5", "yes")
    assert best([*defaults, *runs[:1], *runs[2:3]], "alpha")[1:] == ("1 and 5", "yes")
    assert best(defaults, "alpha")[1:] == (NOTHING, NOT_YET)


@pytest.mark.parametrize(
    "fields",
    [
        HELD_OUT,
        {"counts": [5000] * 4 + [50] * 6},
        {"epochs": 200},
        {"average": "swa"},
        {"options": {"draw": "batch"}},
    ],
    ids=str,
)
def test_a_run_that_differs_otherwise_completes_no_line(fields: dict[str, Any], mfw: Make) -> None:
    runs = [mfw(kind, 0.6, {"alpha": alpha}) for kind in ("long_tailed", "step") for alpha in (0.1, 0.5)]
    assert best([*runs, mfw("step", 0.9, **fields)], "alpha") == best(runs, "alpha")


def test_of_two_runs_with_the_same_seeds_the_one_like_the_others_makes_the_line(mfw: Make, result: Make) -> None:
    runs = [mfw(kind, 0.6, {"alpha": 0.5}) for kind in ("long_tailed", "step")]
    runs += [mfw("long_tailed", 0.5), mfw("step", 0.7)]
    for accuracy in (0.1, 0.9):
        measured = mfw("step", accuracy, probe_every=4)
        assert best([measured, *runs], "alpha")[1:] == ("0.5 and 5", "yes")
        assert best([*runs[:3], measured], "alpha")[1] == ("0.5 and 0.5" if accuracy < 0.5 else "0.5 and 5")


def test_a_beta_that_makes_no_difference_is_said_to_make_none(along_beta: list[Result]) -> None:
    measured, found, seen = best(along_beta, "beta")
    assert (found, seen) == ("one run for all", "no")
    assert measured.endswith(
        "geometric standard deviation: every beta from 0.01 to 5 gives the same strengths to 0.005"
    )
    measured, found, seen = best(along_beta, "beta", "arithmetic")
    assert (found, seen) == ("0.5 and 0.01", "yes")
    assert measured.endswith("arithmetic standard deviation")


def test_without_a_run_along_beta_nothing_is_said_about_it(mfw: Make) -> None:
    assert best([mfw("long_tailed", 0.7), mfw("step", 0.7)], "beta")[1:] == (NOTHING, NOT_YET)


def test_a_run_of_which_nothing_else_differs_in_beta_makes_no_line(mfw: Make, along_beta: list[Result]) -> None:
    runs = [run for run in along_beta if run.data.kind == "long_tailed"]
    assert best([*runs, mfw("step", 0.7)], "beta")[1:] == (NOTHING, NOT_YET)


def test_a_beta_that_makes_no_difference_to_one_kind_is_said_so(mfw: Make, along_beta: list[Result]) -> None:
    few = [50, 40, 30, 20, 15, 10, 5, 3, 2, 1]  # whose strengths differ with beta
    runs = [mfw("long_tailed", 0.6 + 0.1 * (beta == 5), {"beta": beta}, counts=few) for beta in (0.1, 1.0, 5.0)]
    measured, found, seen = best([*runs, *(run for run in along_beta if run.data.kind == "step")], "beta")
    assert (found, seen) == ("5 and one run for all", "no")
    assert measured.endswith(": every beta from 0.01 to 5 gives step counts the same strengths to 0.005")


def test_values_that_share_the_best_run_are_all_named(mfw: Make, along_beta: list[Result]) -> None:
    tail, step = (run.data.counts for run in along_beta[:2])
    runs = [*along_beta, mfw("long_tailed", 0.9, {"beta": 10.0}, counts=tail, **HELD_OUT)]
    assert best(runs, "beta")[1:] == ("10 and one run for all", "no")  # as the step runs do not prefer any
    runs += [mfw("step", 0.1, {"beta": 10.0}, counts=step, **HELD_OUT)]
    assert best(runs, "beta")[1:] == ("10 and 0.01/0.1/0.5/2/5", "yes")


def test_held_out_images_change_nothing_but_the_rows_of_the_options(mfw: Make, along_beta: list[Result]) -> None:
    full = [mfw("step", 0.8), mfw("long_tailed", 0.8)]
    before, after = (claims_table(runs).rows for runs in (full, [*along_beta, *full]))
    assert before[:-2] == after[:-2]
    assert "80.0" in {cell.text for row in after for cell in row}
    assert [row[-1].text for row in after[-2:]] == ["no", "yes"]


def test_runs_of_lines_are_counted(along_beta: list[Result], mfw: Make, tmp_path: Path) -> None:
    assert coverage(along_beta) == "9 runs were read, and the claims are about all of them"
    full = mfw("step", 0.5)
    assert coverage([*along_beta, full]) == "10 runs were read, and the claims are about all of them"
    batch = mfw("step", 0.5, {"draw": "batch"}, **HELD_OUT)  # on no line
    alone = mfw("step", 0.5, **HELD_OUT)  # of other counts than those along beta
    assert coverage([*along_beta, batch, alone]).startswith("11 runs were read, of which 9 count:")


def test_settings_that_cannot_be_on_one_line_are_sorted_out(along_beta: list[Result], mfw: Make) -> None:
    """As when a whole folder of results is given: the line of most settings counts, and nothing is refused."""
    others = [
        mfw("step", 0.9, {"draw": "batch"}, **HELD_OUT),
        mfw("step", 0.9, {"layer": "group1"}),
        mfw("step", 0.9, {"std": "arithmetic", "beta": 1.0}),
        mfw("step", 0.95, {"std": "arithmetic", "beta": 5.0}),
        mfw("step", 0.9, {"alpha": 1.0}),
        mfw("step", 0.9, probe_every=4),
        mfw("step", 0.9),
        *(mfw("step", 0.9, seed=seed, data_seed=choice) for seed in (0, 1) for choice in (1, 2)),
        mfw("step", 0.9, drw=True, options={"drw": True}),
    ]
    runs = [*others, *along_beta]
    assert best(runs, "beta")[1:] == ("one run for all", "no")
    assert best(runs, "beta", "arithmetic") == best(along_beta, "beta", "arithmetic")

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from procrustean.base import RunError
from procrustean.paper import canonical, paper_definitions
from procrustean.paper.mfw_lines import Line, lines_along
from procrustean.records.run_record import Result
from procrustean.runs.training_sizes import training_counts

Make = Callable[..., Result]

BETAS = [0.01, 0.1, 0.5, 1.0, 2.0, 5.0]
TAIL = [4500, 2697, 1617, 969, 581, 348, 208, 125, 75, 45]
STEP = [4500] * 5 + [45] * 5


@pytest.fixture
def mfw(result: Make) -> Make:
    """A run of MFW on CIFAR-10 at ratio 100, of which 500 images of each class are held out."""

    def make(kind: str, accuracy: float, **fields: Any) -> Result:
        common: dict[str, Any] = {
            "label": "MFW", "method": "mfw", "source": "cifar10", "rho": 100.0,
            "hold_out": 500, "hold_out_from": "source", "counts": TAIL if kind == "long_tailed" else STEP,
        }  # fmt: skip
        return result(kind=kind, accuracy=accuracy, **{**common, **fields})

    return make


def lines_by(results: list[Result], option: Any) -> dict[tuple[str, str], Line]:
    return {(line.kind, line.std): line for line in lines_along(results, option)}


def means(line: Line) -> dict[float, float]:
    return {point.value: round(point.mean, 6) for point in line.points}


def trained(line: Line) -> list[float]:
    return [point.value for point in line.points if point.trained]


@pytest.mark.parametrize("option", ["alpha", "beta"])
def test_what_reproduce_trains_makes_whole_lines(option: str, result: Make) -> None:
    """The runs of the tables, each once, in the form in which they are kept."""
    table = paper_definitions().tables[option]
    planned = [canonical(cell.config()) for cell in table.cells(columns=["cifar10-*"])]
    configs = {run.hash: run for run in planned}
    assert len(configs) == {"alpha": 10, "beta": 13}[option]
    runs = [
        result(
            label="MFW", method="mfw", source="cifar10", kind=run.imbalance, rho=run.rho, options=run.options,
            counts=list(training_counts(run) or ()), hold_out=run.hold_out, hold_out_from=run.hold_out_from,
            accuracy=0.001 * (500 + number),
        )
        for number, run in enumerate(configs.values())
    ]  # fmt: skip
    lines = lines_by(runs, option)
    if option == "alpha":
        assert {key: list(means(line)) for key, line in lines.items()} == {
            ("long_tailed", "geometric"): [0.1, 0.2, 0.5, 1.0, 5.0],
            ("step", "geometric"): [0.1, 0.2, 0.5, 1.0, 5.0],
        }
        assert all(len(trained(line)) == line.settings == 5 for line in lines.values())
        return
    assert len(lines) == 4
    assert all(list(means(line)) == BETAS for line in lines.values())
    assert [trained(lines[kind, "geometric"]) for kind in ("long_tailed", "step")] == [[2.0], [0.01]]
    assert [trained(lines[kind, "arithmetic"]) for kind in ("long_tailed", "step")] == [BETAS, BETAS[1:]]
    assert [lines[kind, "geometric"].is_one_setting for kind in ("long_tailed", "step")] == [True, True]
    assert [lines[kind, "arithmetic"].settings for kind in ("long_tailed", "step")] == [6, 6]


def test_a_run_stands_at_every_beta_that_gives_its_strengths(mfw: Make) -> None:
    runs = [
        mfw("long_tailed", 0.7),
        *(mfw("step", 0.6, options={"std": "arithmetic", "beta": b}) for b in (0.5, 5, 10)),
    ]
    line = lines_by(runs, "beta")["long_tailed", "geometric"]
    assert means(line) == {0.01: 70, 0.5: 70, 2: 70, 5: 70}  # with 10 the strengths are others
    assert trained(line) == [2]
    assert line.best == (0.01, 0.5, 2, 5)


def test_a_run_stands_under_the_other_standard_deviation_too(mfw: Make) -> None:
    runs = [mfw("step", 0.7), mfw("step", 0.6, options={"std": "arithmetic", "beta": 1})]
    line = lines_by(runs, "beta")["step", "arithmetic"]
    assert means(line) == {0.01: 70, 1: 60}
    assert (trained(line), line.best) == ([1], (0.01,))
    assert ("step", "arithmetic") not in lines_by(runs[:1], "beta")  # of which nobody has trained anything


def test_a_run_that_was_trained_there_comes_before_one_of_the_same_strengths(mfw: Make) -> None:
    runs = [
        mfw("long_tailed", 0.7),
        mfw("long_tailed", 0.5, options={"std": "arithmetic", "beta": 0.01}),  # less than 0.005 away from the default
        mfw("long_tailed", 0.6, options={"beta": 1}),
        mfw("step", 0.6, options={"beta": 5}),
    ]
    lines = lines_by(runs, "beta")
    assert means(lines["long_tailed", "arithmetic"]) == {0.01: 50}
    # 0.01 from the nearest strengths of the same standard deviation.
    assert means(lines["long_tailed", "geometric"]) == {0.01: 60, 1: 60, 2: 70, 5: 70}
    assert lines["long_tailed", "geometric"].best == (2, 5)


def test_alpha_has_points_only_where_it_was_trained(mfw: Make) -> None:
    (line,) = lines_along([mfw("step", 0.7), mfw("step", 0.6, options={"alpha": 1.0})], "alpha")
    assert means(line) == {1: 60, 5: 70}  # 5 is the default of step counts


def test_a_default_is_the_same_whether_it_is_written_down_or_not(mfw: Make) -> None:
    said = {"alpha": 1.0, "beta": 2.0, "std": "geometric", "draw": "sample", "layer": None}
    runs = [mfw("long_tailed", 0.7, seed=0), mfw("long_tailed", 0.72, seed=1, options=said, evaluate_every=9)]
    for option in ("alpha", "beta"):
        (line,) = lines_by(runs, option).values()
        assert line.settings == 1
        assert [len(point.group.results) for point in line.points if point.trained] == [2]
    with pytest.raises(RunError, match="are the same run"):
        lines_along([runs[0], mfw("long_tailed", 0.72, seed=0, options=said)], "beta")


@pytest.mark.parametrize(
    ("names", "fields"),
    [
        ("drw", {"drw": True, "options": {"drw": True}, "label": "MFW-DRW"}),
        ("epochs", {"epochs": 200}),
        ("draw", {"options": {"draw": "batch"}}),
        ("layer", {"options": {"layer": "group1"}}),
        ("alpha", {"options": {"alpha": 0.1}}),
        ("hold_out", {"hold_out": 0, "hold_out_from": "training", "counts": [5000] * 5 + [50] * 5}),
        ("counts", {"counts": [4500] * 4 + [45] * 6}),
    ],
)  # fmt: skip
def test_a_run_that_differs_otherwise_is_named_with_its_setting(
    names: str, fields: dict[str, Any], saved: Make, mfw: Make
) -> None:
    common = {"source": "cifar10", "rho": 100.0, "label": "MFW", "method": "mfw", "kind": "step", "accuracy": 0.5}
    odd = saved("odd", **{**common, "counts": STEP, "hold_out": 500, "hold_out_from": "source", **fields})
    given = [mfw("step", 0.5, options={"beta": beta, "std": "arithmetic"}) for beta in (0.1, 1, 5)]
    with pytest.raises(
        RunError,
        match=rf"cifar10, step differ in more than beta, std and their seeds.*odd/result.json differ in .*\b{names}\b",
    ):
        lines_along([*given, odd], "beta")


def test_lines_of_other_data_do_not_get_into_each_others_way(mfw: Make) -> None:
    runs = [mfw("step", 0.5), mfw("step", 0.6, rho=10.0, hold_out=0), mfw("long_tailed", 0.7, epochs=300)]
    assert len(lines_along(runs, "alpha")) == 3


def test_seeds_on_several_choices_of_images_are_no_repeats(mfw: Make) -> None:
    runs = [mfw("step", 0.5, seed=seed, data_seed=choice) for seed in (0, 1) for choice in (0, 1)]
    with pytest.raises(RunError, match=r"several choices of images.*data seed 1.* 0\. Give the runs of one data seed"):
        lines_along(runs, "alpha")
    (line,) = lines_along(runs[::2], "alpha")
    assert len(line.points[0].group.results) == 2


def test_counts_as_found_need_the_option(mfw: Make) -> None:
    natural = {"kind": "natural", "rho": None, "counts": [50, 20, 5]}
    with pytest.raises(RunError, match=r"left alpha to the counts; give it in --options alpha=\.\.\."):
        lines_along([mfw(**natural, accuracy=0.5)], "alpha")
    (line,) = lines_along([mfw(**natural, accuracy=0.5, options={"beta": 1.0})], "beta")
    assert (line.kind, line.rho, trained(line)) == ("natural", 10.0, [1])


def test_without_mfw_there_is_no_line(result: Make) -> None:
    with pytest.raises(RunError, match=r"no run of MFW.*--options beta=\.\.\."):
        lines_along([result()], "beta")

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.paper.ablation_figures import SHARED, alpha, beta
from procrustean.records.run_record import Result

Make = Callable[..., Result]


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def titles(figure: Any) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]


@pytest.fixture
def ablation(result: Make) -> Callable[..., list[Result]]:
    def make(option: str, **fields: Any) -> list[Result]:
        return [
            result(
                label="MFW", method="mfw", kind=kind, seed=seed, source="cifar10", rho=100.0,
                counts=[500, 100, 20, 5] if kind == "long_tailed" else [500, 500, 5, 5],
                options={"alpha": None, "beta": None, "std": std, option: value},
                accuracy=0.7 + 0.001 * seed + (0.01 if value > 1 else 0), **fields,
            )
            for kind in ("long_tailed", "step")
            for std in (("geometric", "arithmetic") if option == "beta" else ("geometric",))
            for value in (0.1, 1.0, 5.0)
            for seed in (0, 1)
        ]  # fmt: skip

    return make


def test_alpha_is_drawn_with_the_published_numbers(ablation: Callable[..., list[Result]]) -> None:
    runs = ablation("alpha")
    figure = alpha(runs)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.1", "1", "5"]
    assert texts(figure) == ["CIFAR-10, long-tailed", "CIFAR-10, step", "as published, its epoch unknown"]
    measured = [container.lines[0] for container in axes.containers]
    assert [line.get_ydata().tolist() for line in measured] == [pytest.approx([70.05, 70.05, 71.05])] * 2
    dotted = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert [dict(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in dotted] == [
        {0.1: 75.9, 0.2: 76.8, 0.5: 77.1, 1.0: 78.5, 5.0: 77.4},
        {0.1: 73.3, 0.2: 74.3, 0.5: 75.2, 1.0: 77.6, 5.0: 80.1},
    ]


def test_the_accuracy_along_an_option_is_named(ablation: Callable[..., list[Result]], unevenly_tested: Any) -> None:
    for option, draw_it in (("alpha", alpha), ("beta", beta)):
        runs = ablation(option)
        assert [axes.get_ylabel() for axes in draw_it(runs).axes if axes.get_ylabel()][-1] == "test accuracy (%)"
        figure = draw_it([unevenly_tested(run) for run in runs])
        assert [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()][-1] == "test balanced accuracy (%)"


def test_beta_is_drawn_under_both_standard_deviations(ablation: Callable[..., list[Result]]) -> None:
    figure = beta(ablation("beta"))
    assert titles(figure) == ["geometric standard deviation", "arithmetic standard deviation"]
    assert texts(figure) == ["CIFAR-10, long-tailed", "CIFAR-10, step", SHARED]
    weights, _, accuracy, _ = figure.axes
    values = ["0.01", "0.1", "1", "5"]  # the first is a default, of which the next has the strengths
    assert [text.get_text() for text in weights.get_legend().get_texts()] == [f"β = {value}" for value in values]
    assert [label.get_text() for label in accuracy.get_xticklabels()] == values
    from procrustean.balance.mfw_module import strength_of

    assert weights.lines[2].get_ydata() == pytest.approx(strength_of((500, 100, 20, 5), beta=1.0))
    assert len(accuracy.containers) == 2


def hollow(axes: Any) -> list[list[float]]:
    """Where the lines of a panel have markers that are not filled."""
    drawn = [line for line in axes.lines if line.get_linestyle() == "None" and line.get_markerfacecolor() == "white"]
    return [list(line.get_xdata()) for line in drawn]


def test_points_that_share_a_run_are_hollow(result: Make, tmp_path: Path) -> None:
    common: dict[str, Any] = {"label": "MFW", "method": "mfw", "source": "cifar10", "rho": 100.0, "hold_out": 500}
    counts = {
        "long_tailed": [4500, 2697, 1617, 969, 581, 348, 208, 125, 75, 45],
        "step": [4500] * 5 + [45] * 5,
    }
    runs = [
        result(kind=kind, counts=counts[kind], options=options, accuracy=0.7 + 0.01 * seed, seed=seed, **common)
        for kind in counts
        for options in ({}, {"std": "arithmetic", "beta": 1.0}, {"std": "arithmetic", "beta": 5.0})
        for seed in (0, 1)
    ]
    figure = beta(runs)
    geometric, arithmetic = figure.axes[2:]
    assert hollow(geometric) == [[0.01, 1, 5], [1, 2, 5]]  # filled at the defaults, 2 and 0.01
    assert hollow(arithmetic) == [[0.01], [0.01]]
    flat = geometric.containers[0]
    assert set(flat.lines[0].get_ydata()) == {70.5}
    bars = [segment for segment in flat.lines[2][0].get_segments() if len(segment)]
    assert [segment[0][0] for segment in bars] == [2]  # the spread is that of the runs, shown where they are
    assert figure.axes[0].get_legend().get_title().get_text() == "all the same to 0.005"
    assert figure.axes[1].get_legend().get_title().get_text() == ""


def test_without_shared_runs_all_markers_are_filled(result: Make) -> None:
    runs = [
        result(method="mfw", label="MFW", accuracy=0.5, options={"std": "arithmetic", "beta": value})
        for value in (0.01, 1.0, 2.0)
    ]
    figure = beta(runs)
    assert texts(figure) == ["digits, step"]
    assert [points for axes in figure.axes for points in hollow(axes)] == [[]]


def test_lines_are_told_apart_by_what_they_differ_in(result: Make) -> None:
    def runs(option: str, *settings: tuple[float, str]) -> list[Result]:
        return [
            result(method="mfw", label="MFW", rho=rho, options={"std": std, option: value}, accuracy=0.5)
            for rho, std in settings
            for value in (0.1, 1.0)
        ]

    ratios = ["digits, step ρ=20", "digits, step ρ=100"]
    assert texts(alpha(runs("alpha", (20, "geometric"), (100, "geometric")))) == ratios
    readings = ["digits, step, geometric std", "digits, step, arithmetic std"]
    assert texts(alpha(runs("alpha", (20, "geometric"), (20, "arithmetic")))) == readings
    both = beta(runs("beta", (20, "geometric"), (100, "geometric"), (20, "arithmetic")))
    assert texts(both) == [*ratios, SHARED]  # the columns tell the readings apart
    drawn = [container.lines[0].get_color() for container in both.axes[2].containers]
    assert len(set(drawn)) == 2

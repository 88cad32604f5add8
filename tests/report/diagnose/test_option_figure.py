"""The figure of accuracies along any option of a method."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.base import ConfigError, RunError
from procrustean.records.groups import Result
from procrustean.report.figures import draw
from procrustean.report.figures.option import along_option, lines_along_option, remarks

Make = Callable[..., Result]


@pytest.fixture
def own(result: Make) -> Make:
    """A run of a method of one's own; its smaller classes do better with a larger strength."""

    def make(strength: Any, seed: int = 0, *, label: str = "ClassMix", **settings: Any) -> Result:
        small = 0.5 + 0.01 * seed + (min(0.2 * strength, 0.3) if isinstance(strength, float) else 0)
        options = {"strength": strength, "weighted": True, **settings.pop("options", {})}
        test = [0.9, 0.9, small, small]
        return result(
            label=label, method="own.py:classmix", options=options, seed=seed, test=test, drw=False, **settings
        )

    return make


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_all_the_larger_and_the_smaller_classes_along_an_option(own: Make) -> None:
    figure = along_option([own(strength, seed) for strength in (0.9, 0.1, 0.5) for seed in (0, 1)], "strength")
    whole, large, small = figure.axes
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "Step ρ=20, all classes",
        "Step ρ=20, larger half",
        "Step ρ=20, smaller half",
    ]
    assert [axis.get_xlabel() for axis in figure.axes] == ["strength"] * 3
    assert whole.get_ylabel() == "test accuracy (%)"
    assert small.get_lines()[0].get_xdata().tolist() == [0.1, 0.5, 0.9]
    assert small.get_lines()[0].get_ydata() == pytest.approx([52.5, 60.5, 68.5])  # mean over the seeds
    assert large.get_lines()[0].get_ydata() == pytest.approx([90, 90, 90])
    assert [label.get_text() for label in whole.get_xticklabels()] == ["0.1", "0.5", "0.9"]
    assert texts(figure) == ["ClassMix"]


@pytest.mark.parametrize(
    ("values", "scale"), [((0.1, 0.5), "linear"), ((0.1, 1.0), "log"), ((0.0, 0.1, 5.0), "linear"), ((1, 2), "linear")]
)
def test_values_that_span_a_factor_of_ten_are_drawn_in_logarithms(
    own: Make, values: tuple[float, ...], scale: str
) -> None:
    assert along_option([own(value) for value in values], "strength").axes[0].get_xscale() == scale


def test_settings_that_differ_otherwise_have_lines_of_their_own(own: Make) -> None:
    runs = [own(s, options={"weighted": weighted}) for s in (0.1, 0.5) for weighted in (True, False)]
    elsewhere = [own(s, rho=50.0, counts=[500, 400, 20, 10]) for s in (0.1, 0.5)]
    first, second, other = lines_along_option([*runs, *elsewhere], "strength")
    assert first.values == second.values == other.values == (0.1, 0.5)
    figure = along_option([*runs, *elsewhere], "strength")
    assert [axis.get_title(loc="left") for axis in figure.axes[::3]] == [
        "Step ρ=20, all classes",
        "Step ρ=50, all classes",
    ]
    assert texts(figure) == ["ClassMix (weighted=True)", "ClassMix (weighted=False)", "ClassMix"]


def test_a_label_that_names_the_option_does_not_part_the_line(own: Make) -> None:
    (line,) = lines_along_option([own(s, label=f"ClassMix {s}") for s in (0.1, 0.5)], "strength")
    assert line.values == (0.1, 0.5)


def test_a_default_of_mfw_has_the_value_that_it_comes_to(result: Make) -> None:
    common: dict[str, Any] = {"label": "MFW", "method": "mfw"}
    runs = [
        result(options={"alpha": None}, seed=0, **common),
        result(options={"alpha": 5.0}, seed=1, **common),  # the default for step counts
        result(options={"alpha": 0.5}, **common),
    ]
    (line,) = lines_along_option(runs, "alpha")
    assert line.values == (0.5, 5)
    assert [len(group.results) for group in line.groups] == [1, 2]


def test_runs_without_a_number_are_left_out_and_named(own: Make, result: Make, tmp_path: Path) -> None:
    runs = [own(0.1), own(0.5), own(None, seed=1), result(label="ERM")]
    said: list[str] = []
    files = draw("option", runs, tmp_path, over="strength", say=said.append)
    assert [path.name for path in files] == ["option-strength.png", "option-strength.svg"]
    default, other = said
    assert default.endswith(
        "strength of ClassMix was left to its default, which is no number; give it: --options strength=..."
    )
    assert other.endswith("ERM has no option 'strength'")


def test_what_is_missing_for_a_line_is_said(own: Make) -> None:
    assert remarks([own(0.5, seed) for seed in (0, 1)], "strength") == [
        "ClassMix on digits, step ρ=20: all runs have strength 0.5, so there is a point and no line; train with other "
        "values too: --options strength=..."
    ]
    assert remarks([own(0.5), own(0.1)], "strength") == []


def test_what_cannot_be_drawn_is_refused(own: Make, result: Make, tmp_path: Path) -> None:
    runs = [result(label="ERM"), own(0.1), own(0.5)]
    with pytest.raises(ConfigError, match=r"name it: --over NAME\. Known: strength\."):
        draw("option", runs, tmp_path)
    with pytest.raises(RunError, match=r"no run to draw along strenght: .* has no option .*Did you mean 'strength'\?"):
        draw("option", runs, tmp_path, over="strenght")
    with pytest.raises(
        RunError, match=r"along weighted: weighted of ClassMix is True, not a number\. Known: strength\."
    ):
        draw("option", runs, tmp_path, over="weighted")
    with pytest.raises(RunError, match=r"None of their options is a number"):
        draw("option", runs[:1], tmp_path, over="strength")
    with pytest.raises(ConfigError, match=r"--over strength received with the figure 'bars'"):
        draw("bars", runs, tmp_path, over="strength")
    twice = [own(0.1, seed, data_seed=data_seed) for seed, data_seed in ((0, 0), (1, 0), (0, 1), (1, 1))]
    with pytest.raises(RunError, match=r"ClassMix at strength 0\.1 was trained on several sets of images"):
        draw("option", twice, tmp_path, over="strength")
    assert not list(tmp_path.iterdir())

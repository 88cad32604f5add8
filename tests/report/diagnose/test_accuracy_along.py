"""The figures of accuracies along the imbalance ratio and along an option."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from made_records import with_changes
from procrustean.base import ConfigError, RunError
from procrustean.records.run_record import Result
from procrustean.report import draw_figure
from procrustean.report.figures.accuracy_along import lines_along_option, lines_along_ratio
from procrustean.report.figures.draw import drawing

Make = Callable[..., Result]


def at_ratio(result: Make, rho: float, large: float, small: float, **settings: Any) -> Result:
    counts = [round(10 * rho)] * 2 + [10] * 2
    return result(rho=rho, counts=counts, test=[large, large, small, small], **settings)


def said(name: str, runs: list[Result], **options: Any) -> list[str]:
    texts: list[str] = []
    drawing(name, runs, say=texts.append, **options)
    return texts


def drawn(axis: Any) -> list[tuple[list[float], list[float]]]:
    lines = [line for line in axis.get_lines() if len(line.get_xdata()) and line.get_linestyle() != "None"]
    return [(list(line.get_xdata()), [round(float(y), 3) for y in line.get_ydata()]) for line in lines]


@pytest.fixture
def runs(result: Make) -> list[Result]:
    made = []
    for seed, off in ((0, -0.02), (1, 0.02)):
        made += [at_ratio(result, rho, 0.9, 0.5 - rho / 1000 + off, seed=seed) for rho in (100.0, 10.0)]
        made.append(at_ratio(result, 10.0, 0.8, 0.7 + off, seed=seed, label="MFW", method="mfw"))
    return made


def test_all_the_larger_and_the_smaller_classes_along_the_ratio(runs: list[Result]) -> None:
    figure = drawing("imbalance", runs)
    whole, large, small = figure.axes
    assert [axis.get_title(loc="left") for axis in figure.axes] == [
        "Step, all classes",
        "Step, larger half",
        "Step, smaller half",
    ]
    assert drawn(large) == [([10, 100], [90, 90]), ([10], [80])]  # in the order of the ratio, mean over the seeds
    assert drawn(small) == [([10, 100], [49, 40]), ([10], [70])]
    assert drawn(whole) == [([10, 100], [69.5, 65]), ([10], [75])]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ERM", "MFW"]
    bars = small.containers[0][2][0].get_segments()
    assert bars[0][1][1] - bars[0][0][1] == pytest.approx(2 * 2 * 2**0.5)  # a standard deviation to either side


def test_kinds_and_data_sets_have_rows_and_keep_the_colours(result: Make, runs: list[Result]) -> None:
    other = at_ratio(result, 10.0, 0.8, 0.7, label="MFW", method="mfw", kind="long_tailed")
    figure = drawing("imbalance", [*runs, other])
    assert len(figure.axes) == 6
    assert figure.axes[3].get_title(loc="left") == "Long-tailed, all classes"
    assert figure.axes[3].get_lines()[0].get_color() == figure.axes[0].get_lines()[1].get_color()
    elsewhere = at_ratio(result, 10.0, 0.8, 0.7, source="pets")
    assert drawing("imbalance", [*runs, elsewhere]).axes[3].get_title(loc="left") == "pets, step, all classes"


def test_every_row_says_which_accuracy_it_shows(result: Make, runs: list[Result], unevenly_tested: Any) -> None:
    other = unevenly_tested(at_ratio(result, 10.0, 0.8, 0.7, source="own"))
    figure = drawing("imbalance", [*runs, other])
    assert [axis.get_ylabel() for axis in figure.axes[::3]] == ["test accuracy (%)", "test balanced accuracy (%)"]


def test_a_setting_that_differs_otherwise_has_a_line_of_its_own_and_is_named(result: Make, runs: list[Result]) -> None:
    longer = [at_ratio(result, rho, 0.9, 0.6, epochs=300, at=(300,)) for rho in (10.0, 50.0)]
    erm, _, other = lines_along_ratio([*runs, *longer])
    assert (erm.values, other.values) == ((10, 100), (10, 50))
    names = [text.get_text() for text in drawing("imbalance", [*runs, *longer]).legends[0].get_texts()]
    assert names == ["ERM (epochs=100)", "MFW", "ERM (epochs=300)"]


def test_images_as_they_were_found_have_the_ratio_of_their_counts(result: Make) -> None:
    found = result(kind="natural", rho=None, counts=[300, 200, 50, 20])
    assert lines_along_ratio([found])[0].values == (15,)
    (text,) = said("imbalance", [result(kind="natural", rho=None, counts=[500, 200, 50, 3])])
    assert "of one imbalance ratio each: " in text
    assert "--imbalance long_tailed or step" in text
    assert drawing("imbalance", [found]).axes[0].get_title(loc="left") == "As found, all classes"


def test_what_is_missing_for_a_line_is_said(runs: list[Result]) -> None:
    (text,) = said("imbalance", runs)
    assert text == (
        "points and no lines, of one imbalance ratio each: MFW on digits; train with other values too: --imbalance "
        "long_tailed or step with several --rho"
    )


def test_several_choices_of_images_at_one_point_are_refused(result: Make) -> None:
    seeds = [(0, 0), (1, 0), (0, 1), (1, 1)]
    twice = [at_ratio(result, 10.0, 0.9, 0.5, seed=seed, data_seed=data_seed) for seed, data_seed in seeds]
    with pytest.raises(
        RunError, match="ERM at imbalance ratio 10 was trained on several sets of images \\(data seeds 0 and 1\\)"
    ):
        lines_along_ratio(twice)


def test_the_files(tmp_path: Path, runs: list[Result]) -> None:
    said: list[str] = []
    files = draw_figure("imbalance", runs, tmp_path, say=said.append)
    assert [path.name for path in files] == ["imbalance.png", "imbalance.svg"]
    assert all(path.stat().st_size > 1000 for path in files)
    assert len(said) == 1


def test_many_lines_look_different_and_have_room(result: Make) -> None:
    many = [at_ratio(result, 10.0, 0.9, 0.5, label=f"method of the longest name {n:02}") for n in range(20)]
    figure = drawing("imbalance", many)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a layout that does not fit
        figure.canvas.draw()
    lines = [line for line in figure.axes[0].get_lines() if line.get_marker() not in ("", "None", None)]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 20
    top = figure.legends[0].get_window_extent().y1
    assert top < min(axis.get_tightbbox().y0 for axis in figure.axes)
    (text,) = said("imbalance", many)
    assert "longest name 04 on digits and 15 more; train with other values too" in text


def test_names_of_many_ratios_do_not_run_into_one_another(result: Make) -> None:
    ratios = [2.0, 3.0, 5.0, 7.5, 10.0, 12.0, 15.0, 20.0, 50.0, 70.0, 100.0, 150.0, 200.0, 250.5, 500.0]
    figure = drawing("imbalance", [at_ratio(result, rho, 0.9, 0.5) for rho in ratios])
    figure.canvas.draw()
    for axis in figure.axes:
        labels = [label for label in axis.get_xticklabels() if label.get_text()]
        assert len(axis.get_xticks()) == len(ratios)
        assert {"2", "10", "100", "500"} <= {label.get_text() for label in labels}
        for left, right in pairwise(label.get_window_extent() for label in labels):
            assert left.x1 < right.x0


def test_long_names_of_data_sets_have_a_line_of_their_own(result: Make, runs: list[Result]) -> None:
    elsewhere = at_ratio(result, 10.0, 0.8, 0.7, source="photographs-of-the-institute-and-others")
    titles = [axis.get_title(loc="left") for axis in drawing("imbalance", [*runs, elsewhere]).axes]
    assert titles[0] == "digits, step, all classes"
    assert titles[3] == "photographs-of-the-institute-and-…\nStep, all classes"


def test_chosen_classes_have_a_row_of_their_own(result: Make) -> None:
    chosen = [
        [
            with_changes(at_ratio(result, rho, 0.9, 0.5, classes=list(names)), config__classes=list(names))
            for rho in (10.0, 20.0)
        ]
        for names in ("abcd", "abce")
    ]
    figure = drawing("imbalance", [*chosen[0], *chosen[1]])
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles[::3] == [f"digits (4 classes: a, b, c, {last})\nStep, all classes" for last in "de"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ERM"]


# Along an option


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
    figure = drawing(
        "option", [own(strength, seed) for strength in (0.9, 0.1, 0.5) for seed in (0, 1)], over="strength"
    )
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
    assert drawing("option", [own(value) for value in values], over="strength").axes[0].get_xscale() == scale


def test_settings_that_differ_otherwise_have_lines_of_their_own(own: Make) -> None:
    runs = [own(s, options={"weighted": weighted}) for s in (0.1, 0.5) for weighted in (True, False)]
    elsewhere = [own(s, rho=50.0, counts=[500, 400, 20, 10]) for s in (0.1, 0.5)]
    first, second, other = lines_along_option([*runs, *elsewhere], "strength")
    assert first.values == second.values == other.values == (0.1, 0.5)
    figure = drawing("option", [*runs, *elsewhere], over="strength")
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
    files = draw_figure("option", runs, tmp_path, over="strength", say=said.append)
    assert [path.name for path in files] == ["option-strength.png", "option-strength.svg"]
    (text,) = said
    assert text.startswith("left out an unsaved run of ClassMix, an unsaved run of ERM: there strength is no number")


def test_what_is_missing_for_a_line_along_an_option_is_said(own: Make) -> None:
    assert said("option", [own(0.5, seed) for seed in (0, 1)], over="strength") == [
        "points and no lines, of one strength each: ClassMix on digits; train with other values too: --options "
        "strength=..."
    ]
    assert said("option", [own(0.5), own(0.1)], over="strength") == []


def test_what_cannot_be_drawn_is_refused(own: Make, result: Make, tmp_path: Path) -> None:
    runs = [result(label="ERM"), own(0.1), own(0.5)]
    with pytest.raises(ConfigError, match=r"name it: --over NAME\. Known: strength\."):
        draw_figure("option", runs, tmp_path)
    with pytest.raises(RunError, match=r"no run with a number for the option 'strenght'. Did you mean 'strength'\?"):
        draw_figure("option", runs, tmp_path, over="strenght")
    with pytest.raises(RunError, match=r"no run with a number for the option 'weighted'. Known: strength\."):
        draw_figure("option", runs, tmp_path, over="weighted")
    with pytest.raises(RunError, match=r"no run with a number for the option 'strength'"):
        draw_figure("option", runs[:1], tmp_path, over="strength")
    with pytest.raises(ConfigError, match=r"--over received; the figure 'bars' does not take it"):
        draw_figure("bars", runs, tmp_path, over="strength")
    twice = [own(0.1, seed, data_seed=data_seed) for seed, data_seed in ((0, 0), (1, 0), (0, 1), (1, 1))]
    with pytest.raises(RunError, match=r"ClassMix at strength 0\.1 was trained on several sets of images"):
        draw_figure("option", twice, tmp_path, over="strength")
    assert not list(tmp_path.iterdir())

"""The figure of accuracies along the imbalance ratio."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from procrustean.base import RunError
from procrustean.records.groups import Result
from procrustean.report.figures import draw
from procrustean.report.figures.imbalance import imbalance, lines_along_ratio, remarks

Make = Callable[..., Result]


def at_ratio(result: Make, rho: float, large: float, small: float, **settings: Any) -> Result:
    counts = [round(10 * rho)] * 2 + [10] * 2
    return result(rho=rho, counts=counts, test=[large, large, small, small], **settings)


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
    figure = imbalance(runs)
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
    figure = imbalance([*runs, other])
    assert len(figure.axes) == 6
    assert figure.axes[3].get_title(loc="left") == "Long-tailed, all classes"
    assert figure.axes[3].get_lines()[0].get_color() == figure.axes[0].get_lines()[1].get_color()
    elsewhere = at_ratio(result, 10.0, 0.8, 0.7, source="pets")
    assert imbalance([*runs, elsewhere]).axes[3].get_title(loc="left") == "pets, step, all classes"


def test_every_row_says_which_accuracy_it_shows(result: Make, runs: list[Result], unevenly_tested: Any) -> None:
    other = unevenly_tested(at_ratio(result, 10.0, 0.8, 0.7, source="own"))
    figure = imbalance([*runs, other])
    assert [axis.get_ylabel() for axis in figure.axes[::3]] == ["test accuracy (%)", "test balanced accuracy (%)"]


def test_a_setting_that_differs_otherwise_has_a_line_of_its_own_and_is_named(result: Make, runs: list[Result]) -> None:
    longer = [at_ratio(result, rho, 0.9, 0.6, epochs=300, at=(300,)) for rho in (10.0, 50.0)]
    erm, _, other = lines_along_ratio([*runs, *longer])
    assert (erm.values, other.values) == ((10, 100), (10, 50))
    names = [text.get_text() for text in imbalance([*runs, *longer]).legends[0].get_texts()]
    assert names == ["ERM (epochs=100)", "MFW", "ERM (epochs=300)"]


def test_images_as_they_were_found_have_the_ratio_of_their_counts(result: Make) -> None:
    found = result(kind="natural", rho=None, counts=[300, 200, 50, 20])
    assert lines_along_ratio([found])[0].values == (15,)
    (said,) = remarks([result(kind="natural", rho=None, counts=[500, 200, 50, 3])])
    assert "as found: all runs have imbalance ratio 166.7" in said
    assert "runs with --imbalance long_tailed or step" in said
    assert imbalance([found]).axes[0].get_title(loc="left") == "As found, all classes"


def test_what_is_missing_for_a_line_is_said(runs: list[Result]) -> None:
    (said,) = remarks(runs)
    assert said.startswith("MFW on digits, step: all runs have imbalance ratio 10")
    assert "--rho" in said


def test_several_choices_of_images_at_one_point_are_refused(result: Make) -> None:
    seeds = [(0, 0), (1, 0), (0, 1), (1, 1)]
    twice = [at_ratio(result, 10.0, 0.9, 0.5, seed=seed, data_seed=data_seed) for seed, data_seed in seeds]
    with pytest.raises(
        RunError, match="ERM at imbalance ratio 10 was trained on several sets of images \\(data seeds 0 and 1\\)"
    ):
        lines_along_ratio(twice)
    with pytest.raises(RunError, match="no results"):
        lines_along_ratio([])


def test_the_files(tmp_path: Path, runs: list[Result]) -> None:
    said: list[str] = []
    files = draw("imbalance", runs, tmp_path, say=said.append)
    assert [path.name for path in files] == ["imbalance.png", "imbalance.svg"]
    assert all(path.stat().st_size > 1000 for path in files)
    assert len(said) == 1


def test_many_lines_look_different_and_have_room(result: Make) -> None:
    many = [at_ratio(result, 10.0, 0.9, 0.5, label=f"method of the longest name {n:02}") for n in range(20)]
    figure = imbalance(many)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a layout that does not fit
        figure.canvas.draw()
    lines = [line for line in figure.axes[0].get_lines() if line.get_marker() not in ("", "None", None)]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 20
    top = figure.legends[0].get_window_extent().y1
    assert top < min(axis.get_tightbbox().y0 for axis in figure.axes)
    (said,) = remarks(many)
    assert "longest name 04 and 15 more on digits, step: all runs have imbalance ratio 10, so there are points" in said


def test_names_of_many_ratios_do_not_run_into_one_another(result: Make) -> None:
    ratios = [2.0, 3.0, 5.0, 7.5, 10.0, 12.0, 15.0, 20.0, 50.0, 70.0, 100.0, 150.0, 200.0, 250.5, 500.0]
    figure = imbalance([at_ratio(result, rho, 0.9, 0.5) for rho in ratios])
    figure.canvas.draw()
    for axis in figure.axes:
        labels = [label for label in axis.get_xticklabels() if label.get_text()]
        assert len(axis.get_xticks()) == len(ratios)
        assert {"2", "10", "100", "500"} <= {label.get_text() for label in labels}
        for left, right in pairwise(label.get_window_extent() for label in labels):
            assert left.x1 < right.x0


def test_long_names_of_data_sets_have_a_line_of_their_own(result: Make, runs: list[Result]) -> None:
    elsewhere = at_ratio(result, 10.0, 0.8, 0.7, source="photographs-of-the-institute-and-others")
    titles = [axis.get_title(loc="left") for axis in imbalance([*runs, elsewhere]).axes]
    assert titles[0] == "digits, step, all classes"
    assert titles[3] == "photographs-of-the-institute-and-…\nStep, all classes"


def test_chosen_classes_have_a_row_of_their_own(result: Make) -> None:
    chosen = [
        [at_ratio(result, rho, 0.9, 0.5, classes=list(names)) for rho in (10.0, 20.0)] for names in ("abcd", "abce")
    ]
    for run in (run for runs in chosen for run in runs):
        run.config["classes"] = run.data["classes"]
    figure = imbalance([*chosen[0], *chosen[1]])
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles[::3] == [f"digits (4 classes: a, b, c, {last})\nStep, all classes" for last in "de"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ERM"]

"""The figure of training accuracies per class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_records import with_changes
from procrustean.base import RunError
from procrustean.records import group_results
from procrustean.records.run_record import Result
from procrustean.report import draw_figure
from procrustean.report.figures.canvas import large_to_small
from procrustean.report.figures.classes import classes, measured_accuracies

Make = Callable[..., Result]


@pytest.fixture
def runs(result: Make) -> list[Result]:
    return [result(label=label, seed=seed) for label in ("ERM", "MFW") for seed in range(2)]


def test_the_mean_over_the_seeds_is_in_percent(result: Make) -> None:
    runs = [
        with_changes(result(seed=seed, epochs=3), curves__train_recall=[[share] * 10, None, [share] * 9 + [None]])
        for seed, share in enumerate((0.2, 0.4))
    ]
    curves = measured_accuracies(group_results(runs)[0])
    assert curves.epochs.tolist() == [1, 3]
    assert curves.of([0, 1])[:, 0] == pytest.approx([20.0, 40.0])
    assert np.isnan(curves.of([9])[0, 1])
    panel = classes(runs).axes[0]
    assert panel.lines[0].get_ydata()[0] == pytest.approx(30.0)
    low, high = (f(panel.collections[0].get_paths()[0].vertices[:, 1]) for f in (np.min, np.max))
    assert (high - low) / 2 == pytest.approx(100 * np.std([0.2, 0.4], ddof=1))


def test_only_epochs_measured_in_all_runs_are_drawn(result: Make) -> None:
    (group,) = group_results([result(seed=0), result(seed=1, evaluated=[1, 3, 19])])
    assert measured_accuracies(group).epochs.tolist() == [2, 4, 20]


def test_two_sizes_of_classes_have_a_thick_line_each_on_the_same_axes(runs: list[Result]) -> None:
    figure = classes(runs)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["ERM", "MFW"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert figure.axes[0].get_xlim() == figure.axes[1].get_xlim()
    for axes in figure.axes:
        thick = [line for line in axes.lines if line.get_linewidth() > 2]
        assert (len(axes.lines), len(thick), len(axes.collections)) == (12, 2, 2)  # a band for each thick one alone
        assert [line.get_color() for line in thick] == [h.get_color() for h in figure.legends[0].get_lines()[:2]]
    single, mean = (figure.axes[0].lines[place] for place in (slice(5), 5))
    assert mean.get_ydata() == pytest.approx(np.mean([line.get_ydata() for line in single], axis=0))
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[0].startswith("5 classes with 1,000 images\n(class 0, class 1,")
    assert legend[1].startswith("5 classes with 20 images\n(class 5, class 6,")
    assert legend[2:] == ["one of these classes", "± 1 standard deviation\nover the seeds"]


def test_classes_of_many_sizes_have_a_line_each(result: Make) -> None:
    figure = classes([result(counts=[1000, 100, 1], seed=seed) for seed in range(2)])
    assert (len(figure.axes[0].lines), len(figure.axes[0].collections)) == (3, 3)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "class 0 (1,000 images)",
        "class 1 (100 images)",
        "class 2 (1 image)",
        "± 1 standard deviation\nover the seeds",
    ]


def test_the_line_of_a_class_has_the_colour_of_its_legend_entry(result: Make) -> None:
    run = result(counts=[20, 1000, 300], classes=["small", "large", "middle"])
    figure = classes([run])
    legend = figure.legends[0]
    assert [text.get_text().split()[0] for text in legend.get_texts()] == ["large", "middle", "small"]
    assert [line.get_color() for line in figure.axes[0].lines] == [line.get_color() for line in legend.get_lines()]
    progress = run.record.curves.train_recall
    assert figure.axes[0].lines[0].get_ydata()[0] == pytest.approx(100 * progress[0][1])


@pytest.mark.parametrize("counts", [[1000] * 5 + [20] * 5, [5000, 1000, 200, 40, 8], [7] * 6, list(range(100, 0, -1))])
def test_colours_get_lighter_from_large_to_small_and_stay_dark_enough(counts: list[int]) -> None:
    colours = np.array([colour[:3] for colour in large_to_small(counts)])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) > 0).all()
    assert luminance.max() < 0.65


def test_the_levels_of_a_step_are_apart() -> None:
    colours = np.array([colour[:3] for colour in large_to_small([1000] * 5 + [20] * 5)])
    jumps = np.abs(np.diff(colours, axis=0)).sum(axis=1)
    assert jumps[4] > 3 * np.delete(jumps, 4).max()


def test_many_classes_get_a_colour_bar(result: Make) -> None:
    counts = [int(500 * 0.01 ** (i / 99)) for i in range(100)]
    figure = classes([result(counts=counts, epochs=4)])
    assert not figure.legends
    labels = [label.get_text() for label in figure.axes[-1].get_yticklabels()]
    assert (labels[0], labels[-1]) == ("500", "5")


@pytest.mark.filterwarnings("error")
def test_odd_names_and_single_points_draw_without_warnings(result: Make, tmp_path: Path) -> None:
    names = ["_hidden", "$x^$", "a\nb", "long " * 20, "%", "é", "", "[8]", "<9>", "\\frac"]
    runs = [result(label=label, classes=names, epochs=1) for label in ("$\\frac$", "_MFW", "A", "B", "C")]
    assert len(draw_figure("classes", runs, tmp_path)) == 2


def test_runs_without_training_accuracy_are_named(result: Make, tmp_path: Path) -> None:
    run = result(label="MFW")
    run = with_changes(run, curves__train_recall=[None] * 20)
    with pytest.raises(RunError, match=r"MFW.*--track-training"):
        draw_figure("classes", [run], tmp_path)


def test_different_data_and_nothing_are_refused(result: Make, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"same data.*long-tailed.*step"):
        draw_figure("classes", [result(), result(kind="long_tailed")], tmp_path)
    with pytest.raises(RunError, match="no results"):
        draw_figure("classes", [], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_older_figure_outlives_a_disk_that_fills_up(
    runs: list[Result], tmp_path: Path, files_up_to: Callable[[int], Any]
) -> None:
    for path in draw_figure("classes", runs, tmp_path):
        path.write_bytes(b"older")
    with files_up_to(1000), pytest.raises(RunError, match=r"cannot write .*classes\.png \(File too large\); make room"):
        draw_figure("classes", runs, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "classes.png": b"older",
        "classes.svg": b"older",
    }

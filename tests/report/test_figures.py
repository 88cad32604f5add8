from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean.base import RunError
from procrustean.records import group_results
from procrustean.records.groups import Group, Result
from procrustean.report import training_progress
from procrustean.report.page_figures import _draw, _measured, major_to_minor

Make = Callable[..., Result]


@pytest.fixture
def groups(result: Make) -> list[Group]:
    return group_results(result(label=label, seed=seed) for label in ("ERM", "MFW") for seed in range(2))


def test_a_png_and_an_svg_are_written(groups: list[Group], tmp_path: Path) -> None:
    paths = training_progress(groups, tmp_path / "new" / "rho0.1")
    assert paths == [tmp_path / "new" / "rho0.1.png", tmp_path / "new" / "rho0.1.svg"]
    with Image.open(paths[0]) as image:
        assert image.width > 1000
        colours = image.convert("RGB").getcolors(maxcolors=image.width * image.height)
    assert colours is not None
    assert len(colours) > 50
    assert ET.parse(paths[1]).getroot().tag.endswith("svg")


def test_results_are_grouped_first(result: Make, tmp_path: Path) -> None:
    paths = training_progress([result(seed=0), result(seed=1)], str(tmp_path / "progress"))
    assert all(path.stat().st_size > 0 for path in paths)


def test_the_mean_over_the_seeds_is_in_percent(result: Make) -> None:
    runs = [result(seed=seed, epochs=3) for seed in range(2)]
    for run, share in zip(runs, (0.2, 0.4), strict=True):
        run.record["curves"]["train_recall"] = [[share] * 10, None, [share] * 9 + [None]]
    curves = _measured(group_results(runs)[0])
    assert curves.epochs.tolist() == [1, 3]
    assert curves.of([0, 1])[:, 0] == pytest.approx([20.0, 40.0])
    assert np.isnan(curves.of([9])[0, 1])
    panel = _draw(group_results(runs), [curves]).axes[0]
    assert panel.lines[0].get_ydata()[0] == pytest.approx(30.0)
    low, high = (f(panel.collections[0].get_paths()[0].vertices[:, 1]) for f in (np.min, np.max))
    assert (high - low) / 2 == pytest.approx(100 * np.std([0.2, 0.4], ddof=1))


def test_only_epochs_measured_in_all_runs_are_drawn(result: Make) -> None:
    (group,) = group_results([result(seed=0), result(seed=1, evaluated=[1, 3, 19])])
    assert _measured(group).epochs.tolist() == [2, 4, 20]


def test_two_sizes_of_classes_have_a_thick_line_each_on_the_same_axes(groups: list[Group]) -> None:
    figure = _draw(groups, [_measured(group) for group in groups])
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
    (group,) = group_results(result(counts=[1000, 100, 1], seed=seed) for seed in range(2))
    figure = _draw([group], [_measured(group)])
    assert (len(figure.axes[0].lines), len(figure.axes[0].collections)) == (3, 3)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "class 0 (1,000 images)",
        "class 1 (100 images)",
        "class 2 (1 image)",
        "± 1 standard deviation\nover the seeds",
    ]


def test_the_line_of_a_class_has_the_colour_of_its_legend_entry(result: Make) -> None:
    (group,) = group_results([result(counts=[20, 1000, 300], classes=["small", "large", "middle"])])
    figure = _draw([group], [_measured(group)])
    legend = figure.legends[0]
    assert [text.get_text().split()[0] for text in legend.get_texts()] == ["large", "middle", "small"]
    assert [line.get_color() for line in figure.axes[0].lines] == [line.get_color() for line in legend.get_lines()]
    progress = group.results[0].record["curves"]["train_recall"]
    assert figure.axes[0].lines[0].get_ydata()[0] == pytest.approx(100 * progress[0][1])


@pytest.mark.parametrize("counts", [[1000] * 5 + [20] * 5, [5000, 1000, 200, 40, 8], [7] * 6, list(range(100, 0, -1))])
def test_colours_get_lighter_frommajor_to_minor_and_stay_dark_enough(counts: list[int]) -> None:
    colours = np.array([major_to_minor(counts)(rank)[:3] for rank in range(len(counts))])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) > 0).all()
    assert luminance.max() < 0.65


def test_the_levels_of_a_step_are_apart() -> None:
    colours = np.array([major_to_minor([1000] * 5 + [20] * 5)(rank)[:3] for rank in range(10)])
    jumps = np.abs(np.diff(colours, axis=0)).sum(axis=1)
    assert jumps[4] > 3 * np.delete(jumps, 4).max()


def test_many_classes_get_a_colour_bar(result: Make, tmp_path: Path) -> None:
    counts = [int(500 * 0.01 ** (i / 99)) for i in range(100)]
    groups = group_results([result(counts=counts, epochs=4)])
    figure = _draw(groups, [_measured(group) for group in groups])
    assert not figure.legends
    labels = [label.get_text() for label in figure.axes[-1].get_yticklabels()]
    assert (labels[0], labels[-1]) == ("500", "5")


@pytest.mark.filterwarnings("error")
def test_odd_names_and_single_points_draw_without_warnings(result: Make, tmp_path: Path) -> None:
    names = ["_hidden", "$x^$", "a\nb", "long " * 20, "%", "é", "", "[8]", "<9>", "\\frac"]
    runs = [result(label=label, classes=names, epochs=1) for label in ("$\\frac$", "_MFW", "A", "B", "C")]
    assert len(training_progress(runs, tmp_path / "odd")) == 2


def test_runs_without_training_accuracy_are_named(result: Make, tmp_path: Path) -> None:
    run = result(label="MFW")
    run.record["curves"]["train_recall"] = None
    with pytest.raises(RunError, match=r"MFW.*--track-training"):
        training_progress([run], tmp_path / "none")


def test_different_data_and_nothing_are_refused(result: Make, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"same data.*long-tailed.*step"):
        training_progress([result(), result(kind="long_tailed")], tmp_path / "none")
    with pytest.raises(RunError, match="no results"):
        training_progress([], tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(groups: list[Group], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"cannot be written to .*file"):
        training_progress(groups, tmp_path / "file" / "figure")


def test_an_older_figure_outlives_a_disk_that_fills_up(
    groups: list[Group], tmp_path: Path, files_up_to: Callable[[int], Any]
) -> None:
    for path in training_progress(groups, tmp_path / "figure"):
        path.write_bytes(b"older")
    with files_up_to(1000), pytest.raises(RunError, match=r"cannot write .*figure\.png \(File too large\); make room"):
        training_progress(groups, tmp_path / "figure")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "figure.png": b"older",
        "figure.svg": b"older",
    }


def test_neither_pyplot_nor_global_settings_are_touched(saved: Callable[..., Path], tmp_path: Path) -> None:
    code = (
        "import sys, matplotlib\n"
        "from procrustean.report import training_progress\n"
        "from procrustean.records import load_result\n"
        "before = dict(matplotlib.rcParams)\n"
        "training_progress([load_result(sys.argv[1])], sys.argv[2])\n"
        "print('matplotlib.pyplot' in sys.modules, dict(matplotlib.rcParams) == before)"
    )
    arguments = [sys.executable, "-c", code, str(saved()), str(tmp_path / "figure")]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]

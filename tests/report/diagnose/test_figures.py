from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from made_records import with_changes
from procrustean.base import ConfigError, RunError
from procrustean.engine.stored_features import KeptFeatures, load_features
from procrustean.records.run_record import Result
from procrustean.report import draw_figure
from procrustean.report.figures.canvas import LARGEST, SMALLEST
from procrustean.report.figures.draw import drawing
from procrustean.report.figures.end_of_training import embedded
from procrustean.report.figures.panels import panels_of
from procrustean.report.figures.plane import regions

Make = Callable[..., Result]

CURVE = np.linspace(0.2, 0.9, 5)[:, None] * np.array([1.0, 0.9, 0.5, 0.3])


def features(classes: int = 4, width: int = 2, seed: int = 0, per_class: int = 8) -> dict[str, Any]:
    random = np.random.RandomState(seed)
    labels = np.repeat(np.arange(classes), per_class)
    arrays: dict[str, Any] = {}
    for split in ("train", "test"):
        centres = 5 * np.eye(max(classes, width))[:classes, :width] if width > 2 else 4 * _corners(classes)
        arrays[f"{split}_features"] = (centres[labels] + random.randn(len(labels), width)).astype(np.float32)
        arrays[f"{split}_labels"] = labels
    arrays["head_weight"], arrays["head_bias"] = random.randn(classes, width), random.randn(classes)
    return arrays


def _corners(classes: int) -> np.ndarray:
    angles = 2 * np.pi * np.arange(classes) / classes
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def titles(figure: Any) -> list[str]:
    return [axes.get_title(loc="left") for axes in figure.axes if axes.get_title(loc="left")]


@pytest.fixture
def pair(result: Make) -> list[Result]:
    return [
        result(label="ERM", train=CURVE, ratio=CURVE + 0.2, gradient=CURVE, deviation=CURVE / 2),
        result(
            label="MFW",
            method="mfw",
            train=CURVE,
            gradient=CURVE,
            mixed=2 * CURVE,
            epochs=300,
            at=(30, 60, 90, 200, 300),
        ),
    ]


def test_progress_shows_accuracy_above_ratio_of_the_two_extreme_classes(pair: list[Result]) -> None:
    figure = drawing("progress", panels_of(pair))
    assert titles(figure) == ["ERM", "MFW"]
    assert texts(figure) == ["class 0 (100 images)", "class 3 (5 images)"]
    top, _, bottom, _ = figure.axes
    assert top.get_ylabel() == "training set accuracy (%)"
    assert bottom.get_ylabel() == "classification ratio (%)"
    assert bottom.get_xlabel() == "epoch"
    for axes, expected in ((top, 100 * CURVE), (bottom, 100 * CURVE + 20)):
        assert [to_hex(line.get_color()) for line in axes.lines[:2]] == [LARGEST, SMALLEST]
        assert axes.lines[0].get_xdata().tolist() == [10, 20, 40, 80, 100]
        assert axes.lines[0].get_ydata() == pytest.approx(expected[:, 0])
        assert axes.lines[1].get_ydata() == pytest.approx(expected[:, 3])
    assert len(top.lines) == 2
    assert bottom.lines[2].get_ydata() == [100, 100]  # balanced
    assert figure.axes[1].get_xlim() == (0, 300)
    assert top.get_ylim() == figure.axes[1].get_ylim()


def test_gradients_show_those_of_the_training_and_the_unmixed_ones_dashed(pair: list[Result]) -> None:
    figure = drawing("gradients", panels_of(pair))
    erm, mfw = figure.axes
    assert len(erm.lines) == 2
    assert len(mfw.lines) == 4
    assert mfw.lines[0].get_ydata() == pytest.approx(2 * CURVE[:, 0])
    assert mfw.lines[2].get_ydata() == pytest.approx(CURVE[:, 0])
    assert mfw.lines[0].get_linestyle() == "-"
    assert mfw.lines[2].get_linestyle() == "--"
    assert texts(figure)[-1] == "same weights, nothing mixed"
    assert erm.get_ylim() == mfw.get_ylim()
    assert mfw.get_ylim()[1] > 2 * CURVE.max()  # nothing is cut off
    assert erm.get_title(loc="right") == "at group2"
    assert texts(drawing("gradients", panels_of(pair[:1]))) == ["class 0 (100 images)", "class 3 (5 images)"]


def test_gradients_at_different_layers_have_panels_and_scales_of_their_own(pair: list[Result], result: Make) -> None:
    mixed = np.where(np.arange(5)[:, None] < 4, 9 * CURVE, np.nan)
    layers = ("input",) * 4 + ("group2",)
    staged = result(label="MiSLAS", method="mislas", gradient=CURVE, mixed=mixed, layers=layers)
    figure = drawing("gradients", panels_of([pair[0], staged]))
    assert titles(figure) == ["ERM", "MiSLAS", "MiSLAS"]
    erm, first, second = figure.axes
    assert [axes.get_title(loc="right") for axes in figure.axes] == [
        "at group2",
        "at input",
        "at group2, only epoch 100",
    ]
    assert first.lines[0].get_xdata().tolist() == [10, 20, 40, 80]
    assert first.lines[0].get_ydata() == pytest.approx(9 * CURVE[:4, 0])
    assert first.lines[2].get_linestyle() == "--"
    assert len(second.lines) == 2
    assert second.lines[0].get_ydata() == pytest.approx(CURVE[4:, 0])
    assert erm.get_ylim() == second.get_ylim()
    assert first.get_ylim()[1] > 5 * second.get_ylim()[1]


def test_deviation_of_several_data_settings_is_titled_as_in_the_paper(result: Make) -> None:
    runs = [
        result(label=label, method=label.lower(), kind=kind, counts=counts, deviation=CURVE)
        for kind, counts in (("long_tailed", [100, 50, 20, 5]), ("step", [100, 100, 5, 5]))
        for label in ("ERM", "MFW")
    ]
    figure = drawing("deviation", panels_of(runs))
    assert titles(figure) == ["Long-tailed (ERM)", "Long-tailed (MFW)", "Step (ERM)", "Step (MFW)"]
    assert [axes.get_xlabel() for axes in figure.axes] == ["epoch"] * 4
    assert figure.axes[0].get_ylabel() == "feature deviation"
    assert texts(figure) == ["class 0 (100 images)", "class 3 (5 images)"]
    runs[0] = result(label="ERM", kind="long_tailed", counts=[90, 50, 20, 4], deviation=CURVE)
    assert texts(drawing("deviation", panels_of(runs))) == ["largest class", "smallest class"]


def test_seeds_are_drawn_as_mean_and_band(result: Make) -> None:
    runs = [result(seed=seed, deviation=CURVE * (1 + seed)) for seed in (0, 1)]
    (axes,) = drawing("deviation", panels_of(runs)).axes
    assert axes.lines[0].get_ydata() == pytest.approx(1.5 * CURVE[:, 0])
    assert len(axes.collections) == 2
    assert axes.get_title(loc="right") == "2 seeds"
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(1.5 * CURVE[-1, 0] + CURVE[-1, 0] * np.std([1, 2], ddof=1))


def test_bands_and_whiskers_end_where_accuracies_do(result: Make) -> None:
    """Two seeds far apart, around the ends of the scale."""
    runs = [
        result(seed=seed, train=[high, high, low, low]) for seed, (high, low) in enumerate(((1.0, 0.0), (0.7, 0.3)))
    ]
    accuracies = drawing("progress", panels_of(runs)).axes[0]
    bands = np.concatenate([band.get_paths()[0].vertices[:, 1] for band in accuracies.collections])
    assert (bands.min(), bands.max()) == (0, 100)
    (axes,) = drawing("bars", panels_of(runs)).axes
    ends = np.concatenate(
        [
            line[:, 1]
            for drawn in axes.containers
            if hasattr(drawn, "errorbar")
            for line in drawn.errorbar.lines[2][0].get_segments()
        ]
    )
    assert (ends.min(), ends.max()) == (0, 100)


def test_every_number_of_the_bars_is_inside_its_panel(result: Make) -> None:
    runs = [result(seed=seed, train=1.0 - 0.6 * (seed == 2), test=0.99 - 0.98 * (seed == 1)) for seed in range(3)]
    figure = drawing("bars", panels_of(runs))
    figure.canvas.draw()
    (axes,) = figure.axes
    inside = axes.get_window_extent()
    numbers = [text.get_window_extent() for text in axes.texts]
    assert len(numbers) == 8
    assert all(inside.y0 <= number.y0 and number.y1 <= inside.y1 for number in numbers)


def test_all_classes_on_request(pair: list[Result], result: Make) -> None:
    figure = drawing("deviation", panels_of(pair[:1]), all_classes=True)
    assert len(figure.axes[0].lines) == 4
    assert texts(figure) == [f"class {c} ({n} images)" for c, n in enumerate((100, 80, 10, 5))]
    many = result(counts=list(range(40, 0, -1)), deviation=0.1)
    assert texts(drawing("deviation", panels_of([many]), all_classes=True)) == [
        "class 0 (40 images), of 40 classes by size",
        "class 39 (1 images), of 40 classes by size",
    ]


def test_bars_show_training_and_test_accuracy_of_every_class(result: Make) -> None:
    runs = [
        result(label=label, train=1.0, test=np.array([0.9, 0.8, 0.4, value]))
        for label, value in (("ERM", 0.2), ("MFW", 0.6))
    ]
    figure = drawing("bars", panels_of(runs))
    assert titles(figure) == ["ERM", "MFW"]
    assert texts(figure) == ["training set", "test set"]
    for axes, value in zip(figure.axes, (20, 60), strict=True):
        heights = [bar.get_height() for bar in axes.patches]
        assert heights == pytest.approx([100] * 4 + [90, 80, 40, value])
        assert [label.get_text() for label in axes.get_xticklabels()][-1] == "class 3\n5"
    many = drawing("bars", panels_of([result(counts=list(range(60, 0, -1)), test=0.5)]))
    assert len(many.axes[0].patches) == 120
    assert many.axes[0].get_xlabel() == "class, from the largest to the smallest"


def test_tsne_keeps_apart_what_is_apart_and_marks_train_and_test(saved: Callable[..., Result]) -> None:
    run = saved("run", {100: features(width=8)}, label="ERM")
    kept = load_features(run.path.parent)
    places, labels, trained = embedded(kept, (0, 3))
    assert len(places) == 32
    assert set(labels) == {0, 3}
    assert trained.sum() == 16
    centres = [places[labels == label].mean(0) for label in (0, 3)]
    own = max(
        np.linalg.norm(places[labels == label] - c, axis=1).mean() for label, c in zip((0, 3), centres, strict=True)
    )
    assert np.linalg.norm(centres[0] - centres[1]) > 2 * own
    again, _, _ = embedded(kept, (0, 3))
    assert np.array_equal(places, again)
    figure = drawing("tsne", panels_of([run]))
    assert texts(figure) == ["class 0 (100 images)", "class 3 (5 images)", "training", "test"]
    assert [len(points.get_offsets()) for points in figure.axes[0].collections] == [8, 8, 8, 8]
    assert figure.axes[0].get_title(loc="right") == "epoch 100"


def test_too_few_points_for_tsne_are_refused() -> None:
    kept = KeptFeatures(1, np.zeros((2, 3)), np.array([0, 1]), np.zeros((2, 3)), np.array([0, 1]), None, None)
    with pytest.raises(RunError, match="only 4 features"):
        embedded(kept, (0, 1))


@pytest.fixture
def planar(saved: Callable[..., Result]) -> Result:
    epochs = {epoch: features(seed=epoch, per_class=70) for epoch in (20, 60, 120, 160, 200)}
    return saved("planar", epochs, label="ERM", epochs=200, at=(200,), accuracy=0.783)


def test_the_plane_shows_training_above_test(planar: Result) -> None:
    figure = drawing("plane", [planar], epochs=(20, 60, 120, 160))
    assert len(figure.axes) == 8
    assert [axes.get_title() for axes in figure.axes[:4]] == ["Epoch 20", "Epoch 60", "Epoch 120", "Epoch 160"]
    assert [figure.axes[0].get_ylabel(), figure.axes[4].get_ylabel()] == ["training", "test"]
    assert figure._suptitle.get_text() == "ERM: test accuracy 78.3 % after all 200 epochs"
    planar = with_changes(planar, selections__last__metrics__headline="balanced_accuracy")
    assert drawing("plane", [planar])._suptitle.get_text().startswith("ERM: test balanced accuracy 78.3 %")
    assert len(texts(figure)) == 4
    for above, below in zip(figure.axes[:4], figure.axes[4:], strict=True):
        assert above.get_xlim() == below.get_xlim()
        assert len(above.collections) == 4
        assert all(len(points.get_offsets()) == 50 for points in above.collections)  # thinned out
        assert not np.array_equal(above.collections[0].get_offsets(), below.collections[0].get_offsets())
        assert np.array_equal(above.images[0].get_array(), below.images[0].get_array())
    assert len(drawing("plane", [planar], epochs=(60, 200)).axes) == 4
    assert len(drawing("plane", [planar]).axes) == 10


def test_regions_are_those_of_the_linear_layer(planar: Result) -> None:
    kept = load_features(planar.path.parent, 60)
    grid = regions(kept, (-3.0, 5.0, -2.0, 2.0), steps=9)
    for row, y in enumerate(np.linspace(-2, 2, 9)):
        for column, x in enumerate(np.linspace(-3, 5, 9)):
            scores = [w[0] * x + w[1] * y + b for w, b in zip(kept.head_weight, kept.head_bias, strict=True)]
            assert grid[row, column] == scores.index(max(scores))


def test_runs_that_cannot_be_drawn_in_the_plane_are_refused(saved: Callable[..., Result], planar: Result) -> None:
    with pytest.raises(RunError, match=r"width 8, not 2.*resnet32-2d"):
        drawing("plane", [saved("wide", {5: features(width=8)})])
    with pytest.raises(RunError, match=r"kept no features.*--probes"):
        drawing("plane", [saved("none")])
    with pytest.raises(RunError, match=r"no features of epoch 7, only of 20, 60, 120, 160, 200.*--features-at 7"):
        drawing("plane", [planar], epochs=(7,))
    (planar.path.parent / "features-000020.npz").write_bytes(b"PK nonsense")
    with pytest.raises(RunError, match="is damaged"):
        drawing("plane", [planar])


def test_the_same_figure_is_the_same_file(pair: list[Result], tmp_path: Path) -> None:
    first, second = (draw_figure("progress", pair, tmp_path / name)[1].read_bytes() for name in ("a", "b"))
    assert first == second


@pytest.mark.filterwarnings("error")
def test_odd_names_and_single_points_draw_without_warnings(saved: Callable[..., Result], tmp_path: Path) -> None:
    names = ["$x^$", "_hidden\nname", "long " * 30, "<b>"]
    run = saved("odd", {100: features(width=8)}, classes=names, label="$\\frac$", at=(100,))
    for name in ("progress", "gradients", "deviation", "bars", "tsne"):
        assert draw_figure(name, [run], tmp_path / "figures")


@pytest.mark.parametrize("name", ["progress", "gradients", "deviation"])
def test_a_single_epoch_is_drawn_as_whole_points_and_said(name: str, result: Make) -> None:
    runs = [result(label="ERM", at=(30,)), result(label="MFW", method="mfw", mixed=0.2, at=(30,)), result(label="LDAM")]
    figure = drawing(name, panels_of(runs))
    alone, many = figure.axes[1], figure.axes[2]
    assert [axes.get_title(loc="right").split(", ")[-1] for axes in (alone, many)] == [
        "only epoch 30",
        "at group2" if name == "gradients" else "",
    ]
    left, right = alone.get_xlim()
    assert left < 30 < right
    for line in alone.lines:
        if list(line.get_xdata()) == [30]:  # not the level of the ratio
            assert line.get_marker() in ("o", "D")
            assert not line.get_clip_on()
    assert {line.get_marker() for line in many.lines} == {"None"}


def test_wrong_requests_are_refused(result: Make, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no figure 'progres'.*progress"):
        draw_figure("progres", [result()], tmp_path)
    with pytest.raises(RunError, match="no results"):
        draw_figure("bars", [], tmp_path)
    with pytest.raises(RunError, match="never saved"):
        draw_figure("tsne", [result()], tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        draw_figure("bars", [result()], tmp_path / "file")


def test_neither_pyplot_nor_global_settings_are_touched(saved: Callable[..., Result], tmp_path: Path) -> None:
    run = saved("run")
    code = (
        "import sys, matplotlib\n"
        "from pathlib import Path\n"
        "from procrustean.report import draw_figure\n"
        "from procrustean.records import load_result\n"
        "before = dict(matplotlib.rcParams)\n"
        "draw_figure('progress', [load_result(sys.argv[1])], Path(sys.argv[2]))\n"
        "print('matplotlib.pyplot' in sys.modules, 'torch' in sys.modules, dict(matplotlib.rcParams) == before)"
    )
    arguments = [sys.executable, "-c", code, str(run.path.parent), str(tmp_path / "figures")]
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split() == [
        "False",
        "False",
        "True",
    ]

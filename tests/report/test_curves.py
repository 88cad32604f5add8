from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from made_records import with_changes
from procrustean.records import group_results
from procrustean.records.run_record import Result
from procrustean.report import curves
from procrustean.report.curves import class_curves, gradient_layers, overall_curves, recall_by_size, shown_percent

Make = Callable[..., Result]


def test_mean_and_spread_over_the_seeds(result: Make) -> None:
    shares = (0.2, 0.4, 0.9)
    runs = [
        with_changes(result(seed=seed, epochs=3, evaluated=[0, 2]), curves__test_accuracy=[share, share / 2])
        for seed, share in enumerate(shares)
    ]
    curve = overall_curves(group_results(runs)[0])["test_accuracy"]
    assert curve.epochs.tolist() == [1, 3]
    assert curve.mean[:, 0] == pytest.approx([0.5, 0.25])
    assert curve.sd is not None
    assert curve.sd[0, 0] == pytest.approx(np.std([0.2, 0.4, 0.9], ddof=1))
    shown = curve.to_json(percent=True)
    assert shown["mean"] == [[50.0], [25.0]]
    assert shown["epochs"] == [1, 3]


def test_only_epochs_of_all_repeats_count_and_one_run_has_no_spread(result: Make) -> None:
    runs = [result(seed=0, evaluated=[0, 4, 9, 19]), result(seed=1, evaluated=[4, 8, 19])]
    assert class_curves(group_results(runs)[0])["train_recall"].epochs.tolist() == [5, 20]
    assert class_curves(group_results(runs[:1])[0])["train_recall"].sd is None


def test_recall_by_class_size_along_the_epochs(result: Make) -> None:
    run = result(counts=[500, 50, 5, 4], epochs=2, classes=list("abcd"))
    rows = [[0.9, 0.5, 0.2, None], [1.0, 0.6, None, None]]
    run = with_changes(run, curves__test_recall=rows)
    found = overall_curves(group_results([run])[0])
    assert found["many"].mean[:, 0].tolist() == [0.9, 1.0]
    assert found["few"].epochs.tolist() == [1], "without tested classes there is no value"
    for row, epoch in zip(rows, (0, 1), strict=True):
        assert recall_by_size(row, [500, 50, 5, 4])["major"] == found["major"].mean[epoch, 0]


def test_probes_become_curves_per_class(result: Make) -> None:
    run = result(counts=[10, 5], classes=["a", "b"])
    ratios, mixed = [[1.5, 0.5], [1.0, 1.0]], [[0.1, 0.2], [0.3, 0.4]]
    run = with_changes(run, probes={"epochs": [0, 9], "classification_ratio": ratios, "gradient_norm_mixed": mixed})
    found = class_curves(group_results([run])[0])
    assert found["classification_ratio"].epochs.tolist() == [1, 10]
    assert found["gradient_norm_on"].mean.tolist() == [[0.1, 0.2], [0.3, 0.4]]
    assert "gradient_norm_off" not in found
    assert "feature_deviation" not in found
    assert found["classification_ratio"].to_json(percent=False)["mean"] == [[1.5, 0.5], [1.0, 1.0]]


def test_mixed_and_unmixed_gradients_are_kept_apart(result: Make) -> None:
    run = result(counts=[10, 5], classes=["a", "b"])
    probes = {
        "epochs": [4],
        "train_recall": [[0.75, 0.5]],
        "gradient_norm": [[0.1, 0.2]],
        "gradient_norm_mixed": [[0.3, None]],
    }
    run = with_changes(run, curves__train_recall=[], probes=probes)
    found = class_curves(group_results([run])[0])
    assert found["gradient_norm_off"].mean.tolist() == [[0.1, 0.2]]
    assert found["gradient_norm_on"].to_json(percent=False)["mean"] == [[0.3, None]]
    assert found["train_recall"].mean.tolist() == [[0.75, 0.5]]
    run = with_changes(run, probes__gradient_norm_mixed=[None])
    assert "gradient_norm_on" not in class_curves(group_results([run])[0])


def test_the_page_names_the_layers_of_gradients(result: Make) -> None:
    run = result(counts=[10, 5], classes=["a", "b"])
    assert gradient_layers(group_results([run])[0]) == {}
    run = with_changes(run, probes={"epochs": [1, 3, 4], "layer": ["input", "input", "group2"]})
    assert gradient_layers(group_results([run])[0]) == {"input": "epochs 2 to 4", "group2": "epoch 5"}


def test_a_repeat_without_probes_leaves_them_out(result: Make) -> None:
    runs = [result(seed=0), result(seed=1)]
    runs[0] = with_changes(runs[0], probes={"epochs": [0], "classification_ratio": [[1.0] * 10]})
    assert "classification_ratio" not in class_curves(group_results(runs)[0])


def test_with_very_many_classes_fewer_epochs_are_kept(result: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MOST_NUMBERS", 50)
    curve = class_curves(group_results([result(epochs=20)])[0])["train_recall"]
    assert curve.epochs.tolist() == [1, 6, 11, 15, 20]
    assert curve.measured == 20


@given(st.integers(0, 10**6).map(lambda images: images / 10**6) | st.floats(0, 1))
def test_percents_are_rounded_on_the_page_as_in_the_tables(share: float) -> None:
    shown = shown_percent(share)
    assert shown is not None
    assert abs(shown - 100 * share) <= 0.00151
    tenths_down, tenths_up = np.floor(shown * 10 + 0.5), np.ceil(shown * 10 - 0.5)
    assert tenths_down == tenths_up, "no way of rounding may decide"
    assert f"{tenths_down / 10:.1f}" == f"{100 * share:.1f}"


def test_undefined_values_are_null(result: Make) -> None:
    run = result(counts=[10, 5], classes=["a", "b"], epochs=1)
    run = with_changes(run, curves__test_recall=[[0.5, None]])
    shown = class_curves(group_results([run])[0])["test_recall"].to_json(percent=True)
    assert shown["mean"] == [[50.0, None]]
    assert shown_percent(None) is None

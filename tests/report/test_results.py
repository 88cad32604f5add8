from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made_records import with_changes
from procrustean.base import RunError
from procrustean.base.json_files import to_plain
from procrustean.records import group_results, load_result
from procrustean.records.groups import split_by_data, summarise
from procrustean.records.run_labels import data_text, distinct_labels
from procrustean.records.run_record import Result, RunRecord

Make = Callable[..., Result]
Save = Callable[..., Path]


def test_a_run_directory_and_its_file_give_the_same_result(saved: Save) -> None:
    directory = saved(label="MFW", seed=3)
    from_directory, from_file = load_result(directory), load_result(str(directory / "result.json"))
    assert from_directory == from_file
    assert from_directory.label == "MFW"
    assert from_directory.repeat == (3, 0)
    assert from_directory.path == (directory / "result.json").resolve()


def test_a_missing_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no run at .*nowhere"):
        load_result(tmp_path / "nowhere")


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run directory"):
        load_result(tmp_path)


def test_a_directory_without_result_says_how_to_finish(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    with pytest.raises(RunError, match=r"not finished.*procrustean resume"):
        load_result(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"format": 1, "lab', r"result\.json is damaged \(Input data was truncated"),
        (b"\xff\xfe\x00", "is damaged"),
        (b"[1, 2]", r"is damaged \(Expected `object`, got `array`"),
        (b"{}", "is damaged .*missing required field `label`"),
        (b'{"format": 2}', r"format 2; this version of procrustean reads format 1"),
        (b"[" * 100_000, "is damaged"),
    ],
)
def test_unusable_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(content)
    with pytest.raises(RunError, match=message):
        load_result(file)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("config.options", 3),
        ("config.hold_out", "x"),
        ("config.imbalance", "upside down"),
        ("data.source", ["digits"]),
        ("data.counts", [1]),
        ("recipe", ["paper"]),
        ("recipe.lr", -1.0),
        ("method.finish", [1]),
        ("method.parameters", "many"),
        ("selections.last", None),
        ("selections.last.epoch", None),
        ("selections.oracle.metrics", None),
        ("selections.last.metrics.confusion", [[1, 2]]),
        ("selections.last.metrics.confusion", 5),
        ("selections.last.metrics.headline", "luck"),
        ("selections.last.metrics.accuracy", 7.3),
        ("selections.oracle.metrics.balanced_accuracy", -0.2),
        ("selections.last.metrics.macro_f1", 2),
        ("selections.last.metrics.groups.many", 73.0),
        ("selections.last.metrics.recall", [7.3] + [0.5] * 9),
        ("selections.last.metrics.recall", [0.5]),
        ("curves.test_accuracy", [0.5, 7.3]),
        ("seconds", 1.5),
        ("seconds", {"total": "long"}),
        ("images_per_second", []),
        ("finished_at", "some day"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name(
    place: str, value: Any, tmp_path: Path, record: Callable[..., RunRecord]
) -> None:
    damaged = to_plain(record())
    *parts, name = place.split(".")
    inside = damaged
    for part in parts:
        inside = inside[part]
    inside[name] = value
    (tmp_path / "result.json").write_text(json.dumps(damaged))
    shown = "groups" if parts[-1:] == ["groups"] else name  # msgspec names no keys
    with pytest.raises(RunError, match=rf"result\.json is damaged \(.*\b{shown}\b.*\); restore it"):
        load_result(tmp_path)


def test_runs_that_differ_only_in_seeds_are_one_group(result: Make) -> None:
    runs = [
        result(seed=0, device="cpu"),
        result(seed=1, device="cuda", checkpoint_every=5.0),
        result(seed=2, data_seed=1, track_training=True, images="streamed", workers=2),
    ]
    runs[2] = with_changes(runs[2], recipe__mean=[0.3])  # measured on another choice of images
    (group,) = group_results(runs)
    assert group.seeds == (0, 1, 2)
    assert group.data_seeds == "0, 1"
    assert group.results == tuple(runs)


def test_seeds_that_were_repeated_on_other_images_are_groups_by_data_seed(result: Make) -> None:
    seeds = [(0, 0), (1, 0), (0, 10), (0, 2)]
    groups = group_results(result(seed=seed, data_seed=data_seed) for seed, data_seed in seeds)
    assert [(group.seeds, group.data_seeds) for group in groups] == [((0, 1), "0"), ((0,), "2"), ((0,), "10")]
    assert distinct_labels(groups) == ["ERM (data_seed=0)", "ERM (data_seed=2)", "ERM (data_seed=10)"]
    assert distinct_labels(groups, shown_beside=("data_seed",)) == ["ERM"] * 3
    (group,) = group_results(result(seed=0, data_seed=data_seed) for data_seed in range(3))
    assert group.data_seeds == "0, 1, 2"


@pytest.mark.parametrize(
    "difference",
    [
        {"label": "MFW"},
        {"method": "mfw"},
        {"options": {"alpha": 2.0}},
        {"source": "cifar10"},
        {"source_hash": "other"},
        {"kind": "long_tailed"},
        {"rho": 10.0},
        {"counts": [1000] * 5 + [100] * 5},
        {"hold_out": 3},
        {"net": "resnet32"},
        {"recipe": "own"},
        {"epochs": 30},
        {"evaluate_every": 2},
    ],
)
def test_any_other_difference_makes_another_group(result: Make, difference: dict[str, Any]) -> None:
    groups = group_results([result(seed=0), result(**{"seed": 1, **difference})])
    assert [group.seeds for group in groups] == [(0,), (1,)]


def test_recipe_numbers_and_precision_used_count(result: Make) -> None:
    runs = [result(seed=seed) for seed in range(4)]
    runs[1] = with_changes(runs[1], recipe__lr=0.2)
    runs[2] = with_changes(runs[2], environment__precision="bf16")
    assert [group.seeds for group in group_results(runs)] == [(0, 3), (1,), (2,)]


def test_a_config_that_repeats_the_recipe_is_the_same_setting(result: Make) -> None:
    runs = [result(seed=0), result(seed=1)]
    runs[1] = with_changes(runs[1], config__epochs=None)  # left to the recipe, which came to the same number
    assert len(group_results(runs)) == 1


def test_duplicates_are_refused_by_name(saved: Save) -> None:
    first, second = load_result(saved("a", seed=1)), load_result(saved("b", seed=1))
    with pytest.raises(RunError) as error:
        group_results([first, second])
    assert str(first.path) in str(error.value)
    assert str(second.path) in str(error.value)
    assert "seed 1" in str(error.value)


def test_the_same_path_twice_counts_once(saved: Save) -> None:
    directory = saved("a")
    (group,) = group_results([load_result(directory), load_result(directory / "result.json")])
    assert len(group.results) == 1


def test_unsaved_duplicates_are_refused_but_the_same_object_counts_once(result: Make) -> None:
    run = result()
    assert len(group_results([run, run])[0].results) == 1
    with pytest.raises(RunError, match="unsaved run of ERM"):
        group_results([run, result()])


def test_statistics_are_the_mean_and_the_sample_deviation(result: Make) -> None:
    shares = [0.4, 0.5, 0.9]
    (group,) = group_results(result(seed=i, recall=share) for i, share in enumerate(shares))
    found = group.statistic("headline")
    assert found is not None
    assert found.mean == pytest.approx(statistics.fmean(shares))
    assert found.sd == pytest.approx(statistics.stdev(shares))
    assert found.n == 3
    assert group.statistic("headline") == group.statistic("accuracy")
    oracle = group.statistic("headline", "oracle")
    assert oracle is not None
    assert oracle.mean == pytest.approx(statistics.fmean(shares) + 0.05)
    assert group.statistic("headline", "held_out") is None


def test_groups_of_classes_are_metrics_too(result: Make) -> None:
    (group,) = group_results([result(recall=[0.9] * 5 + [0.3] * 5)])
    values = {name: group.statistic(name) for name in ("major", "minor", "many", "medium", "few")}
    assert {name: value and value.mean for name, value in values.items()} == {
        "major": pytest.approx(0.9),
        "minor": pytest.approx(0.3),
        "many": pytest.approx(0.9),
        "medium": pytest.approx(0.3),
        "few": None,
    }
    assert [value.mean for value in group.recall() if value] == pytest.approx([0.9] * 5 + [0.3] * 5)
    assert group.recall("held_out") == [None] * 10
    with pytest.raises(RunError, match="Did you mean 'major'"):
        group.statistic("mayor")


def test_the_headline_follows_the_test_set(result: Make) -> None:
    skewed = [100] * 9 + [50]
    (group,) = group_results([result(test_counts=skewed, recall=[0.5] * 9 + [1.0])])
    assert group.headline == "balanced_accuracy"
    found = group.statistic("headline")
    assert found is not None
    assert found.mean == pytest.approx(0.55)


def test_one_value_has_no_spread() -> None:
    assert summarise([]) is None
    assert summarise([None]) is None
    one = summarise([0.5, None])
    assert one is not None
    assert (one.mean, one.sd, one.n) == (0.5, None, 1)


def test_groups_are_split_by_their_data(result: Make) -> None:
    groups = group_results([result(), result(kind="long_tailed"), result(label="MFW"), result(label="MFW", hold_out=3)])
    parts = split_by_data(groups)
    assert [[group.label for group in part] for part in parts] == [["ERM", "MFW"], ["ERM"], ["MFW"]]
    assert [data_text(part[0]) for part in parts] == [
        "digits, step ρ=50",
        "digits, long-tailed ρ=50",
        "digits, step ρ=50, 3 images of each class held out",
    ]
    (natural,) = group_results([result(kind="natural", rho=None)])
    assert data_text(natural) == "digits, natural"


def test_that_small_classes_gave_no_held_out_images_is_told(result: Make) -> None:
    run = result(hold_out=1000)
    run = with_changes(run, data__left_out_of_hold_out=["3"])
    (group,) = group_results([run])
    assert data_text(group) == "digits, step ρ=50, up to 1000 images of each class held out"


def test_labels_tell_twins_apart(result: Make) -> None:
    groups = group_results(
        [
            result(label="MFW", options={"alpha": 1.0}),
            result(label="MFW", options={"alpha": 2.0}),
            result(label="MFW", options={"alpha": 2.0}, epochs=30),
            result(label="MFW", options={"alpha": 5.0}, source="cifar10"),
            result(label="ERM"),
        ]
    )
    assert distinct_labels(groups, shown_beside=("epochs",)) == [
        "MFW (alpha=1.0)",
        "MFW (alpha=2.0)",
        "MFW (alpha=2.0)",
        "MFW",
        "ERM",
    ]
    assert distinct_labels(groups)[1:3] == ["MFW (alpha=2.0, epochs=20)", "MFW (alpha=2.0, epochs=30)"]


def test_other_numbers_of_the_recipe_are_named(result: Make) -> None:
    other = with_changes(result(seed=2), recipe__colour_jitter=0.4, config__recipe="auto")
    groups = group_results([result(seed=0), other])
    assert distinct_labels(groups) == ["ERM (colour_jitter=0.0)", "ERM (colour_jitter=0.4)"]


def test_the_same_images_under_another_name_are_the_same_data(result: Make) -> None:
    one, other = (result(source=name, source_hash="a" * 64, seed=seed) for seed, name in enumerate(("cells", "blood")))
    (group,) = group_results([one, other])
    assert len(group.results) == 2

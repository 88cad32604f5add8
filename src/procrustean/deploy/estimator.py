"""`procrustean.Classifier`: fit, predict and predict_proba on arrays, pictures or paths."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from procrustean.base.errors import ConfigError, DataError
from procrustean.base.own_code import folder_name
from procrustean.data.fold_splits import ALL
from procrustean.data.imageset import NO_TEST, Images, ImageSet, Splits
from procrustean.data.set_aside import hold_out_together
from procrustean.deploy.estimator_images import (
    files_among,
    paths_among,
    pixels_of_files,
    pixels_of_numbers,
    scale_of,
    write_table,
)
from procrustean.deploy.model import Model
from procrustean.deploy.model_loading import load_model
from procrustean.engine.probabilities import Prior, prior_of, read_prior
from procrustean.records.finding_runs import TRIALS
from procrustean.records.run_folder import RunUnfinished
from procrustean.records.run_spec import ADVISED, AUTO, RunSpec
from procrustean.runs.advice import HOLD_OUT
from procrustean.runs.image_loading import Sources
from procrustean.runs.method_advice import MethodChoice
from procrustean.runs.one_run import FinishedRun
from procrustean.runs.train_api import fit, resume
from procrustean.runs.ways import open_ways


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An image classifier for imbalanced classes with scikit-learn's interface.

    What is left open is chosen for the images and the device, as `procrustean train` does: for paths of photographs by
    trials of several ways to train. Images are arrays [N, H, W] or [N, H, W, channels] (bytes, or numbers from 0 to 1
    or 255), rows of numbers with `image_shape`, pictures of Pillow, or paths.

    Args:
        method: a training method, "advised" for the one that is advised for the class counts, or "auto" to compare.
        drw: deferred re-weighting, with methods that are named.
        options: of the method.
        net, epochs, batch_size, lr, pretrained: of the training; None to have them chosen.
        image_size: side to which files are resized; default the one they share, else 64.
        image_shape: (H, W) or (H, W, channels) of images that come as rows of numbers.
        hold_out: share of each class that is not trained on but calibrated with; 0 trains on all. By default 0.15, and
            none where trials of ways to train calibrate.
        prior: class frequencies of the images to be classified: "balanced", "train" or a mapping from class to
            frequency; None leaves the classes as the network ranks them.
        minutes: what method="auto", or photographs with their trials, may take; default 30.
        device: "auto", "cpu" or "cuda".
        random_state: seed, generator or None.
        run_dir: where to keep the run; by default it is not kept. `fit` goes on with a run that was cut short there.

    Attributes:
        classes_: the labels, sorted.
        method_: the method that was trained with, "-drw" behind it with deferred re-weighting: what was advised or
            found best, if none was named.
        model_: the trained network.

    >>> classifier = Classifier(method="mfw", epochs=30)
    >>> classifier.fit(images, labels).predict(images)  # doctest: +SKIP
    """

    def __init__(
        self,
        method: str = ADVISED,
        *,
        drw: bool = False,
        options: Mapping[str, Any] | None = None,
        net: str | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float | None = None,
        pretrained: str | None = None,
        image_size: int | None = None,
        image_shape: tuple[int, ...] | None = None,
        hold_out: float | None = None,
        prior: str | Mapping[Any, float] | None = None,
        minutes: float | None = None,
        device: str = "auto",
        random_state: Any = 0,
        run_dir: str | Path | None = None,
    ) -> None:
        self.method = method
        self.drw = drw
        self.options = options
        self.net = net
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.pretrained = pretrained
        self.image_size = image_size
        self.image_shape = image_shape
        self.hold_out = hold_out
        self.prior = prior
        self.minutes = minutes
        self.device = device
        self.random_state = random_state
        self.run_dir = run_dir

    def fit(self, X: Any, y: Any) -> Classifier:
        """Train on images X with labels y of any kind."""
        paths = paths_among(X)
        pixels = None if paths else self._pixels(X, fitting=True)
        labels = self._labels(y, len(paths if pixels is None else pixels))
        self.classes_, encoded = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds {len(self.classes_)} class ({self.classes_[:1]}); at least two classes are needed"
            )
        # What is wrong with it is said before the training, though it is used after.
        self._prior([str(position) for position in range(len(self.classes_))], np.bincount(encoded).tolist())
        with tempfile.TemporaryDirectory(prefix="procrustean-") as scratch:
            settings = self._settings(Path(scratch) / "run" if self.run_dir is None else Path(self.run_dir))
            run = None
            if paths and some_can_be_held_out(encoded):
                run = self._tried(paths, encoded, settings, Path(scratch))
            if run is None:
                pixels = self._pixels(X, fitting=True) if pixels is None else pixels
                run = self._trained(self._splits(pixels, encoded.astype(np.int64)), settings)
            trained = run.record.config
            self.method_ = MethodChoice(folder_name(trained.method), trained.drw).name
            self.model_: Model = load_model(run.path, device=self.device)
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each image."""
        best = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Calibrated probabilities, [N, C], columns in the order of `classes_`."""
        check_is_fitted(self, "model_")
        prior = self._prior(self.model_.classes, self.model_.spec.calibration.counts)
        found = self.model_.probabilities(self._pixels(X, fitting=False), prior)
        # The trainer orders the classes by size, and knows them by their position in `classes_`.
        return np.asarray(found[:, np.argsort([int(name) for name in self.model_.classes])])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = self.image_shape is not None
        tags.input_tags.three_d_array = True
        tags.input_tags.positive_only = True
        tags.classifier_tags.poor_score = True  # on data that are no images
        return tags

    def _labels(self, y: Any, images: int) -> npt.NDArray[Any]:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: give the label of each image")
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        if len(labels) != images:
            raise ValueError(f"Found input variables with inconsistent numbers of samples: [{images}, {len(labels)}]")
        return np.asarray(labels)

    def _pixels(self, X: Any, *, fitting: bool) -> Images:
        if not fitting:
            check_is_fitted(self, "model_")
        known = None if fitting else self.model_.spec.image_shape
        if (files := files_among(X)) is not None:
            if fitting:
                self.scale_ = 1.0
            return pixels_of_files(files, known, self.image_size)
        if self.image_shape is not None:
            numbers = validate_data(self, X, reset=fitting, dtype="numeric", allow_nd=True, ensure_min_samples=1)
        else:
            numbers = check_array(X, dtype="numeric", allow_nd=True, ensure_2d=False, estimator=self)
        if numbers.min() < 0:
            raise DataError(  # begun as scikit-learn wants it
                f"Negative values in data: pixel values from {numbers.min():g} to {numbers.max():g} received; scale "
                "them to 0..255, or to 0..1"
            )
        if fitting:
            self.scale_ = scale_of(numbers)
        pixels = pixels_of_numbers(numbers, self.image_shape, self.scale_)
        if known is not None and pixels.shape[1:] != known:
            single = "; for a single image write [image]" * (numbers.shape in (known, known[:2]))
            raise ValueError(f"images of shape {pixels.shape[1:]} received, but it was fitted on {known}{single}")
        return pixels

    def _splits(self, pixels: Images, labels: npt.NDArray[np.int64]) -> Splits:
        names = tuple(str(position) for position in range(len(self.classes_)))
        every = ImageSet(np.ascontiguousarray(pixels), labels, names)
        share = HOLD_OUT if self.hold_out is None else self.hold_out
        if not 0 <= share < 1:
            raise ConfigError(f"hold_out = {share} received; it is a share from 0 to below 1")
        if share and some_can_be_held_out(labels):
            kept, held, _ = hold_out_together(every, share)
            # The trainer wants test images, and there are none here: it is shown the held-out ones.
            note = f"{NO_TEST}: these are the held-out ones, which it was calibrated on"
            return Splits("images", every.subset(kept), every.subset(held), every.subset(held), note)
        note = f"{NO_TEST}: these are training images"
        return Splits("images", every, every.subset(np.unique(labels, return_index=True)[1]), note=note)

    def _tried(
        self, paths: Sequence[str], labels: npt.NDArray[Any], settings: dict[str, Any], scratch: Path
    ) -> FinishedRun | None:
        """A training on files by the best of several ways; None where these are no photographs, or nothing is open."""
        listed, sources = write_table(paths, labels, scratch / "images.csv"), Sources()
        settings = settings | {"hold_out": self.hold_out, "image_size": self.image_size, "fold": ALL}
        config = RunSpec.from_json({**settings, "source": str(listed)}, origin="Classifier")
        if not open_ways(config, sources) or len(sources.listing(config).headers) < len(paths):
            return None
        self.scale_ = 1.0
        table = write_table(paths, labels, Path(settings["run_dir"]) / TRIALS / "images.csv")
        return self._trained(str(table), settings)

    def _trained(self, source: Splits | str, settings: dict[str, Any]) -> FinishedRun:
        minutes = self.minutes if self.method == AUTO or isinstance(source, str) else None
        try:
            return fit(source, minutes=minutes, **settings)
        except RunUnfinished:  # the same settings, cut short: it goes on, unless the images are others
            return resume(settings["run_dir"], splits=source if isinstance(source, Splits) else None)

    def _settings(self, folder: Path) -> dict[str, Any]:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        return {
            "method": self.method,
            "drw": self.drw,
            "options": dict(self.options or {}),
            "net": self.net,
            "epochs": self.epochs,
            "batch_size": self.batch_size,
            "lr": self.lr,
            "pretrained": self.pretrained,
            # What `_splits` holds out is a split of its own; left open, the trainer would hold out more.
            "hold_out": None if self.method == AUTO and self.hold_out != 0 else 0,
            "device": self.device,
            "seed": int(seed),
            "run_dir": str(folder),
        }

    def _prior(self, names: Sequence[str], counts: Sequence[int]) -> Prior | None:
        """The class frequencies that were asked for, or a ConfigError.

        Args:
            names: positions in `classes_`, in the order wanted.
            counts: training images of these classes.
        """
        if self.prior is None or (isinstance(self.prior, str) and self.prior in ("balanced", "train")):
            return read_prior(self.prior, names, counts)
        if not isinstance(self.prior, Mapping):
            raise ConfigError(f"prior = {self.prior!r:.80} received; accepted: 'balanced', 'train', a mapping or None")
        known = self.classes_.tolist()
        unknown = [label for label in self.prior if label not in known]
        missing = [label for label in known if label not in self.prior]
        if unknown or missing:
            raise ConfigError(
                f"prior for {', '.join(repr(label) for label in list(self.prior)[:10])} received, but the classes are "
                f"{', '.join(repr(label) for label in known[:10])}{' ...' * (len(known) > 10)}; give a number "
                "for each, 0 for a class that does not occur"
            )
        return prior_of({str(position): self.prior[label] for position, label in enumerate(known)}, names)


def some_can_be_held_out(labels: npt.NDArray[Any]) -> bool:
    """Whether two classes have images enough to set some aside."""
    return bool((np.bincount(labels) >= 4).sum() >= 2)

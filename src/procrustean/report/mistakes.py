"""Which classes are taken for which others, with pictures of such test images."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from procrustean.base.errors import ProcrusteanError
from procrustean.data.sources import is_named
from procrustean.records.finding_runs import CONFIG_FILE
from procrustean.records.groups import Group
from procrustean.records.run_record import Result, Selection

if TYPE_CHECKING:
    from procrustean.data.imageset import ImageSet, Splits
    from procrustean.engine.prepared_run import Prepared
    from procrustean.nets.classifier import Classifier


@dataclass(frozen=True)
class Confusion:
    """Test images of one class predicted as another, over all runs of a setting."""

    true: int
    predicted: int
    images: int
    of: int  # test images of the true class, over all runs

    @property
    def share(self) -> float:
        return self.images / self.of


def summed_confusion(group: Group, selection: Selection = "last") -> NDArray[np.int64] | None:
    """The confusion matrices of a setting added up, rows true classes; None where a run keeps none."""
    total = np.zeros((len(group.classes), len(group.classes)), dtype=np.int64)
    for result in group.results:
        metrics = result.metrics(selection)
        if metrics is None or metrics.confusion is None:
            return None
        total += np.array(metrics.confusion, dtype=np.int64)
    return total


def worst_confusions(matrix: NDArray[np.int64], number: int) -> list[Confusion]:
    """The confusions that take the largest share of a class, larger numbers of images first among equals.

    >>> worst_confusions(np.array([[8, 2], [5, 5]]), 1)
    [Confusion(true=1, predicted=0, images=5, of=10)]
    """
    of = matrix.sum(axis=1)
    wrong = matrix.copy()
    np.fill_diagonal(wrong, 0)
    pairs = [
        Confusion(int(true), int(predicted), int(wrong[true, predicted]), int(of[true]))
        for true, predicted in np.argwhere(wrong)
    ]
    return sorted(pairs, key=lambda pair: (-pair.share, -pair.images, pair.true, pair.predicted))[:number]


LARGEST_SIDE = 96  # pixels
BATCH = 250
MISTAKES = 24
#: What a run says of each of its test images.
PREDICTIONS = "predictions.csv"

Pair = tuple[int, int]  # true and predicted class


@dataclass(frozen=True)
class Examples:
    """Pictures by pair of classes, as data URIs, and the runs they are from; or the reason why there are none."""

    pictures: dict[Pair, list[str]] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Mistake:
    """A test image that is taken for another class."""

    file: str
    label: str
    answer: str
    probability: float  # of the answer
    loss: float
    picture: str = ""  # a data URI, where the image is found


def worst_mistakes(predictions: Path, number: int) -> list[Mistake]:
    """The test images with the largest loss among those that a run answers wrongly, by its predictions.csv."""
    if not predictions.is_file():
        return []
    with predictions.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        wrong = [
            Mistake(row["file"], row["label"], row["answer"], float(row["probability"]), float(row["loss"]))
            for row in csv.DictReader(file)
            if row["split"] == "test" and row["label"] != row["answer"]
        ]
    return sorted(wrong, key=lambda one: -one.loss)[:number]


class ExampleFinder:
    """Finds examples of confusions with the trained networks; data sets are loaded once, and never downloaded.

    Args:
        number: pictures per confusion.
        data_dir: where data sets are found; default as in training.
        say: called with one line of progress at a time.
    """

    def __init__(
        self, number: int, *, data_dir: Path | None = None, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.number, self.data_dir, self.say = number, data_dir, say
        self._load = lru_cache(maxsize=2)(_load_without_download)

    def find(self, group: Group, confusions: Sequence[Confusion]) -> Examples:
        """Examples from the first run of the group, and from the others where it has too few."""
        folders = [folder for result in group.results if (folder := _run_directory(result)) is not None]
        if not folders:
            return Examples(
                reason="The trained network is not beside the result, so which images were confused is not known."
            )
        found: dict[Pair, list[int]] = {(confusion.true, confusion.predicted): [] for confusion in confusions}
        used: list[str] = []
        for folder in folders:
            missing = {pair: known for pair, known in found.items() if len(known) < self.number}
            if not missing:
                break
            self.say(f"{group.label}: looking for examples with the network of {folder}")
            try:
                prepared, net = self._network(folder)
            except ProcrusteanError as error:
                return Examples(reason=f"The test images or the network of {folder.name} cannot be used: {error}")
            _add_confused(missing, net, prepared, self.number)
            used.append(folder.name)
        images = prepared.data.test.images if used else None
        pictures = {pair: [] if images is None else [picture(images[i]) for i in at] for pair, at in found.items()}
        return Examples(pictures, tuple(used))

    def mistakes(self, group: Group) -> list[Mistake]:
        """The test images of the first run that are wrong with the largest loss; none of data sets not a user's own."""
        folder = _run_directory(group.results[0])
        wrong = [] if folder is None else worst_mistakes(folder / PREDICTIONS, MISTAKES)
        splits = self.own_images(group) if wrong else None
        if splits is None:
            return wrong
        test = splits.test
        at = {name: row for row, name in enumerate(test.names or [f"image {row}" for row in range(len(test))])}
        return [replace(one, picture=picture(test.images[at[one.file]])) for one in wrong if one.file in at]

    def own_images(self, group: Group) -> Splits | None:
        """The images of the first run, if its source is the user's own and is found."""
        folder = _run_directory(group.results[0])
        if folder is None or is_named(group.config.source):
            return None
        from procrustean.runs.trials import with_likely

        try:
            return with_likely(self._images(folder), folder)
        except ProcrusteanError:
            return None

    def _images(self, folder: Path) -> Splits:
        from procrustean.records.run_folder import RunFolder
        from procrustean.runs.image_loading import source_settings

        directory, config, _ = RunFolder.open(folder)
        source = directory.beginning().source_path or config.source
        found_at = {"source": source, "data_dir": self.data_dir or config.data_dir}
        return self._load(**{**source_settings(config), **found_at})

    def _network(self, folder: Path) -> tuple[Prepared, Classifier]:
        from procrustean.runs.existing_runs import load_run

        return load_run(folder, splits=self._images(folder), anywhere=True, network_alone=True)


def picture(pixels: NDArray[np.uint8]) -> str:
    """An image [H, W, 1 or 3 channels] as a PNG in a data URI; large ones are made smaller."""
    from PIL import Image

    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    out = io.BytesIO()
    image.save(out, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode("ascii")


def _run_directory(result: Result) -> Path | None:
    if result.path is None:
        return None
    folder = result.path.parent
    return folder if all((folder / name).exists() for name in (CONFIG_FILE, "model.safetensors")) else None


def _load_without_download(**settings: Any) -> Splits:
    from procrustean.data.sources import load_source

    return load_source(**settings, download=False)


def _add_confused(found: dict[Pair, list[int]], net: Classifier, prepared: Prepared, number: int) -> None:
    """Add positions in the test set up to `number` of each pair; only images of their true classes are looked at."""
    test = prepared.data.test
    for true in dict.fromkeys(true for true, _ in found):
        wanted = [known for pair, known in found.items() if pair[0] == true]
        positions = np.flatnonzero(test.labels == true)
        for start in range(0, len(positions), BATCH):
            batch = [int(position) for position in positions[start : start + BATCH]]
            for position, predicted in zip(batch, _predicted(net, prepared, test.subset(batch)), strict=True):
                known = found.get((true, predicted))
                if known is not None and len(known) < number and position not in known:
                    known.append(position)
            if all(len(known) == number for known in wanted):
                break


def _predicted(net: Classifier, prepared: Prepared, images: ImageSet) -> list[int]:
    from procrustean.engine.evaluation import predictions

    store = prepared.stores().evaluation(images)
    # In float32 everywhere: the run may have been trained in a format that this machine computes slowly in.
    return [int(label) for scores, _ in predictions(net, store, None) for label in scores.argmax(1)]

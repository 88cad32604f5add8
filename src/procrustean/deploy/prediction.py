"""Classify image files: the most probable classes of each, as rows and as a CSV file."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from procrustean.base.errors import ConfigError, DataError
from procrustean.base.escaping import spreadsheet
from procrustean.base.files import expanded
from procrustean.data.folders import entries_of
from procrustean.data.image_files import (
    EMPTY_FILE,
    FORMATS,
    NOT_AN_IMAGE,
    SUFFIXES,
    ImageFile,
    Problems,
    decoded,
    headers,
)
from procrustean.deploy.cautions import cautions
from procrustean.deploy.model import Model
from procrustean.deploy.model_loading import load_model
from procrustean.deploy.thresholds import Levels, announced, joined, levels_of, read_levels
from procrustean.engine.probabilities import Prior, prior_of, read_prior

BATCH = 256


class Output(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object: ...


@dataclass(frozen=True)
class Prediction:
    """The most probable classes of an image, the first one predicted; or why it could not be read."""

    file: str
    classes: tuple[str, ...]
    probabilities: tuple[float, ...]
    problem: str = ""
    announced: tuple[str, ...] = ()  # classes that reach their thresholds, if there are any


def predict(
    model: str | Path | Model,
    paths: str | Path | Sequence[str | Path],
    *,
    prior: str | Mapping[str, float] | None = None,
    thresholds: str | Path | Mapping[str, float | None] | None = None,
    top: int = 3,
    batch_size: int = BATCH,
    device: str = "auto",
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Prediction]:
    """Classify image files and all images below folders, in order.

    Args:
        model: folder of a run or an export, or a loaded model.
        paths: of images and folders, or a single one.
        prior: class frequencies where the images come from: "balanced", "train", a .json or .csv file, or a mapping;
            by default those built into an export, else those that the network's scores stand for
            (`Calibration.own_prior`), with which the classes stay as it ranks them.
        thresholds: from which probability on each class is announced: a file of `procrustean thresholds`, which is
            refused if it was made with another prior, or a mapping, None for never.
        top: how many classes to name.
        batch_size: images at a time.
        device: "auto", "cpu" or "cuda".
        say: told what is worth knowing about the probabilities.
    """
    if top < 1 or batch_size < 1:
        raise ConfigError(f"top = {top} and batch_size = {batch_size} received; both are at least 1")
    loaded = model if isinstance(model, Model) else load_model(model, device=device)
    q = _prior(prior, loaded)
    for warning in cautions(loaded.spec.calibration, loaded.classes, loaded.prior if q is None else q):
        say(warning)
    levels = _levels(thresholds, loaded, q)
    files, passed_over = collect(paths)
    if passed_over:
        say(f"skipped, since they are no images: {passed_over} file{'s' * (passed_over > 1)}")
    return _predictions(loaded, files, q, levels, min(top, len(loaded.classes)), batch_size)


def write_predictions(
    rows: Iterator[Prediction], output: Output, top: int, *, announce: bool = False
) -> tuple[int, list[str]]:
    """Write a CSV file; returns how many images it holds and the names of those that could not be read.

    Args:
        rows: predictions.
        output: where the text goes.
        top: how many classes each names.
        announce: whether to add a column for the classes that reach their thresholds.
    """
    writer = csv.writer(output, lineterminator="\n")
    more = [name for rank in range(2, top + 1) for name in (f"class_{rank}", f"probability_{rank}")]
    writer.writerow(["file", "class", "probability", *more, *["announced"] * announce, "problem"])
    images, unread = 0, []
    for row in rows:
        images += 1
        pairs = [(spreadsheet(name), f"{p:.9g}") for name, p in zip(row.classes, row.probabilities, strict=True)]
        pairs += [("", "")] * (top - len(pairs))
        values = [value for pair in pairs for value in pair]
        values += [spreadsheet(joined(row.announced))] * announce
        writer.writerow([spreadsheet(row.file), *values, spreadsheet(row.problem)])
        if row.problem:
            unread.append(row.file)
    return images, unread


def _prior(prior: str | Mapping[str, float] | None, model: Model) -> Prior | None:
    if isinstance(prior, Mapping):
        return prior_of(prior, model.classes)
    return read_prior(prior, model.classes, model.spec.calibration.counts)


def _levels(
    thresholds: str | Path | Mapping[str, float | None] | None, model: Model, prior: Prior | None
) -> Levels | None:
    if thresholds is None:
        return None
    if isinstance(thresholds, Mapping):
        return levels_of(thresholds, model.classes)
    levels, made_for = read_levels(thresholds, model.classes)
    if made_for is not None and not np.allclose(made_for, model.frequencies(prior), rtol=1e-6, atol=1e-9):
        raise ConfigError(
            f"{thresholds}: thresholds for the class frequencies {_shares(made_for, model)} received, but the "
            f"probabilities asked for are for {_shares(model.frequencies(prior), model)}; give the --prior that they "
            "were made with, or make them again by procrustean thresholds"
        )
    return levels


def _shares(frequencies: Prior, model: Model) -> str:
    """The frequencies of the first classes, in words."""
    named = [f"{name} {share:.3g}" for name, share in zip(model.classes, frequencies, strict=True)]
    return ", ".join([*named[:5], *["..."] * (len(named) > 5)])


def _predictions(
    model: Model, files: Sequence[ImageFile], prior: Prior | None, levels: Levels | None, top: int, size: int
) -> Iterator[Prediction]:
    for start in range(0, len(files), size):
        part, bad = files[start : start + size], Problems()
        probabilities = model.probabilities(decoded(part, model.spec.image_shape, bad), prior, size)
        for file, p in zip(part, probabilities, strict=True):
            if file.name in bad:
                yield Prediction(file.name, (), (), bad[file.name])
                continue
            best = np.argsort(-p, kind="stable")[:top]
            names, shares = tuple(model.classes[c] for c in best), tuple(float(p[c]) for c in best)
            reached = () if levels is None else announced(p, levels, model.classes)
            yield Prediction(file.name, names, shares, announced=reached)


def collect(paths: str | Path | Sequence[str | Path]) -> tuple[list[ImageFile], int]:
    """The images at these paths, or at a single one, folders with all that is below them; and how many files are none.

    A file of a folder is an image if its content says so. What is neither that nor named like one is passed over and
    counted.
    """
    if isinstance(paths, str | os.PathLike):  # a text would be a sequence of letters
        paths = [paths]
    if "" in paths:  # it would be the current folder, with everything below it
        raise DataError("an empty path received; give image files, or folders with images")
    files: list[ImageFile] = []
    passed_over = 0
    for given in paths:
        path = expanded(given)
        if not path.exists():
            raise DataError(f"{given}: there is no such file or folder")
        if not path.is_dir():
            files.append(ImageFile(str(path), path, "", ""))
            continue
        below = [ImageFile(str(file), file, "", "") for file in _below(path)]
        unread: Problems = {}
        headers([file for file in below if Path(file.name).suffix.lower() not in SUFFIXES], unread)
        images = [file for file in below if unread.get(file.name) not in (NOT_AN_IMAGE, EMPTY_FILE)]
        files += images
        passed_over += len(below) - len(images)
    if not files:
        named = ", ".join(str(path) for path in paths)
        raise DataError(f"{named or 'no path'}: holds no images; known formats: {', '.join(FORMATS)}")
    return files, passed_over


def _below(root: Path) -> Iterator[Path]:
    """All files below a folder. Links are followed, but not to a folder that has been seen, or into or above `root`."""
    top = root.resolve()
    seen: set[Path] = set()
    waiting = entries_of(root)[::-1]
    while waiting:
        path = waiting.pop()
        if not path.is_dir():
            yield path
            continue
        place = path.resolve()
        leads_back = path.is_symlink() and (place.is_relative_to(top) or top.is_relative_to(place))
        if place not in seen and not leads_back:
            seen.add(place)
            waiting += entries_of(path)[::-1]

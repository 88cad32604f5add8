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
from procrustean.base.paths import expanded
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
from procrustean.data.imageset import Images
from procrustean.data.sources import TABLES
from procrustean.deploy.cautions import cautions
from procrustean.deploy.model import Model
from procrustean.deploy.model_loading import load_model
from procrustean.deploy.thresholds import Levels, announced, joined, levels_of, read_levels
from procrustean.engine.class_priors import prior_of, read_prior
from procrustean.engine.probabilities import Prior

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
    found = collect(paths)
    if found.passed_over:
        one = found.passed_over == 1
        files = "1 file that is no image was" if one else f"{found.passed_over} files that are no images were"
        say(f"{files} passed over")
    return _predictions(loaded, found, q, levels, min(top, len(loaded.classes)), batch_size)


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
    if made_for is not None and not _same(made_for, model.frequencies(prior)):
        raise ConfigError(
            f"{thresholds}: thresholds for the class frequencies {_shares(made_for, model)} received, but the "
            f"probabilities asked for are for {_shares(model.frequencies(prior), model)}; {_remedy(made_for, model)}"
        )
    return levels


def _remedy(made_for: Prior, model: Model) -> str:
    """What to do so that thresholds for these class frequencies can be applied."""
    flags = {
        "leave --prior out": model.frequencies(None),
        **{f"add --prior {name}": _prior(name, model) for name in ("balanced", "train")},
    }
    flag = next((text for text, frequencies in flags.items() if _same(made_for, frequencies)), None)
    if flag is None:
        flag = "give --prior the file that they were made with, if they are of this model"
    return f"{flag}, or make them again by procrustean thresholds"


def _same(one: Prior, other: Prior | None) -> bool:
    return other is not None and np.allclose(one, other, rtol=1e-6, atol=1e-9)


def _shares(frequencies: Prior, model: Model) -> str:
    """The frequencies of the first classes, in words."""
    named = [f"{name} {share:.3g}" for name, share in zip(model.classes, frequencies, strict=True)]
    return ", ".join([*named[:5], *["..."] * (len(named) > 5)])


def _predictions(
    model: Model, found: Collected, prior: Prior | None, levels: Levels | None, top: int, size: int
) -> Iterator[Prediction]:
    for part, pixels, bad in batches(found, model.spec.image_shape, size):
        probabilities = model.probabilities(pixels, prior, size)
        for file, p in zip(part, probabilities, strict=True):
            if file.name in bad:
                yield Prediction(file.name, (), (), bad[file.name])
                continue
            best = np.argsort(-p, kind="stable")[:top]
            names, shares = tuple(model.classes[c] for c in best), tuple(float(p[c]) for c in best)
            reached = () if levels is None else announced(p, levels, model.classes)
            yield Prediction(file.name, names, shares, announced=reached)


A_TABLE = "a table; give the images or folders themselves"


@dataclass(frozen=True)
class Collected:
    """Images that are to be classified, in order."""

    files: Sequence[ImageFile]
    bad: Problems  # what is wrong with some of them already
    passed_over: int  # files of folders that are no images, and do not end as if they were


def collect(paths: str | Path | Sequence[str | Path]) -> Collected:
    """The images at these paths, or at a single one, folders with all that is below them.

    A file of a folder is an image if its content says so. What is neither that nor named like one is passed over.
    """
    if isinstance(paths, str | os.PathLike):  # a text would be a sequence of letters
        paths = [paths]
    if not paths:
        raise DataError("no images to classify received; give image files, or folders with images, behind the model")
    files: list[ImageFile] = []
    bad: Problems = {}
    other = 0
    for given in paths:
        if given == "":  # it would be the current folder, with everything below it
            raise DataError("an empty path received; give image files, or folders with images")
        path = expanded(given)
        if path.is_dir():
            below = [ImageFile(str(file), file, "", "") for file in _below(path, bad)]
            unknown = [file for file in below if file.name not in bad and _suffix(file) not in SUFFIXES]
            unread: Problems = {}
            headers(unknown, unread)
            passed = {name for name, problem in unread.items() if problem in (NOT_AN_IMAGE, EMPTY_FILE)}
            files += [file for file in below if file.name not in passed]
            other += len(passed)
        elif path.exists():
            file = ImageFile(str(path), path, "", "")
            files.append(file)
            bad |= _table_by_its_name(file)
        else:
            raise DataError(f"{given}: there is no such file or folder")
    if not files:
        named = ", ".join(str(path) for path in paths)
        raise DataError(f"{named}: holds no images; known formats: {', '.join(FORMATS)}")
    return Collected(files, bad, other)


def batches(
    found: Collected, shape: tuple[int, int, int], size: int
) -> Iterator[tuple[Sequence[ImageFile], Images, Problems]]:
    """Files, their pixels and what is wrong with some of them, `size` at a time."""
    for start in range(0, len(found.files), size):
        part = found.files[start : start + size]
        bad: Problems = {file.name: found.bad[file.name] for file in part if file.name in found.bad}
        yield part, decoded(part, shape, bad), bad


def _table_by_its_name(file: ImageFile) -> Problems:
    """What to say of a table, which `train` takes as a source; nothing of an image that is only called like one."""
    if _suffix(file) not in TABLES:
        return {}
    unread: Problems = {}
    headers([file], unread)
    return {name: A_TABLE for name, problem in unread.items() if problem == NOT_AN_IMAGE}


def _suffix(file: ImageFile) -> str:
    return Path(file.name).suffix.lower()


def _below(root: Path, bad: Problems) -> Iterator[Path]:
    """All files below a folder. Each folder is looked into once: links that lead back to one go to `bad`."""
    top = root.resolve()
    seen = {_identity(top)}
    waiting = entries_of(root)[::-1]
    while waiting:
        path = waiting.pop()
        if not _is_folder(path):
            yield path
        elif _identity(path) in seen or (path.is_symlink() and _leads_back(path.resolve(), top)):
            bad[str(path)] = f"not followed: it leads back to {path.resolve()}"
            yield path
        else:
            seen.add(_identity(path))
            waiting += entries_of(path)[::-1]


def _leads_back(place: Path, top: Path) -> bool:
    """Whether a link is no way of its own, even if it comes before the folder that it leads to."""
    return place.is_relative_to(top) or top.is_relative_to(place)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a path that is too long, say: told as of any file that cannot be read
        return False

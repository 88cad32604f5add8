"""Everything worth knowing about a source before training on it, as text."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Literal

from procrustean.base.console import command_text, duration_text, number_of
from procrustean.base.errors import ConfigError, DataError
from procrustean.base.progress import Reporter
from procrustean.data.describe import printable
from procrustean.data.image_lists import check_classes
from procrustean.data.imageset import Splits
from procrustean.data.sources import is_named
from procrustean.data.survey import Survey, survey
from procrustean.engine.prepared_run import Prepared
from procrustean.records.run_spec import ADVISED, RunSpec
from procrustean.runs.advice import HOLD_OUT, planned, settings_at, size_to_load, trained_on, with_hold_out
from procrustean.runs.cost import BESIDE_STEPS, Machine, measured_speed, relative_to_erm, this_machine
from procrustean.runs.image_loading import Sources
from procrustean.runs.method_advice import MILD, advised
from procrustean.runs.preparing import (
    imbalanced,
    prepare,
)
from procrustean.runs.survey_text import (
    describe_advice,
    describe_problems,
    describe_refusal,
    describe_survey,
    time_text,
)
from procrustean.runs.training_advice import Settings
from procrustean.runs.ways import agenda, open_ways

#: With fewer test images of a class, folds are advised.
FEW_TESTED = 20


@dataclass(frozen=True)
class Inspection:
    """What there is to say about a source, and whether training would refuse it."""

    text: str
    refused: bool = False


def inspect_source(
    source: str,
    *,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    on_bad_image: Literal["error", "skip"] = "error",
    group: str | None = None,
    duplicates: bool = False,
    reporter: Reporter | None = None,
) -> Inspection:
    """Read all images and say what there is, what is wrong, and what is advised, or done with a known data set.

    Args:
        source: a folder, a table, a saved data set, a .npz file or a known data set.
        device: where one would train: "auto", "cpu" or "cuda".
        on_bad_image: whether one would train without the files that cannot be used.
        group: what images that belong together have in common.
        duplicates: whether all near-duplicates are to be named.
        reporter: told of the progress.
    """
    found = survey(source, group=group, reporter=reporter)
    lines = [*describe_survey(found), "", *describe_problems(found, on_bad_image, duplicates=duplicates)]
    if is_named(source) and found.splits is not None:
        return Inspection("\n".join([*lines, "", *describe_known(source, found.splits, this_machine(device))]))
    # Where something is wrong with the files, the way to go on without them is advised.
    leave_out = found.listing is not None and (on_bad_image == "skip" or bool(found.bad))
    skip: Literal["error", "skip"] = "skip" if leave_out else "error"
    config = RunSpec(source, method=ADVISED, device=device, on_bad_image=skip, group=group)
    try:
        expected = expectation(found, config, this_machine(device))
    except (ConfigError, DataError) as error:
        return Inspection("\n".join([*lines, "", *describe_refusal(str(error))]), refused=True)
    command = ["train", source, *["--on-bad-image", "skip"] * leave_out]
    command += [] if group is None else ["--group", group]
    refused = bool(found.bad) and on_bad_image == "error"
    sources = Sources(reporter)
    if found.listing is not None:
        sources.take(config, found.listing)
    if ways := open_ways(config, sources):
        told = agenda(config, ways, sources, None).text()
        lines += [*expected.notes, "", told, f"start with: {command_text(*command)}"]
        return Inspection("\n".join(lines), refused)
    settings, machine = expected.settings, expected.machine
    speed = measured_speed(settings.net, expected.channels, settings.size, settings.batch_size, machine.device)
    advice = advised(expected.trained)
    lines += [*expected.notes, "", *describe_advice(command, advice, expected.trained, settings, machine, speed)]
    return Inspection("\n".join(lines), refused)


@dataclass(frozen=True)
class Expectation:
    """What `procrustean train` with nothing else would do."""

    trained: list[int]  # images per class with training images, after what is set aside and held out
    notes: list[str]  # what would be set aside
    settings: Settings
    channels: int
    machine: Machine


def expectation(found: Survey, config: RunSpec, machine: Machine) -> Expectation:
    """What training would do with a source, by the code that it plans and splits with.

    Raises:
        DataError, ConfigError: what training would refuse it with.
    """
    if found.splits is None:
        raise DataError(found.refused)
    if found.listing is not None and config.on_bad_image == "error":
        check_classes(found.listing.files, found.listing.where)
    splits = found.splits
    config, _ = with_hold_out(config, splits.val is not None)
    trained = trained_on(config, splits)
    shape = splits.train.images.shape[1:]
    if found.listing is not None:
        _, size = size_to_load(found.listing, config, machine)
        shape = (size, size, 3)
    settings = settings_at(config, sum(trained), shape, machine)
    return Expectation(trained, _set_aside(found, splits, trained), settings, shape[2], machine)


def _set_aside(found: Survey, splits: Splits, trained: list[int]) -> list[str]:
    """What training would take away from the training images of a source."""
    notes = []
    if not found.has_test:
        test = splits.test.counts
        notes.append(f"no test images: {int(test.sum())} would be set aside, 20 % of each class")
        if test.min() < FEW_TESTED:
            notes.append(f"of a class {test.min()} only: train --folds 5 tests every image once instead")
        none = [c for c, n in zip(splits.test.classes, test, strict=True) if n == 0]
        notes += [f"too few different images to test on: {_some(none)}"] * bool(none)
    if not found.has_val:
        held = splits.train.counts - trained
        share = f"{100 * HOLD_OUT:g} % of each class, up to a quarter of small ones"
        notes.append(f"no validation images: {held.sum()} would be held out, {share}")
        none = [c for c, n in zip(splits.train.classes, held, strict=True) if n == 0]
        notes += [f"too few images to hold any out: {_some(none)}"] * bool(none)
    if notes:
        notes.insert(0, "")
        sizes = f"{max(trained)} to {min(trained)} per class"
        notes.append(f"{number_of(sum(trained), 'image')} would be trained on, {sizes}")
    return notes


def _some(names: list[str]) -> str:
    return ", ".join(map(printable, names[:5])) + " ..." * (len(names) > 5)


#: The ratio of most of the paper's tables, and the fewest images that it is made to leave of a class.
PAPERS_RATIO, FEWEST = 100, 5
#: Images per step that tell the speed of a CPU; whole batches of large images would take it minutes.
ENOUGH_ON_CPU = 32


def describe_known(source: str, splits: Splits, machine: Machine) -> list[str]:
    """What `procrustean train` does with a known data set, how long it takes, and how to make it imbalanced.

    Args:
        source: its name.
        splits: its images.
        machine: where it is trained.
    """
    device: Literal["cuda", "cpu"] = "cuda" if machine.device == "cuda" else "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that MFW changes nothing among equal classes is said below
        prepared = prepare(
            planned(RunSpec(source, method=ADVISED, device=device)).config, splits=splits, to_train=False
        )
    config, recipe, counts = prepared.config, prepared.recipe, [int(n) for n in prepared.data.counts]
    speed = _speed(prepared, machine) / relative_to_erm(config, device)
    lines = [
        "a known data set: train goes by its recipe, not by the number of images and the time",
        f"method: {config.method}, the default for known data sets; --method names another, procrustean list methods "
        "lists them",
        prepared.recipe_text(),
        f"expected time for all {sum(counts)} training images: "
        + time_text(recipe.epochs * sum(counts), machine, speed),
        f"start with: {command_text('train', source)}",
    ]
    if max(counts) >= MILD * min(counts):
        return lines
    made = replace(config, imbalance="step", rho=float(max(2, min(PAPERS_RATIO, max(counts) // FEWEST))))
    images = int(imbalanced(made, splits)[1].counts.sum())
    time = duration_text(BESIDE_STEPS * recipe.epochs * images / speed)
    command = command_text("train", source, "--imbalance", made.imbalance, "--rho", f"{made.rho:g}")
    return [
        *lines,
        f"its classes are near equal, which leaves {config.method} nothing to correct; --imbalance (step or "
        f"long_tailed) and --rho make it imbalanced. {number_of(images, 'image')}, about {time}: {command}",
    ]


def _speed(prepared: Prepared, machine: Machine) -> float:
    recipe, channels = prepared.recipe, prepared.data.train.images.shape[3]
    batch = recipe.batch_size if machine.device == "cuda" else min(recipe.batch_size, ENOUGH_ON_CPU)
    return measured_speed(recipe.net, channels, max(prepared.image_size), batch, machine.device)

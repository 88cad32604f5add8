"""Everything worth knowing about a source before training on it, as text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len, set_cell_size

from procrustean.balance.count_facts import imbalance_kind
from procrustean.base.console import command_text, duration_text, number_of
from procrustean.base.errors import ConfigError, DataError
from procrustean.base.progress import Reporter
from procrustean.data.describe import printable, some_names
from procrustean.data.duplicates import MOST_COMPARED
from procrustean.data.image_lists import NAMED_BY_INSPECT, OnBadImage, check_classes, counted, named, parted
from procrustean.data.imageset import Splits
from procrustean.data.sources import is_named
from procrustean.data.survey import Survey, survey
from procrustean.records.run_spec import ADVISED, RunSpec
from procrustean.runs.advice import HOLD_OUT, settings_at, size_to_load, trained_on, with_hold_out
from procrustean.runs.cost import CAUTION, Machine, this_machine
from procrustean.runs.image_loading import Sources
from procrustean.runs.method_advice import MILD, correction_text, with_correction
from procrustean.runs.training_advice import Settings
from procrustean.runs.ways import agenda, open_ways

NAMED = 5
_BAR = 30
_MOST_CLASSES = 60
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
    if is_named(source):
        return Inspection("\n".join([*lines, "", *describe_known(found)]))
    # Where something is wrong with the files, the way to go on without them is advised.
    leave_out = found.listing is not None and (on_bad_image == "skip" or bool(found.bad))
    skip: Literal["error", "skip"] = "skip" if leave_out else "error"
    config = RunSpec(source, method=ADVISED, device=device, on_bad_image=skip, group=group)
    sources = Sources(reporter)
    if found.listing is not None:
        sources.take(config, found.listing)
    ways = open_ways(config, sources) if found.splits is not None else ()
    try:
        # Where several ways are tried, images are held out for that alone.
        whole = replace(config, hold_out=0) if len(ways) > 1 else config
        expected = expectation(found, whole, this_machine(device))
    except (ConfigError, DataError) as error:
        refusal = "training refuses these images as they are, so there is nothing to advise yet:"
        return Inspection("\n".join([*lines, "", refusal, f"  {printable(str(error))}"]), refused=True)
    command = command_text("train", source, *["--on-bad-image", "skip"] * leave_out, *_given("--group", group))
    if ways:
        told = [agenda(config, ways, sources, None).text(), f"start with: {command}"]
    else:
        told = describe_advice(command, expected)
    return Inspection("\n".join([*lines, *expected.notes, "", *told]), bool(found.bad) and on_bad_image == "error")


def _given(flag: str, value: str | None) -> list[str]:
    return [] if value is None else [flag, value]


def describe_known(found: Survey) -> list[str]:
    """What training does with a known data set."""
    lines = [
        "a known data set: train goes by its recipe, which --dry-run shows",
        f"start with: {command_text('train', found.name)}",
    ]
    if max(found.train) < MILD * min(found.train):
        lines.append("its classes are near equal; --imbalance step or long_tailed, with --rho, makes it imbalanced")
    return lines


@dataclass(frozen=True)
class Expectation:
    """What `procrustean train` with nothing else would do."""

    trained: list[int]  # images per class with training images, after what is set aside and held out
    notes: list[str]  # what would be set aside
    settings: Settings
    config: RunSpec


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
    return Expectation(trained, _set_aside(found, splits, trained), settings, config)


def describe_advice(command: str, expected: Expectation) -> list[str]:
    """What to train with, why, and how long it takes."""
    settings = expected.settings
    return [
        f"advised {correction_text(with_correction(expected.config))}",
        f"advised settings: {settings.net} at {settings.size} x {settings.size} pixels, "
        f"{number_of(settings.epochs, 'epoch')} in batches of {settings.batch_size}",
        f"expected time: about {duration_text(settings.seconds)}, {CAUTION}",
        f"start with: {command}",
        f"or compare methods on held-out images: {command} --method auto --minutes 30",
    ]


def _set_aside(found: Survey, splits: Splits, trained: list[int]) -> list[str]:
    """What training would take away from the training images of a source."""
    notes = []
    if not found.has_test:
        test = splits.test.counts
        notes.append(f"no test images: {int(test.sum())} would be set aside, 20 % of each class")
        if test.min() < FEW_TESTED:
            notes.append(f"of a class {test.min()} only: train --folds 5 tests every image once instead")
        none = [c for c, n in zip(splits.test.classes, test, strict=True) if n == 0]
        notes += [f"too few different images to test on: {some_names(none)}"] * bool(none)
    held = splits.train.counts - trained
    if not found.has_val and held.any():
        share = f"{100 * HOLD_OUT:g} % of each class, up to a quarter of small ones"
        notes.append(f"no validation images: {held.sum()} would be held out, {share}")
        none = [c for c, n in zip(splits.train.classes, held, strict=True) if n == 0]
        notes += [f"too few images to hold any out: {some_names(none)}"] * bool(none)
    if notes:
        notes.insert(0, "")
        sizes = f"{max(trained)} to {min(trained)} per class"
        notes.append(f"{number_of(sum(trained), 'image')} would be trained on, {sizes}")
    return notes


def describe_survey(found: Survey) -> list[str]:
    """What there is."""
    total = sum(map(sum, found.counts.values()))
    splits = [name for name in ("train", "val", "test") if any(found.counts[name])]
    lines = [f"{printable(found.name)}: {number_of(total, 'image')} of {number_of(len(found.classes), 'class')} in "]
    lines[0] += ", ".join(splits)
    lines += ["", *_counts(found, splits), ""]
    present = [n for n in found.train if n]
    if len(present) > 1:
        lines.append(_imbalance(present))
    return [*lines, _shapes(found)]


def _imbalance(counts: list[int]) -> str:
    largest, smallest = max(counts), min(counts)
    kind = "mild" if largest / smallest < MILD else imbalance_kind(counts).replace("_", "-")
    meaning = {
        "mild": "the classes are near equal",
        "step": "two levels of class sizes",
        "long-tailed": "class sizes that fall off gradually",
    }[kind]
    return (
        f"training images: {sum(counts)}, {largest} of the largest class and {smallest} of the smallest, ratio "
        f"{largest / smallest:.4g}: {kind}, {meaning}"
    )


def describe_problems(found: Survey, on_bad_image: OnBadImage = "error", *, duplicates: bool = False) -> list[str]:
    """What is wrong with it, most of all what would make results too good.

    Args:
        found: the survey.
        on_bad_image: whether training is to leave out what cannot be used.
        duplicates: whether all near-duplicates are named, those within a class too.
    """
    lines: list[str] = []
    damaged, other = parted({printable(name): why for name, why in found.bad.items()})
    for what, bad, remedy in (
        ("cannot be used", damaged, "Remove or replace them"),
        ("no images, by their names neither", other, "Move them elsewhere"),
    ):
        refused = f"training refuses them. {remedy}, or leave them out with --on-bad-image skip"
        done = "left out" if on_bad_image == "skip" else refused
        lines += [f"{what}: {counted(bad)}; {done}:"] * bool(bad)
        lines += named(bad, NAMED_BY_INSPECT)
    if not found.bad:
        lines.append("broken files: none")
    lines += [f"few bits: {found.shallow}"] * bool(found.shallow)
    lines += _twin_lines(found, all_of_them=duplicates)
    lines += group_lines(found)
    empty = [c for c, n in zip(found.classes, found.train, strict=True) if n == 0]
    if empty:
        remedy = "add some, remove the class, or leave it out with --on-bad-image skip"
        done = "left out" if on_bad_image == "skip" else remedy
        lines.append(f"no training images of {', '.join(map(printable, empty[:NAMED]))}: {done}")
    return lines


def group_lines(found: Survey) -> list[str]:
    """What belongs together, or which column of the table may say so."""
    if found.listing is None:
        return []
    groups = {file.group for file in found.listing.files if file.group}
    if groups:
        return [f"groups: {len(groups)}; splits made here divide none of them"]
    likely = None if found.splits is None else found.splits.likely
    if likely is None:
        return []
    remedy = "a table with a column for --group"
    if likely.option:
        remedy = f"--group {shlex.quote(printable(likely.option))}"
    number = number_of(likely.number, "group")
    told = (
        f"probably belong together, by {likely.how}: {len(likely.of)} images in {number}. If they do, {remedy} keeps "
        "each group on one side of a split:"
    )
    return [told, *("  " + ", ".join(map(printable, images)) for images in likely.examples(NAMED))]


def _counts(found: Survey, splits: list[str]) -> list[str]:
    order = sorted(range(len(found.classes)), key=lambda c: -found.train[c])
    shown = order if len(order) <= _MOST_CLASSES else [*order[: _MOST_CLASSES // 2], *order[-_MOST_CLASSES // 2 :]]
    width = min(24, max(cell_len(printable(found.classes[c])) for c in shown))
    digits = max(6, *(len(str(max(found.counts[s]))) + 1 for s in splits))
    lines = [" " * width + "".join(f"{s:>{digits}}" for s in splits)]
    most = max(found.train) or 1
    for c in shown:
        numbers = "".join(f"{found.counts[s][c]:>{digits}}" for s in splits)
        bar = "█" * max(found.train[c] > 0, round(_BAR * found.train[c] / most))
        lines.append(f"{set_cell_size(printable(found.classes[c]), width)}{numbers} {bar}".rstrip())
    if len(shown) < len(order):
        lines.append(f"(the {len(shown) // 2} largest and the {len(shown) // 2} smallest of {len(order)} classes)")
    return lines


def _shapes(found: Survey) -> str:
    modes = ", ".join(f"{mode} {count}" for mode, count in found.modes.most_common())
    if len(found.sizes) == 1:
        width, height = next(iter(found.sizes))
        return f"all {width} x {height} pixels; colour modes: {modes}"
    widths, heights = zip(*found.sizes, strict=True)
    return (
        f"{_range(widths)} pixels wide and {_range(heights)} high, shorter side usually {found.side}; colour modes: "
        f"{modes}"
    )


def _range(numbers: Sequence[int]) -> str:
    return str(min(numbers)) if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"


def _twin_lines(found: Survey, *, all_of_them: bool) -> list[str]:
    what = "near-duplicates"
    if sum(map(sum, found.counts.values())) > MOST_COMPARED:
        what = f"equal images (nearly equal ones are looked for among {MOST_COMPARED:,} at most)"
    if not found.twins:
        return [f"{what}: none"]
    if found.too_dark:
        lines = [f"{what}: cannot be told, since {found.too_dark}"]
    else:
        images = sum(len(twins.names) for twins in found.twins)
        groups = number_of(len(found.twins), "group")
        lines = [f"{what}: {images} images in {groups}; splits made here keep them together"]
    told_apart = [twins for twins in found.twins if not found.too_dark]
    # Only equal pixels are a reason to remove an image, or to change its label.
    kinds = {
        "across splits: {}, the same image pixel for pixel, which makes test results too good; remove one side:": [
            twins for twins in found.twins if twins.copies_across
        ],
        "look alike across splits: {}. Look at them: those that are the same make test results too good:": [
            twins for twins in told_apart if twins.across and not twins.copies_across
        ],
        "contradicting labels: {} of the same image, pixel for pixel, in different classes; one can be right:": [
            twins for twins in found.twins if twins.copies_contradict
        ],
        "look alike in different classes: {}. Look at them before you change anything:": [
            twins for twins in told_apart if twins.contradict and not twins.copies_contradict
        ],
    }
    if all_of_them:
        within = [twins for twins in found.twins if not twins.across and not twins.contradict]
        alike = [twins for twins in within if not twins.copies and not found.too_dark]
        kinds["the same, pixel for pixel, in one class: {}:"] = [twins for twins in within if twins.copies]
        kinds["look alike in one class: {}:"] = alike
    for told, some in kinds.items():
        if some:
            lines.append(told.format(number_of(len(some), "group")))
            lines += _listed([twins.names for twins in some], all_of_them=all_of_them)
    return lines


def _listed(groups: Sequence[Sequence[str]], *, all_of_them: bool) -> list[str]:
    """Names of images, a line for each group."""
    most = max(map(len, groups)) if all_of_them else 4
    lines = ["  " + ", ".join(map(printable, names[:most])) + ", ..." * (len(names) > most) for names in groups]
    return lines if all_of_them or len(lines) <= NAMED else [*lines[:NAMED], f"  and {len(lines) - NAMED} more"]

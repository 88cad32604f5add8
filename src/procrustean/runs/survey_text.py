"""A survey in words: what there is, what is wrong with it, what is advised and why."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from procrustean.balance.count_facts import imbalance_kind
from procrustean.base.console import command_text, duration_text
from procrustean.data.describe import printable
from procrustean.data.duplicates import MOST_COMPARED
from procrustean.data.image_lists import NAMED_BY_INSPECT, OnBadImage, counted, named, parted
from procrustean.data.survey import Survey, Twins
from procrustean.runs.cost import BESIDE_STEPS, Machine
from procrustean.runs.method_advice import MILD, Advice
from procrustean.runs.training_advice import Settings

NAMED = 5
_BAR = 30
_MOST_CLASSES = 60


def number_of(number: int, what: str) -> str:
    """A number with what it counts.

    >>> number_of(1, "group"), number_of(3, "class")
    ('1 group', '3 classes')
    """
    return f"{number} {what}{('es' if what.endswith('s') else 's') * (number != 1)}"


def machine_text(machine: Machine) -> str:
    """The machine that one would train on, in words."""
    return "this GPU" if machine.device == "cuda" else f"this CPU with {number_of(machine.threads, 'thread')}"


def time_text(shown: int, machine: Machine, speed: float) -> str:
    """How long a training takes that shows so many images, by a speed that was measured there."""
    time = duration_text(BESIDE_STEPS * shown / speed)
    return f"about {time} on {machine_text(machine)}, at {speed:,.0f} images a second as of now"


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
    lines += [*_constant_guess(found), _shapes(found)]
    return lines


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


def describe_problems(found: Survey, on_bad_image: OnBadImage = "error") -> list[str]:
    """What is wrong with it, most of all what would make results too good.

    Args:
        found: the survey.
        on_bad_image: whether training is to leave out what cannot be used.
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
    lines += _twin_lines(found)
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


def describe_refusal(error: str) -> list[str]:
    """Why training is not possible, in place of advice."""
    return ["training refuses these images as they are, so there is nothing to advise yet:", f"  {printable(error)}"]


def describe_advice(
    command: Sequence[str], advice: Advice, trained: list[int], settings: Settings, machine: Machine, speed: float
) -> list[str]:
    """What to train with, why, and how long it takes.

    Args:
        command: that trains with nothing else.
        advice: the method.
        trained: images per class.
        settings: network, size, epochs and batch.
        machine: where it is trained.
        speed: images per second that were measured there.
    """
    drw = " --drw" * advice.choice.drw
    shown = settings.epochs * sum(trained)
    epochs = number_of(settings.epochs, "epoch")
    return [
        f"advised method: {advice.choice.method}{drw}, {advice.why}",
        f"advised settings: {settings.net} at {settings.size} x {settings.size} pixels, {epochs} in "
        f"batches of {settings.batch_size}{', from the pretrained weights in the cache' * settings.pretrained}",
        f"expected time: {time_text(shown, machine, speed)}",
        f"start with: {command_text(*command)}",
        f"or compare methods on held-out images: {command_text(*command, '--method', 'auto', '--minutes', 30)}",
    ]


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


def _constant_guess(found: Survey) -> list[str]:
    tested = found.counts["test"] if found.has_test else found.train
    largest = max(range(len(tested)), key=lambda c: found.train[c])
    classes = sum(n > 0 for n in tested)
    if classes < 2 or not tested[largest]:
        return []
    right, balanced = f"{100 * tested[largest] / sum(tested):.1f} %", f"{100 / classes:.1f} %"
    return [
        f"always answering {printable(found.classes[largest])!r} would be right for {right} of the "
        f"{'test ' * found.has_test}images, with a balanced accuracy of {balanced}"
        + ": judge by the latter"
        * (right != balanced)
    ]


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


def _twin_lines(found: Survey) -> list[str]:
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
    # Only equal pixels are a reason to remove an image, or to change its label.
    for told, some in (
        (
            "across splits: {}, the same image pixel for pixel, which makes test results too good; remove one side:",
            [twins for twins in found.twins if twins.copies_across],
        ),
        (
            "look alike across splits: {}. Look at them: those that are the same make test results too good:",
            [twins for twins in found.twins if twins.across and not twins.copies_across and not found.too_dark],
        ),
        (
            "contradicting labels: {} of the same image, pixel for pixel, in different classes; one can be right:",
            [twins for twins in found.twins if twins.copies_contradict],
        ),
        (
            "look alike in different classes: {}. Look at them before you change anything:",
            [twins for twins in found.twins if twins.contradict and not twins.copies_contradict and not found.too_dark],
        ),
    ):
        if some:
            lines += [told.format(number_of(len(some), "group")), *_named(some)]
    return lines


def describe_duplicates(found: Survey) -> list[str]:
    """All near-duplicates by name, those within a class too."""
    return [
        ("the same: " if twins.copies else "look alike: ") + ", ".join(map(printable, twins.names))
        for twins in found.twins
    ]


def _named(groups: list[Twins]) -> list[str]:
    lines = ["  " + ", ".join(map(printable, twins.names[:4])) + ", ..." * (len(twins.names) > 4) for twins in groups]
    return lines[:NAMED] + [f"  and {len(lines) - NAMED} more"] * (len(lines) > NAMED)

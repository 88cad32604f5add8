"""A survey in words: what there is, what is wrong with it, what is advised and why."""

from __future__ import annotations

from ..advice.cost import Machine
from ..advice.methods import MILD, advised
from ..advice.settings import Settings
from ..console import duration_text
from ..counts import imbalance_kind
from ..data.description import printable
from .survey import Survey, Twins

NAMED = 5
_BAR = 30
_MOST_CLASSES = 60


def describe_survey(found: Survey, trained: list[int]) -> list[str]:
    """What there is.

    Args:
        found: the survey.
        trained: images per class that would be trained on.
    """
    total = sum(map(sum, found.counts.values()))
    splits = [name for name in ("train", "val", "test") if any(found.counts[name])]
    lines = [f"{printable(found.name)}: {total} images of {len(found.classes)} classes in {', '.join(splits)}", ""]
    lines += _counts(found, splits)
    largest, smallest = max(trained), min(trained)
    ratio = largest / smallest if smallest else float("inf")
    kind = "mild" if ratio < MILD else imbalance_kind([n for n in trained if n]).replace("_", "-")
    meaning = {
        "mild": "the classes are near equal",
        "step": "two levels of class sizes",
        "long-tailed": "class sizes that fall off gradually",
    }[kind]
    lines += [
        "",
        f"training images: {sum(trained)}, {largest} of the largest class and {smallest} of the smallest, ratio "
        f"{ratio:.4g}: {kind}, {meaning}",
        _constant_guess(found, trained),
        _shapes(found),
    ]
    return lines


def describe_problems(found: Survey) -> list[str]:
    """What is wrong with it, most of all what would make results too good."""
    lines = []
    if found.bad:
        lines.append(f"broken: {len(found.bad)} files cannot be used; training will refuse them. Remove or replace:")
        lines += [f"  {printable(name)}: {found.bad[name]}" for name in sorted(found.bad)[:NAMED]]
        lines += [f"  and {len(found.bad) - NAMED} more"] * (len(found.bad) > NAMED)
    else:
        lines.append("broken files: none")
    lines += _twin_lines(found)
    empty = [c for c, n in zip(found.classes, found.train, strict=True) if n == 0]
    if empty:
        lines.append(f"no training images of {', '.join(map(printable, empty[:NAMED]))}: add some or remove the class")
    return lines


def describe_advice(source: str, trained: list[int], settings: Settings, machine: Machine, speed: float) -> list[str]:
    """What to train with, why, and how long it takes."""
    advice = advised(trained)
    drw = " --drw" * advice.choice.drw
    seconds = settings.epochs * sum(trained) / speed
    where = "this GPU" if machine.device == "cuda" else f"this CPU with {machine.threads} thread(s)"
    return [
        f"advised method: {advice.choice.method}{drw}, {advice.why}",
        f"advised settings: {settings.net} at {settings.size} x {settings.size} pixels, {settings.epochs} epochs in "
        f"batches of {settings.batch_size}{', from the pretrained weights in the cache' * settings.pretrained}",
        f"expected time: about {duration_text(1.2 * seconds)} on {where}, at {speed:,.0f} images a second as of now",
        f"start with: procrustean train {source}",
        f"or compare methods on held-out images: procrustean train {source} --method auto --minutes 30",
    ]


def _counts(found: Survey, splits: list[str]) -> list[str]:
    order = sorted(range(len(found.classes)), key=lambda c: -found.train[c])
    shown = order if len(order) <= _MOST_CLASSES else [*order[: _MOST_CLASSES // 2], *order[-_MOST_CLASSES // 2 :]]
    width = min(24, max(len(found.classes[c]) for c in shown))
    digits = max(6, *(len(str(max(found.counts[s]))) + 1 for s in splits))
    lines = [" " * width + "".join(f"{s:>{digits}}" for s in splits)]
    most = max(found.train) or 1
    for c in shown:
        numbers = "".join(f"{found.counts[s][c]:>{digits}}" for s in splits)
        bar = "█" * max(1, round(_BAR * found.train[c] / most))
        lines.append(f"{printable(found.classes[c])[:width]:{width}}{numbers} {bar}")
    if len(shown) < len(order):
        lines.append(f"(the {len(shown) // 2} largest and the {len(shown) // 2} smallest of {len(order)} classes)")
    return lines


def _constant_guess(found: Survey, trained: list[int]) -> str:
    tested = found.counts["test"] if found.has_test else found.train
    largest = max(range(len(trained)), key=lambda c: trained[c])
    accuracy = tested[largest] / sum(tested)
    classes = sum(n > 0 for n in tested)
    return (
        f"always answering {printable(found.classes[largest])!r} would be right for {100 * accuracy:.1f} % of the "
        f"images, with a balanced accuracy of {100 / classes:.1f} %: judge by the latter"
    )


def _shapes(found: Survey) -> str:
    modes = ", ".join(f"{mode} {count}" for mode, count in found.modes.most_common(4))
    if len(found.sizes) == 1:
        width, height = next(iter(found.sizes))
        return f"all {width} x {height} pixels; colour modes: {modes}"
    widths, heights = zip(*found.sizes, strict=True)
    return (
        f"{min(widths)} x {min(heights)} to {max(widths)} x {max(heights)} pixels, shorter side usually {found.side}; "
        f"colour modes: {modes}"
    )


def _twin_lines(found: Survey) -> list[str]:
    if not found.twins:
        return ["near-duplicates: none"]
    images = sum(len(twins.names) for twins in found.twins)
    lines = [f"near-duplicates: {images} images in {len(found.twins)} groups; splits made here keep them together"]
    across = [twins for twins in found.twins if twins.across]
    if across:
        lines.append(f"across splits: {len(across)} groups, which make test results too good; remove one side:")
        lines += _named(across)
    contradicting = [twins for twins in found.twins if twins.contradict]
    if contradicting:
        lines.append(f"contradicting labels: {len(contradicting)} groups of the same image in different classes:")
        lines += _named(contradicting)
    return lines


def _named(groups: list[Twins]) -> list[str]:
    lines = ["  " + ", ".join(map(printable, twins.names[:4])) + ", ..." * (len(twins.names) > 4) for twins in groups]
    return lines[:NAMED] + [f"  and {len(lines) - NAMED} more"] * (len(lines) > NAMED)

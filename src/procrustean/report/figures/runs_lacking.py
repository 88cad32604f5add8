"""Runs that lack what a figure shows, told apart from those that have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from procrustean.engine.stored_features import kept_epochs
from procrustean.records.run_record import Result, place_of
from procrustean.report.figures.option import lack_of

#: The figures of what is measured along the training, and those of features that a run has kept.
OF_MEASUREMENTS = ("progress", "gradients", "deviation", "bars", "tsne")
OF_FEATURES = ("tsne", "plane")


def with_what_it_shows(
    name: str, results: Sequence[Result], say: Callable[[str], None], over: str | None = None
) -> list[Result]:
    """The runs that have what a figure shows; all of them where none has it, and drawing them says what to do.

    Args:
        name: of the figure.
        results: finished runs.
        say: told which runs are left out, and how they could be drawn.
        over: the option along which `option` is drawn.
    """
    having: list[Result] = []
    lacking: dict[str, list[Result]] = {}
    for result in results:
        what = _lack(name, result) if over is None else lack_of(result, over)
        (lacking.setdefault(what, []) if what else having).append(result)
    if not having:
        return list(results)
    for what, left_out in lacking.items():
        say(f"left out {', '.join(map(place_of, left_out))}: {what}")
    return having


def _lack(name: str, result: Result) -> str:
    """What keeps a run out of a figure, and what to do about it; empty where nothing does."""
    if name in OF_MEASUREMENTS and not result.record.get("probes"):
        return "not measured in training; to measure the weights they have kept, from here: procrustean diagnose RUN"
    if name in OF_FEATURES and (result.path is None or not kept_epochs(result.path.parent)):
        return "no features kept; training with --probes keeps those of the last epoch"
    return ""

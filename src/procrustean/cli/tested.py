"""What `evaluate` and `adjust` share: the metrics that their tables show, and the file with all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import RunError

#: Said below a table with groups.
ABOUT_GROUPS = "groups of classes are mean recalls"


def main_metrics(metrics: dict[str, Any]) -> dict[str, float]:
    """What a summary shows by its headings; groups of classes where they part the classes."""
    from ..report.tables import FEWEST_CLASSES_FOR_MANY_MEDIUM_FEW

    found = {"accuracy": metrics["accuracy"], "balanced accuracy": metrics["balanced_accuracy"]}
    kinds: list[tuple[str, ...]] = [("major", "minor")]
    if len(metrics["recall"]) >= FEWEST_CLASSES_FOR_MANY_MEDIUM_FEW:
        kinds.append(("many", "medium", "few"))
    for kind in kinds:
        groups = {name: metrics["groups"][name] for name in kind if metrics["groups"][name] is not None}
        found |= groups if len(groups) > 1 else {}
    return {**found, "macro-F1": metrics["macro_f1"]}


def percent(value: float) -> str:
    """As the tables show a metric; their title says that it is in %."""
    return f"{100 * value:.1f}"


def refuse_inside(run: Path, output: Path | None) -> None:
    """RunError for a file inside the run, whose folder holds what training left, and nothing else."""
    if output is not None and output.resolve().is_relative_to(run.resolve()):
        raise RunError(f"{output} is inside the run {run}, which stays as it is; give another place")


def write_metrics(output: Path | None, text: str) -> None:
    """Write all metrics into a file, where one was asked for."""
    if output is None:
        return
    try:
        output.write_text(text + "\n")
    except OSError as error:
        raise RunError(f"cannot write {output} ({error.strerror})") from error

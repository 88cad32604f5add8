"""What `evaluate` and `adjust` share: the metrics that their tables show, and the file with all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from procrustean.cli.outputs import write_metrics

if TYPE_CHECKING:
    from procrustean.base.table_formats import Table

#: Said below a table with groups.
ABOUT_GROUPS = "groups of classes are mean recalls"


def main_metrics(metrics: dict[str, Any]) -> dict[str, float]:
    """What a summary shows by its headings; groups of classes where they part the classes."""
    from procrustean.report.tables import FEWEST_CLASSES_FOR_MANY_MEDIUM_FEW

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


def write_tested(table: Table, text: str, *, as_json: bool, output: Path | None) -> None:
    """Write the table to the terminal, or all metrics in its place, and these into a file where one was asked for.

    Args:
        table: the main metrics.
        text: all metrics, as JSON.
        as_json: print them instead of the table.
        output: the file.
    """
    from procrustean.base.console import write_result

    if output is not None:
        write_metrics(output, text)
    if as_json:
        write_result(text)
    else:
        write_result(table, *([f"All metrics: {output}"] if output is not None else []))

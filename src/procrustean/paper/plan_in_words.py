"""A plan in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from procrustean.base.console import duration_text, number_of
from procrustean.base.table_formats import Table, table_of
from procrustean.paper.definitions import Cell as Place
from procrustean.paper.planning import Plan, PlannedRun, absent_data
from procrustean.runs.cost import GUESSED_IMAGES, predicted_seconds

_STATE = {"done": "done", "begun": "begun", "waiting": "to do", "failed": "failed"}


def plan_table(plan: Plan) -> Table:
    """A line per cell: its seeds with their state, or the cell whose runs it shares, and the images of a run."""
    groups: dict[tuple[Place, str], list[PlannedRun]] = {}
    for run in plan.runs:
        for cell in run.cells:
            groups.setdefault((cell, run.held_out), []).append(run)
    rows = []
    for (cell, held_out), runs in groups.items():
        images = "unknown" if runs[0].images is None else images_text(runs[0].images)
        rows.append((cell.table, cell.row + held_out, cell.column, _seeds_text(cell, runs), images))
    words = {"table": "table", "row": "row", "column": "column", "seeds": "seeds"}
    seeds = {run.config.seed for run in plan.runs}
    order = "within a table seed by seed, cells in this order" if len(seeds) > 1 else "in the order of training"
    return table_of(f"Plan, {order}", {**words, "images": "images a run"}, rows, words=words)


def _seeds_text(cell: Place, runs: Sequence[PlannedRun]) -> str:
    """The seeds with their state, told once of cells that have their runs in common."""
    first = runs[0].cells[0]
    if cell == first:
        return ", ".join(f"{run.config.seed} {_STATE[run.state]}" for run in runs)
    beside = (cell.table, cell.column) == (first.table, first.column)
    return f"same run{'s' * (len(runs) > 1)} as {first.row if beside else first.place}"


def images_text(images: int) -> str:
    """A number of images, in millions where there are any.

    >>> images_text(11_165_400), images_text(21_600)
    ('11.2 million', '21,600')
    """
    return f"{images:,}" if images < 1e6 else f"{images / 1e6:,.1f} million"


def plan_text(plan: Plan, *, rate: float, width: int, machine: str) -> str:
    """What is left of the plan and what it comes to, and which runs have failed."""
    remaining = plan.remaining
    done, begun, failed = (len(plan.in_state(state)) for state in ("done", "begun", "failed"))
    lines = [
        f"{number_of(len(plan.runs), 'run')}: {done} done, {begun} begun, {len(plan.in_state('waiting'))} to do"
        + (f", {failed} failed (--retry tries them again)" if failed else "")
    ]
    if remaining:
        lines.append(_time_text(remaining, rate=rate, width=width, machine=machine))
    for run in plan.in_state("failed"):
        lines.append(f"failed: {plan.errors[run.config.hash]}")
    return "\n".join(lines)


def _time_text(runs: Sequence[PlannedRun], *, rate: float, width: int, machine: str) -> str:
    here = duration_text(predicted_seconds([run.cost * run.to_do for run in runs], rate, width))
    return f"{_images_to_train_on(runs)}, about {here} here ({machine}, {width} at a time)"


def _images_to_train_on(runs: Sequence[PlannedRun]) -> str:
    known = [round(run.images * run.to_do) for run in runs if run.images is not None]
    unknown = len(runs) - len(known)
    guessed = f"{number_of(unknown, 'run')} on an unknown number of images, taken for {GUESSED_IMAGES:,} an epoch"
    parts = [f"{images_text(sum(known))} images to train on"] * bool(known) + [guessed] * bool(unknown)
    return " and ".join(parts)


def absence_lines(plan: Plan, data_dir: Path | None, *, rate: float, width: int, machine: str) -> list[str]:
    """Data sets of the plan that are not on this machine, and what can be trained without them."""
    sources = dict.fromkeys(run.config.source for run in plan.remaining)
    absent = {source: reason for source in sources if (reason := absent_data(source, data_dir)) is not None}
    here = [run for run in plan.remaining if run.config.source not in absent]
    without = f"without {' and '.join(absent)}: {len(here)} of {len(plan.remaining)} runs, "
    if absent and here:
        return [*absent.values(), without + _time_text(here, rate=rate, width=width, machine=machine)]
    return list(absent.values())


def blocked_lines(plan: Plan) -> list[str]:
    """What cannot be trained here, and why."""
    lines = []
    for reason, cells in plan.blocked.items():
        tables = ", ".join(dict.fromkeys(cell.table for cell in cells))
        lines.append(f"left out: {number_of(len(cells), 'cell')} of {tables}: {reason}")
    return lines

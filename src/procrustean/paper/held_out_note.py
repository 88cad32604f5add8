"""What is said below a table about its held-out column: which images the runs behind it do not train on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from procrustean.paper.comparison import STAND_IN, Beside
from procrustean.paper.held_out import HeldOutRuns
from procrustean.records.run_spec import RunSpec
from procrustean.runs.training_sizes import training_counts


def held_out_note(cells: Sequence[Beside]) -> str:
    """Which images the runs of the held-out column did not train on; empty without such runs."""
    kinds: dict[tuple[str, float, str], list[Beside]] = {}
    for cell in cells:
        runs = cell.held_out_by
        if cell.held_out is not None and runs.config is not None and runs.config.hold_out:
            kind = _whose(cell.cell.config(), runs), runs.config.hold_out, _cut_from(runs.config)
            kinds.setdefault(kind, []).append(cell)
    in_order = sorted(kinds.items(), key=lambda item: item[0])
    return " ".join(_sentence(*kind, alike, _rows(alike, cells)) for kind, alike in in_order)


def _whose(config: RunSpec, runs: HeldOutRuns) -> str:
    """Whose runs hold images out: those of the held-out column, or all of a row, which may choose tau by them."""
    if not config.hold_out:
        return "stand-in" if runs.stand_in else "column"
    return "row with tau" if config.method == "tau_norm" else "row"


def _cut_from(config: RunSpec) -> str:
    """What held-out images are taken from, as the end of a phrase."""
    if config.imbalance == "natural":
        return " of the training set"
    from_source = config.hold_out_from == "source"
    return ", cut from the source before it is made imbalanced" if from_source else " of the imbalanced set"


def _rows(alike: Sequence[Beside], cells: Sequence[Beside]) -> str:
    """Rows that hold the same out, with their columns where they do not in all that have been measured."""
    columns: dict[str, list[str]] = {}
    for cell in alike:
        columns.setdefault(cell.cell.row, []).append(cell.cell.column)
    texts = []
    for row, own in columns.items():
        everywhere = all(cell.cell.column in own for cell in cells if cell.cell.row == row and cell.seeds)
        texts.append(row if everywhere else f"{row} in {' and '.join(own)}")
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _sentence(whose: str, hold_out: float, cut_from: str, cells: Sequence[Beside], rows: str) -> str:
    share, number = f"{100 * hold_out:g} % of each class", f"{hold_out} image{'s' * (hold_out != 1)} per class"
    taken = f"{share if hold_out < 1 else number}{cut_from},"
    text = {
        "row with tau": f"All runs of {rows} train without {taken} on which tau is chosen",
        "row": f"All runs of {rows} train without {taken} on which the epoch of the held-out column is chosen",
        "column": f"The runs of the held-out column train without {taken} on which they choose the epoch",
        "stand-in": f"Numbers with a {STAND_IN} are of runs of other tables, which train without {taken} on which they "
        "choose the epoch, so on fewer images than the runs beside them",
    }[whose]
    fewer = _fewer(cells)
    return f"{text}; their smallest class has {fewer}." if fewer else f"{text}."


def _fewer(cells: Sequence[Beside]) -> str:
    """How many images of the smallest class are left of how many, by column where it is not the same in all."""
    columns: dict[tuple[int, int], list[str]] = {}
    for cell in cells:
        pair, column = _smallest_classes(cell), cell.cell.column
        if pair is not None and pair[0] < pair[1] and column not in columns.get(pair, ()):
            columns.setdefault(pair, []).append(column)
    texts = [
        f"{left} images instead of {whole}" + (f" in {' and '.join(names)}" if len(columns) > 1 else "")
        for (left, whole), names in columns.items()
    ]
    return ", ".join(texts)


def _smallest_classes(cell: Beside) -> tuple[int, int] | None:
    """Images of the smallest class with and without some held out; None where only the images would tell."""
    config = cell.held_out_by.config
    if config is None:
        return None
    left, whole = training_counts(config), training_counts(replace(config, hold_out=0))
    return None if left is None or whole is None else (min(left), min(whole))

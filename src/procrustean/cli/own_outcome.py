"""What a training on own images ends with: its results class by class, and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from procrustean.base.console import command_text

if TYPE_CHECKING:
    from procrustean.base.table_formats import Table
    from procrustean.records.run_record import RunRecord

#: With more classes the ones that are recognised worst are shown.
MOST_CLASSES = 30
#: Of a class with fewer test images little is known; folds make test images of all.
FEW_TESTED, SET_ASIDE = 20, "set aside as test"
#: A network that gets fewer of its own training images right has more to learn from them.
UNDER_TRAINED = 0.8


def show_own(record: RunRecord, kept: Path, say: Callable[[str], None]) -> None:
    """Write the results of a run on own images class by class, and say what to do with it; nothing for known data sets.

    Args:
        record: of the run.
        kept: the folder of the run, or of the comparison it was chosen by.
        say: called with what to do next.
    """
    from procrustean.base.console import write_result
    from procrustean.data.sources import is_named

    if is_named(record.config.source):
        return
    write_result("")
    write_result(class_table(record))
    for line in headline_lines(record):
        write_result(line)
    say(next_commands(kept, calibrated=record.calibration is not None))


def show_folds(final: RunRecord, folder: Path, say: Callable[[str], None]) -> None:
    """Write what the folds have measured together, class by class, and what to do with the network that has seen all.

    Args:
        final: record of the run on all images.
        folder: of the folds.
        say: called with what to do next.
    """
    from procrustean.base.console import write_result
    from procrustean.records.folds import read_folds
    from procrustean.report.uncertainty import pooled_lines, pooled_table

    folded = read_folds(folder)
    assert folded is not None
    assert folded.pooled is not None
    write_result(pooled_table(folded.pooled))
    for line in pooled_lines(folded.pooled):
        write_result(line)
    say(next_commands(folder, calibrated=final.calibration is not None))


def headline_lines(record: RunRecord) -> list[str]:
    """The headline with its interval, on how few images it rests, and why it may be too good."""
    from procrustean.report.uncertainty import interval_text

    measures = record.image_measures
    if measures is None:
        return []
    told = [interval_text(record), *(f"caution: {caution}" for caution in measures.cautions)]
    if measures.fewest_images < FEW_TESTED and SET_ASIDE in record.data.note:
        told.append("few test images: --folds 5 tests every image once, by a network that was not trained on it")
    if (trained := measures.training_accuracy) is not None and trained < UNDER_TRAINED:
        epochs, side = record.recipe.epochs, max(record.data.image_shape[:2])
        more = f"longer (--epochs {3 * epochs}), on larger images (--image-size, now {side})"
        if record.config.tune == "head":
            more = "more than a head (--tune all, with --pretrained published and the same --net)"
        told.append(
            f"under-trained: the network gets {100 * trained:.1f} % of its own training images right (balanced). Train "
            f"{more} or with a larger --net"
        )
    return told


def class_table(record: RunRecord) -> Table:
    """Training and test images, recall and precision of every class after the last epoch, of many the worst.

    Args:
        record: of the run.
    """
    from procrustean.records.groups import Group
    from procrustean.records.run_record import Result
    from procrustean.report.class_tables import by_class

    table = by_class(Group((Result(record),)))
    if len(table.rows) <= MOST_CLASSES:
        return table
    recalls = [2.0 if value is None else value for value in record.selections.last.metrics.recall]
    worst = sorted(sorted(range(len(recalls)), key=recalls.__getitem__)[:MOST_CLASSES])
    fewer = f"The {MOST_CLASSES} classes of {len(recalls)} with the lowest recall."
    return replace(table, rows=tuple(table.rows[c] for c in worst), note=f"{fewer} {table.note}")


def next_commands(run: Path, *, calibrated: bool) -> str:
    """What one does with a trained network.

    Args:
        run: its folder, or that of a comparison.
        calibrated: whether there were held-out images, which thresholds are counted on.
    """
    commands = [command_text("report", run), command_text("predict", run, "IMAGES", "--output", "predictions.csv")]
    if calibrated:
        commands.append(command_text("thresholds", run, "--precision", 0.95))
    commands.append(command_text("export", run))
    return "\n  ".join(["next, with files or folders for IMAGES:", *commands])

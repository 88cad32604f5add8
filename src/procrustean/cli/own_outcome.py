"""What a training on own images ends with: its results class by class, and what to do next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..console import command_text

if TYPE_CHECKING:
    from ..report.formats import Table

#: With more classes the ones that are recognised worst are shown.
MOST_CLASSES = 30


def show_own(result: dict[str, Any], kept: Path, say: Callable[[str], None]) -> None:
    """Write the results of a run on own images class by class, and say what to do with it; nothing for known data sets.

    Args:
        result: what result.json holds.
        kept: the folder of the run, or of the comparison it was chosen by.
        say: called with what to do next.
    """
    from ..data.sources import is_named
    from ..streams import write_result

    if is_named(result["config"]["source"]):
        return
    write_result("")
    write_result(class_table(result))
    say(next_commands(kept, calibrated=result["calibration"] is not None))


def class_table(result: dict[str, Any]) -> Table:
    """Training and test images, recall and precision of every class after the last epoch, the smallest class last.

    Args:
        result: what result.json holds.
    """
    from ..report.formats import NOTHING, Cell, Column, Table

    metrics, data = result["selections"]["last"]["metrics"], result["data"]
    confusion = metrics.get("confusion")
    tested = [NOTHING if confusion is None else str(sum(confusion[c])) for c in range(len(data["classes"]))]

    def percent(value: float | None) -> str:
        return NOTHING if value is None else f"{100 * value:.1f}"

    shown = list(range(len(data["classes"])))
    if len(shown) > MOST_CLASSES:
        recalls = [2.0 if value is None else value for value in metrics["recall"]]
        shown = sorted(sorted(shown, key=lambda c: recalls[c])[:MOST_CLASSES])
    rows = [
        (data["classes"][c], str(data["counts"][c]), tested[c], metrics["recall"][c], metrics["precision"][c])
        for c in shown
    ]
    fewer = f"The {MOST_CLASSES} classes of {len(tested)} with the lowest recall. " * (len(shown) < len(tested))
    return Table(
        title="Test results by class in %, last epoch",
        columns=(
            Column("class", "class", numeric=False),
            Column("train_images", "training images"),
            Column("test_images", "test images"),
            Column("recall", "recall"),
            Column("precision", "precision"),
        ),
        rows=tuple(
            tuple(map(Cell, (name, trained, test, percent(recall), percent(precision))))
            for name, trained, test, recall, precision in rows
        ),
        note=f"{fewer}Recall: the share of a class that is found. Precision: the share of the answers with this class "
        "that are right.",
    )


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

"""Results as tables: of finished runs side by side, and class by class of a training on own images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from procrustean.base.console import command_text, write_result
from procrustean.base.errors import RunError
from procrustean.base.table_formats import Table, to_csv, to_latex, to_markdown
from procrustean.cli.given_runs import finished_results
from procrustean.cli.outputs import check_output, write_table
from procrustean.records.finding_runs import RESULT_FILE

if TYPE_CHECKING:
    from procrustean.records.run_record import Result, RunRecord

Format = Literal["table", "markdown", "csv", "latex"]
Kind = Literal["summary", "per_class", "intervals"]

#: With more classes the ones that are recognised worst are shown.
MOST_CLASSES = 30
#: Of a class with fewer test images little is known; folds make test images of all.
FEW_TESTED, SET_ASIDE = 20, "set aside as test"
#: A network that gets fewer of its own training images right has more to learn from them.
UNDER_TRAINED = 0.8


def show(runs: Sequence[Path], *, form: Format = "table", kind: Kind = "summary", output: Path | None = None) -> int:
    """Write the comparison of runs to the terminal or a file: one table, and one for each choice of classes.

    A CSV file is one table, whose first columns tell them apart. Returns the exit code, as `readable_runs` does.
    """

    if output is not None:
        check_output(output)
    results, code = finished_results(runs)
    tables = comparisons_of(results, kind=kind, in_one=form == "csv")
    if form == "table" and output is None:
        write_result(*tables)
        return code
    written = {"table": to_markdown, "markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form]
    text = "\n".join(written(table) for table in tables)
    if output is None:
        write_result(text.rstrip("\n"))
    else:
        write_table(output, text)
    return code


def comparisons_of(results: Sequence[Result], *, kind: Kind = "summary", in_one: bool = False) -> list[Table]:
    """Results as tables, one for each choice of classes unless they are wanted in one."""
    from procrustean.records.groups import by_options, group_results, split_by_choice_of_classes
    from procrustean.report.class_tables import per_class
    from procrustean.report.comparison_table import comparison
    from procrustean.report.own_image_tables import intervals

    if kind == "intervals":
        found = intervals(results)
        if found is None:
            raise RunError("none of these runs has an interval, which those on images of one's own have")
        return [found]
    groups = by_options(group_results(results))
    if kind == "per_class":
        return [per_class(groups)]
    parts = [groups] if in_one or not groups else split_by_choice_of_classes(groups)
    return [comparison(part) for part in parts]


def show_own(record: RunRecord, kept: Path, say: Callable[[str], None]) -> None:
    """Write the results of a run on own images class by class, and say what to do next; nothing for known data sets."""
    from procrustean.data.sources import is_named
    from procrustean.records.run_record import Result
    from procrustean.report.own_image_tables import trials_table

    if is_named(record.config.source):
        return
    if tried := trials_table([Result(record, kept / RESULT_FILE)]):
        write_result("")
        write_result(tried)
    write_result("")
    write_result(class_table(record))
    for line in headline_lines(record, kept):
        write_result(line)
    say(next_commands(kept, calibrated=record.calibration is not None))


def show_folds(final: RunRecord, folder: Path, say: Callable[[str], None]) -> None:
    """Write what the folds have measured together, class by class, and what to do with the final network."""
    from procrustean.records.several_runs import read_folds
    from procrustean.report.own_image_tables import pooled_lines, pooled_table

    folded = read_folds(folder)
    assert folded is not None
    assert folded.pooled is not None
    write_result(pooled_table(folded.pooled))
    for line in pooled_lines(folded.pooled):
        write_result(line)
    say(next_commands(folder, calibrated=final.calibration is not None))


def headline_lines(record: RunRecord, kept: Path) -> list[str]:
    """The headline with its interval, whose it is, on how few images it rests, and why it may be too good."""
    from procrustean.records.several_runs import measured_by
    from procrustean.report.own_image_tables import interval_text

    measures = record.image_measures
    if measures is None:
        return []
    told = [line for line in (interval_text(record), measured_by(kept)) if line]
    told += [f"caution: {caution}" for caution in measures.cautions]
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
    """Training and test images, recall and precision of every class after the last epoch, of many the worst."""
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
    """What one does with a trained network."""
    commands = [command_text("report", run), command_text("predict", run, "IMAGES", "--output", "predictions.csv")]
    if calibrated:
        commands.append(command_text("thresholds", run, "--precision", 0.95))
    commands.append(command_text("export", run))
    return "\n  ".join(["next, with files or folders for IMAGES:", *commands])

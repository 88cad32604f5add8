"""The trials that decided how a run was trained, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from procrustean.base.json_files import read_typed
from procrustean.base.table_formats import Table, table_of
from procrustean.records.finding_runs import CONFIG_FILE
from procrustean.records.identity import Beginning
from procrustean.records.run_record import Result


def trials_table(results: Sequence[Result]) -> Table | None:
    """A row for every way that was tried before a run, on images held out from its training images; None without any.

    Results that were copied without the settings of their run have none.
    """
    rows = []
    for result in results:
        began = None if result.path is None else result.path.parent / CONFIG_FILE
        if began is None or not began.is_file():
            continue
        for trial in read_typed(began, Beginning, "restore it, or move the result elsewhere").trials:
            numbers = (
                f"{100 * trial.balanced_accuracy:.1f}", f"{trial.log_loss:.3f}", str(trial.held_out),
                f"{trial.seconds:.0f}",
            )  # fmt: skip
            before = () if len(results) == 1 else (result.label, str(result.repeat[0]))
            rows.append((*before, trial.name, *numbers))
    if not rows:
        return None
    headings = {} if len(results) == 1 else {"method": "method", "seed": "seed"}
    headings |= {"way": "way", "balanced_accuracy": "balanced accuracy in %", "log_loss": "log loss"}
    headings |= {"held_out": "held-out images", "seconds": "seconds"}
    return table_of(
        "Ways to train that were tried on held-out images",
        headings,
        rows,
        words=("method", "way"),
        note="They decided how the run was trained; test images had no say. In the log loss every class counts the "
        "same.",
    )

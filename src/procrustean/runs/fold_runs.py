"""`train --folds 5`: every image tested once by a network that has not seen it, then one training on all of them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from procrustean.balance.interval import bootstrap_interval
from procrustean.balance.metrics import metrics_from_confusion
from procrustean.base.errors import ConfigError, RunError
from procrustean.base.lease import Claim
from procrustean.base.progress import Reporter
from procrustean.data.fold_splits import ALL
from procrustean.data.sources import is_files, is_named, place_of
from procrustean.engine.image_measures import PREDICTIONS
from procrustean.engine.stored_calibration import TrialScores, scores_of
from procrustean.records.finding_runs import FINAL, RESULT_FILE
from procrustean.records.identity import changed_settings
from procrustean.records.run_record import RunRecord
from procrustean.records.run_spec import AUTO, RunSpec
from procrustean.records.several_runs import Folded, Pooled, begin, read_folds, write_record
from procrustean.runs.advice import Plan
from procrustean.runs.existing_runs import load_run
from procrustean.runs.image_loading import Sources
from procrustean.runs.loggers import Tool
from procrustean.runs.many_runs import Outcome, fit_many
from procrustean.runs.one_run import FinishedRun
from procrustean.runs.trials import plan_now


def fit_folds(config: RunSpec, folds: int, reporter: Reporter, log: Tool | None = None) -> FinishedRun:
    """Train a network for each fold, pool their answers, and return the run on all images.

    Each is a run of its own in the folder of the whole. A call that was stopped goes on where it was, and what is
    finished is not trained again.

    Args:
        config: the settings; what is left open is chosen once, for all of them.
        folds: how many.
        reporter: where progress goes.
        log: tool that is handed the numbers of every epoch of each run.
    """
    _refuse_what_has_none(config, folds)
    folder = config.run_dir or Path("runs") / f"{config.slug}-{folds}-folds"
    kept, sources = read_folds(folder), Sources(reporter)
    if kept is not None and (kept.folds != folds or changed_settings(kept.asked, config, kept.source_path)):
        raise RunError(f"{folder} holds folds with other settings; choose another --run-dir")
    if kept is None:
        # Chosen once, on all images that are trained on in the end.
        asked = replace(config, fold=ALL, hold_out=config.hold_out or 0)
        plan = plan_now(asked, folder, sources, reporter)
        for line in plan.why:
            reporter.say_once(line)
        kept = Folded(folds=folds, asked=config, config=plan.config, source_path=place_of(config.source))
        begin(folder, kept)
    chosen = replace(kept.config, source=config.source)
    parts = {f"fold-{number}": f"{number}/{folds}" for number in range(1, folds + 1)}
    runs = [replace(chosen, fold=part, run_dir=folder / name) for name, part in parts.items()]
    final = replace(chosen, fold=ALL, run_dir=folder / FINAL)
    claim = Claim(folder)
    try:
        each = partial(fit_many, sources=sources, width=1, reporter=reporter, log=log)
        outcomes = each([Plan(run, sources(run)) for run in runs], costs=range(len(runs), 0, -1))
        records = [_record(outcome) for outcome in outcomes]
        paths, images = [outcome.path for outcome in outcomes], sources(final)
        calibrated = not final.hold_out and images.val is None and not (folder / FINAL / RESULT_FILE).exists()
        scores = together(paths, config.source) if calibrated else None
        (last,) = each([Plan(final, images, scores=scores)])
        record = _record(last)
        write_record(folder, msgspec.structs.replace(kept, pooled=pool(records, paths, record)))
    finally:
        claim.release()
    _, net = load_run(last.path, source=config.source)
    return FinishedRun(last.path, record, net)


def _record(outcome: Outcome) -> RunRecord:
    if outcome.error is not None:
        raise outcome.error
    assert outcome.record is not None
    return outcome.record


def together(folders: Sequence[Path], source: str) -> TrialScores:
    """Scores of all images by networks that have not seen them, which the network that has seen all is calibrated by.

    Args:
        folders: of the runs of the folds.
        source: where the images are.
    """
    parts: list[TrialScores] = []
    for folder in folders:
        prepared, net = load_run(folder, source=source)
        tested = prepared.data.test
        parts.append(TrialScores(*scores_of(prepared, net, tested), tested.classes).ordered(sorted(tested.classes)))
    scores, labels = (np.concatenate(some) for some in zip(*((one.scores, one.labels) for one in parts), strict=True))
    return TrialScores(scores, labels, parts[0].classes)


def _refuse_what_has_none(config: RunSpec, folds: int) -> None:
    if folds < 2:
        raise ConfigError(f"folds = {folds} received; two at least, 5 are usual")
    if config.method == AUTO:
        raise ConfigError("folds received with method 'auto', which compares on held-out images; name the method")
    if config.fold is not None:
        raise ConfigError(f"both folds and fold = {config.fold!r} received; one fold is trained by itself, or all")
    if is_named(config.source) or not (is_files(config.source) or config.source.lower().endswith(".npz")):
        raise ConfigError(f"folds are for images of your own in files; {config.source} is none of them")


def pool(records: Sequence[RunRecord], folders: Sequence[Path], final: RunRecord) -> Pooled:
    """The answers of the networks of the folds, taken together.

    Args:
        records: of the runs of the folds.
        folders: where they are.
        final: of the run on all images, which the classes are as large as in.
    """
    rows = [row for folder in folders for row in _tested(folder)]
    classes = final.data.classes
    number = {name: label for label, name in enumerate(classes)}
    labels = np.array([number[row["label"]] for row in rows], np.int64)
    answers = np.array([number[row["answer"]] for row in rows], np.int64)
    matrix = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(matrix, (labels, answers), 1)
    counts = np.array(final.data.counts) + (final.data.held_out_counts or 0)
    metrics = metrics_from_confusion(matrix, counts)
    groups = None
    if any(row["group"] for row in rows):
        groups = np.unique([row["group"] for row in rows], return_inverse=True)[1].astype(np.int64)
    return Pooled(
        classes=classes,
        metrics=metrics,
        interval=bootstrap_interval(labels == answers, labels, groups, headline=metrics.headline),
        groups=None if groups is None else int(groups.max()) + 1,
        each=[record.selections.last.metrics.value(metrics.headline) or 0.0 for record in records],
        untested=int(counts.sum()) - len(rows),
    )


def _tested(folder: Path) -> list[dict[str, str]]:
    with (folder / PREDICTIONS).open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        return [row for row in csv.DictReader(file) if row["split"] == "test"]

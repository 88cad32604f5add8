"""After a training that was measured on images set aside for it: one more on all images, for the network in use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from procrustean.base.progress import Reporter
from procrustean.base.stop_signals import stop_on_signal
from procrustean.data.fold_splits import ALL, in_fold
from procrustean.data.imageset import Splits
from procrustean.engine.stored_calibration import HELD_OUT_SCORES, TrialScores, held_out_scores
from procrustean.engine.training import Interrupted
from procrustean.records.finding_runs import FINAL, resume_command
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import load_result
from procrustean.runs.advice import Plan
from procrustean.runs.existing_runs import load_run
from procrustean.runs.one_run import FinishedRun, Stopped, begin_or_go_on, refuse_other_images
from procrustean.runs.preparing import prepare


def train_on_all(run: Path, splits: Splits, reporter: Reporter) -> FinishedRun:
    """A measured run with the network for use: trained alike, on the images that it was measured on, too.

    That network has seen all images. It is calibrated by the held-out scores of the measured run, which are of networks
    that had not seen theirs.

    Args:
        run: folder of the measured run, in which that of the new one lies.
        splits: the images as the measured run had them.
        reporter: where progress goes.
    """
    measured, record = RunFolder(run), load_result(run).record
    refuse_other_images(measured, Plan(record.config, splits))
    scores = None
    if splits.val is None and measured.file(HELD_OUT_SCORES).exists():
        scores = TrialScores(*held_out_scores(measured), tuple(record.data.classes))
    images = in_fold(splits, ALL)
    config = replace(
        record.config, fold=ALL, hold_out=0, evaluate_every=record.config.epochs, probes=False, probe_every=None,
        features_at=(), run_dir=run / FINAL,
    )  # fmt: skip
    reporter.say("now the same on all images, those of the test too: the network for use; the one before was measured")
    with stop_on_signal(reporter.say) as stop:
        try:
            going = begin_or_go_on(
                Plan(config, images, tuple(measured.beginning().why), scores=scores),
                run / FINAL,
                lambda began: prepare(config, splits=images, say=reporter.say, began=began),
                reporter,
                stop=stop,
            )
            net = load_run(run / FINAL, splits=images)[1] if going is None else going.to_end().net
        except Interrupted:
            raise Stopped(f"stopped and saved; go on with: {resume_command(run)}", stop.exit_code) from None
    return FinishedRun(run, record, net)

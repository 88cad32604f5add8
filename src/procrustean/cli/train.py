"""procrustean train and procrustean resume"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from procrustean.base.console import write_result
from procrustean.base.progress import reporting
from procrustean.cli.config_file import ConfigCommand, refuse_unnamed
from procrustean.cli.given_runs import check_own_names, use_own_files
from procrustean.cli.results import show, show_folds, show_own
from procrustean.cli.values import OwnMethod, OwnNet, Quiet, RunArgument, SourceArgument
from procrustean.records.run_spec import RunSpec


@dataclass(frozen=True)
class Train(ConfigCommand):
    """Train a network on imbalanced images and record the run.

    Example: procrustean train cifar10 --imbalance step --rho 100 --method mfw --drw --seed 0
    """

    source: SourceArgument
    """Data set: a name of `procrustean list sources`, a folder of images (one folder per class), a .csv, .parquet or
    .npz file."""
    method: str = "advised"
    """Training method; `procrustean list methods` lists them, FILE.py:NAME is your own. By default mfw, and for images
    of your own the one that is advised for their counts; auto compares several on held-out images."""
    hold_out: float | None = None
    """Training images per class set aside to choose and calibrate on, or below 1 their share; 0 trains on all. By
    default 0 of known data sets, but 15 % with auto and of your own images, unless there is a validation split."""
    minutes: float | None = None
    """What training may take, trials of several ways to train photographs included, or --method auto; default 30."""
    folds: int | None = None
    """Test every image of your own once, by a network that was not trained on it, then train on all of them: 5."""
    dry_run: bool = False
    """Print all settings as YAML, and the method and recipe they resolve to as comments, then stop."""
    log: Literal["tensorboard", "wandb", "trackio"] | None = None
    """Also log the numbers of every epoch to one of these; each needs its package."""

    def run_config(self) -> RunSpec:
        """The settings without the command's own flags."""
        return RunSpec(**{f.name: getattr(self, f.name) for f in fields(RunSpec)})

    def run(self) -> int:
        config = self.run_config()

        if self.dry_run:
            from procrustean.cli.printed_settings import settings_text

            write_result(settings_text(config, minutes=self.minutes))
            return 0
        refuse_unnamed([config])
        from procrustean.runs.train_api import fit

        with reporting(quiet=self.quiet) as reporter:
            run = fit(config, reporter=reporter, minutes=self.minutes, folds=self.folds, log=self.log)
        if self.folds is not None:
            show_folds(run.record, run.path.parent, reporter.say)
            return 0
        # The runs of a comparison stand beside one another in its folder.
        kept = run.path.parent if self.method == "auto" else run.path
        show([kept])
        show_own(run.record, kept, reporter.say)
        return 0


@dataclass(frozen=True)
class Resume:
    """Go on with an interrupted run from its last checkpoint.

    Its result is the one it would have had.
    """

    run_dir: RunArgument
    """Folder of the run."""
    method: OwnMethod = None
    net: OwnNet = None
    source: str | None = None
    """Where the images of the run are now, if they have moved. They have to be the same ones."""
    log: Literal["tensorboard", "wandb", "trackio"] | None = None
    """Also log the numbers of every epoch to one of these; each needs its package."""
    quiet: Quiet = False

    def run(self) -> int:
        from procrustean.runs.train_api import resume

        use_own_files(self.method, self.net)
        check_own_names(self.run_dir, self.method, self.net)
        with reporting(quiet=self.quiet) as reporter:
            run = resume(self.run_dir, source=self.source, reporter=reporter, log=self.log)
        show([run.path])
        show_own(run.record, run.path, reporter.say)
        return 0

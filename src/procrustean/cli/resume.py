"""procrustean resume"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Resume:
    """Go on with an interrupted run from its last checkpoint.

    Its result is the one it would have had.
    """

    run_dir: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """Folder of the run."""
    method: str | None = None
    """The file of its method, if it is one of your own: FILE.py. It has to be what it was."""
    net: str | None = None
    """The file of its network, likewise."""
    source: str | None = None
    """Where the images of the run are now, if they have moved. They have to be the same ones."""
    log: Literal["tensorboard", "wandb", "trackio"] | None = None
    """Also log the numbers of every epoch to one of these; each needs its package."""
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        from procrustean.base.code_files import use_file
        from procrustean.base.progress import reporting
        from procrustean.cli.outcome import show
        from procrustean.cli.own_outcome import show_own
        from procrustean.runs.train_api import resume

        for file in (self.method, self.net):
            if file is not None:
                use_file(file)
        with reporting(quiet=self.quiet) as reporter:
            run = resume(self.run_dir, source=self.source, reporter=reporter, log=self.log)
        show([run.path])
        show_own(run.record, run.path, reporter.say)
        return 0

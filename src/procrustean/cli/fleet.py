"""procrustean fleet"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from procrustean.base.console import notify, write_result
from procrustean.base.errors import ConfigError
from procrustean.base.own_code import failure_text
from procrustean.base.progress import reporting
from procrustean.base.yaml_files import read_yaml
from procrustean.cli.config_file import allow, config_as_yaml, refuse_unnamed
from procrustean.cli.outputs import check_folder
from procrustean.cli.results import show
from procrustean.cli.values import DataDir, Quiet, Width
from procrustean.records.run_spec import ADVISED, AUTO


@dataclass(frozen=True)
class Fleet:
    """Train the runs of a grid side by side on one device.

    Finished ones are not repeated.

    Example: procrustean fleet experiments/cifar10-rho100.yaml --output runs/rho100
    """

    grid: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="GRID")]
    """YAML file with base, runs and grid; see docs/fleet.md."""
    output: Path = Path("runs")
    """Folder below which each run gets its own."""
    width: Width = None
    processes: int | None = None
    """Train with so many processes, for CPUs: a process that is killed is replaced and its run goes on."""
    data_dir: DataDir = None
    dry_run: bool = False
    """Print the settings of every run, then stop."""
    log: Literal["tensorboard", "wandb", "trackio"] | None = None
    """Also log the numbers of every epoch to one of these, each run in its own folder; each needs its package."""
    allow_code: tuple[str, ...] = ()
    """Files of methods and networks of your own that the grid may name: FILE.py ... Read them first: they are run."""
    quiet: Quiet = False

    def run(self) -> int:
        from dataclasses import replace

        from procrustean.runs.grids import expand
        from procrustean.runs.preparing import recipe_of

        configs = expand(read_yaml(self.grid, example="base: {source: digits}"), self.output, origin=str(self.grid))
        if self.data_dir is not None:
            configs = [replace(config, data_dir=self.data_dir) for config in configs]
        if self.dry_run:
            write_result("---\n".join(config_as_yaml(config) for config in configs))
            return 0
        allow(self.allow_code)
        refuse_unnamed(configs)
        for config in configs:  # what is wrong with any of them is said before one is trained
            if config.method == AUTO:
                raise ConfigError(f"{self.grid}: method auto compares methods itself; give it to procrustean train")
            recipe_of(replace(config, method="mfw") if config.method == ADVISED else config)
        from procrustean.runs.many_runs import fit_many

        check_folder(self.output)
        with reporting(quiet=self.quiet) as reporter:
            outcomes = fit_many(configs, width=self.width, processes=self.processes, reporter=reporter, log=self.log)
        finished = [outcome.path for outcome in outcomes if outcome.error is None]
        if finished:
            show(finished)
        for outcome in outcomes:
            if outcome.error is not None:
                text = failure_text(outcome.error)
                notify(text if outcome.elsewhere else f"{outcome.path} failed: {text}")
        return 0 if len(finished) == len(outcomes) else 1

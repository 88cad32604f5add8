"""procrustean train"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ..config import RunConfig
from .config_file import config_as_yaml


@dataclass(frozen=True)
class Train(RunConfig):
    """Train a network on imbalanced images and record the run.

    Example: procrustean train cifar10 --imbalance step --rho 100 --method mfw --drw --seed 0
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """Data set: a name of `procrustean data sources`, a folder of images (one folder per class), a .csv, .parquet or
    .npz file."""
    method: str = "advised"
    """Training method; `procrustean methods` lists them. By default mfw, and for images of your own the one that is
    advised for their counts; auto compares several on held-out images."""
    minutes: float | None = None
    """What --method auto may take; default 30."""
    config: Path | None = None
    """YAML file with settings; flags override it."""
    print_config: bool = False
    """Print all settings as YAML, and the method and recipe they resolve to as comments, then stop."""
    log: Literal["tensorboard", "wandb", "trackio"] | None = None
    """Also log the numbers of every epoch to one of these; each needs its package."""
    quiet: bool = False
    """No progress."""

    def check(self) -> None:
        """Settings are judged when all of them are known: those of the file and the flags together."""

    @classmethod
    def with_defaults(cls, settings: Mapping[str, Any]) -> Train:
        """The command with the settings of a file as its defaults."""
        return cls(**{"source": tyro.MISSING, **settings})

    def run_config(self) -> RunConfig:
        """The settings without the command's own flags."""
        return RunConfig(**{f.name: getattr(self, f.name) for f in fields(RunConfig)})

    def run(self) -> int:
        config = self.run_config()
        if self.print_config:
            self._print(config)
            return 0
        from ..api import fit
        from ..console import make_reporter
        from .outcome import show
        from .own_outcome import show_own

        reporter = make_reporter(quiet=self.quiet)
        try:
            run = fit(config, reporter=reporter, minutes=self.minutes, log=self.log)
        finally:
            reporter.close()
        # The runs of a comparison stand beside one another in its folder.
        kept = run.path.parent if self.method == "auto" else run.path
        show([kept])
        show_own(run.result, kept, reporter.say)
        return 0

    def _print(self, config: RunConfig) -> None:
        """All settings, filled in for images that are there, and the method and recipe they resolve to."""
        from ..advice.planning import ADVISED, AUTO, planned
        from ..console import write_result
        from ..data.sources import is_named
        from ..paths import expanded
        from ..preparing import recipe_of
        from ..recipes import RECIPES
        from .resolved import method_comments

        def named(settings: RunConfig) -> RunConfig:
            return replace(settings, method="mfw") if settings.method in (ADVISED, AUTO) else settings

        recipe_of(named(config))  # what is wrong with the settings is said before images are loaded
        if is_named(config.source) or expanded(config.source).exists():
            config = planned(config).config
        elif config.method == ADVISED:
            config = named(config)
        recipe = recipe_of(named(config))
        comments = "".join(f"# {name}: {value}\n" for name, value in recipe.to_json().items() if name != "name")
        own = f", as {config.method} was published" * (config.recipe == "own")
        title = f"# The recipe these settings resolve to: {recipe.name}, {RECIPES[recipe.name][1]}{own}\n"
        # Which methods are compared, --method auto decides when it runs.
        method = "" if config.method == AUTO else method_comments(config, recipe)
        write_result(config_as_yaml(config) + method + title + comments)

"""The commands of the program and how a command line becomes one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Protocol, Union

import tyro

from .adjust import Adjust
from .bench import Bench
from .claims import Claims
from .compare import Compare
from .config_file import config_argument, read_config
from .data import Data
from .demo import Demo
from .diagnose import Diagnose
from .doctor import Doctor
from .evaluate import Evaluate
from .export import Export
from .figures import Figures
from .fleet import Fleet
from .inspect import Inspect
from .layers import Layers
from .methods import Methods
from .nets import Nets
from .predict import Predict
from .recipes import Recipes
from .report import Report
from .reproduce import Reproduce
from .resume import Resume
from .thresholds import Thresholds
from .toy import Toy
from .train import Train
from .tune import Tune
from .values import VALUES

DESCRIPTION = (
    "Train image classifiers on class-imbalanced data: Major Feature Weakening and the methods it is compared with. "
    "Each command explains itself: procrustean COMMAND --help. Add --debug to any of them to see where an error arose."
)


class Command(Protocol):
    """A parsed command."""

    def run(self) -> int:
        """Carry it out; returns the exit code."""
        ...


def parse(arguments: Sequence[str]) -> Command:
    """The command that a command line asks for; tyro exits with 2 and a hint where it asks for none."""
    path = config_argument(arguments)
    settings = {} if path is None else read_config(path)
    defaults = {"default": Train.with_defaults(settings)} if path else {}

    def command(kind: type[Any], name: str, **extra: Any) -> Any:
        return Annotated[kind, tyro.conf.subcommand(name, **extra)]

    choices = (
        command(Inspect, "inspect"),
        command(Train, "train", **defaults),
        command(Resume, "resume"),
        command(Evaluate, "evaluate"),
        command(Adjust, "adjust"),
        command(Predict, "predict"),
        command(Thresholds, "thresholds"),
        command(Export, "export"),
        command(Compare, "compare"),
        command(Diagnose, "diagnose"),
        command(Figures, "figures"),
        command(Claims, "claims"),
        command(Report, "report"),
        command(Methods, "methods"),
        command(Recipes, "recipes"),
        command(Nets, "nets"),
        command(Layers, "layers"),
        command(Data, "data"),
        command(Fleet, "fleet"),
        command(Reproduce, "reproduce"),
        command(Tune, "tune", **({"default": Tune.with_defaults(settings)} if path else {})),
        command(Bench, "bench"),
        command(Demo, "demo"),
        command(Toy, "toy"),
        command(Doctor, "doctor"),
    )
    any_of: Any = Union[choices]  # noqa: UP007 (built at run time)
    parsed: Command = tyro.cli(
        any_of,
        prog="procrustean",
        description=DESCRIPTION,
        args=list(arguments),
        registry=VALUES,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    if isinstance(parsed, Train | Tune):
        # Options of the command line change those of the file one by one.
        return replace(parsed, options={**settings.get("options", {}), **parsed.options})
    return parsed

"""The commands of the program and how a command line becomes one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Protocol, Union

import tyro

from procrustean.base.console import notify
from procrustean.base.errors import suggestion
from procrustean.cli.adjust import Adjust
from procrustean.cli.allowed_code import allow
from procrustean.cli.bench import Bench
from procrustean.cli.claims import Claims
from procrustean.cli.compare import Compare
from procrustean.cli.config_file import config_argument, read_config
from procrustean.cli.data import Data
from procrustean.cli.demo import Demo
from procrustean.cli.diagnose import Diagnose
from procrustean.cli.doctor_command import Doctor
from procrustean.cli.evaluate import Evaluate
from procrustean.cli.export import Export
from procrustean.cli.figures import Figures
from procrustean.cli.fleet import Fleet
from procrustean.cli.hints import hints
from procrustean.cli.inspect import Inspect
from procrustean.cli.layers import Layers
from procrustean.cli.methods import Methods
from procrustean.cli.nets import Nets
from procrustean.cli.predict import Predict
from procrustean.cli.recipes import Recipes
from procrustean.cli.report import Report
from procrustean.cli.reproduce import Reproduce
from procrustean.cli.resume import Resume
from procrustean.cli.thresholds import Thresholds
from procrustean.cli.toy import Toy
from procrustean.cli.train import Train
from procrustean.cli.tune import Tune
from procrustean.cli.values import values

DESCRIPTION = (
    "Train image classifiers on class-imbalanced data: Major Feature Weakening and the methods it is compared with. "
    "Each command explains itself: procrustean COMMAND --help. Add --debug to any of them to see where an error arose."
)

COMMANDS: dict[str, Any] = {
    "inspect": Inspect,
    "train": Train,
    "resume": Resume,
    "evaluate": Evaluate,
    "adjust": Adjust,
    "predict": Predict,
    "thresholds": Thresholds,
    "export": Export,
    "compare": Compare,
    "diagnose": Diagnose,
    "figures": Figures,
    "claims": Claims,
    "report": Report,
    "methods": Methods,
    "recipes": Recipes,
    "nets": Nets,
    "layers": Layers,
    "data": Data,
    "fleet": Fleet,
    "reproduce": Reproduce,
    "tune": Tune,
    "bench": Bench,
    "demo": Demo,
    "toy": Toy,
    "doctor": Doctor,
}
#: Commands that have commands of their own; alone, tyro would name these without the name of their group.
GROUPS = ("data", "bench")
REFUSED = 2  # the exit code of tyro for a command line that it cannot read


class Command(Protocol):
    """A parsed command."""

    def run(self) -> int:
        """Carry it out; returns the exit code."""
        ...


def parse(arguments: Sequence[str]) -> Command:
    """The command that a command line asks for; tyro exits with 2 and a hint where it asks for none."""
    path = config_argument(arguments)
    settings = {} if path is None else read_config(path)
    kind: Any = _any_command()
    options: dict[str, Any] = {"args": list(arguments), "prog": "procrustean", "description": DESCRIPTION}
    name = arguments[0] if arguments else ""
    if name in COMMANDS and name not in GROUPS:  # so that what is wrong with its options is answered with its own help
        kind = COMMANDS[name]
        options = {"args": list(arguments[1:]), "prog": f"procrustean {name}"}
    if path is not None and kind in (Train, Tune):
        options["default"] = kind.with_defaults(settings)
    try:
        parsed: Command = tyro.cli(
            kind,
            registry=values(offered=_asks_for_completion(arguments)),
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
            **options,
        )
    except SystemExit as end:
        if end.code == REFUSED and name not in COMMANDS and (near := suggestion(name, COMMANDS, limit=1)):
            notify(f"there is no command {name!r}. {near}")
        if end.code == REFUSED and kind in (Train, Tune):
            for hint in hints(name, arguments[1:]):
                notify(hint)
        raise
    if isinstance(parsed, Train | Tune):
        allow(parsed.allow_code, (parsed.method, parsed.net), arguments)
        # Options of the command line change those of the file one by one.
        return replace(parsed, options={**settings.get("options", {}), **parsed.options})
    return parsed


def _asks_for_completion(arguments: Sequence[str]) -> bool:
    return any(argument.startswith(("--tyro-print-completion", "--tyro-write-completion")) for argument in arguments)


def _any_command() -> Any:
    choices = tuple(Annotated[kind, tyro.conf.subcommand(name)] for name, kind in COMMANDS.items())
    return Union[choices]  # noqa: UP007 (built at run time)

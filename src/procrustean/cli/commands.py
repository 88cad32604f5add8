"""The commands of the program, in groups, and how a command line becomes one of them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, make_dataclass, replace
from typing import Annotated, Any, Protocol, Union

import tyro

from procrustean.base.console import write_result
from procrustean.cli.compare import Compare, Figures, Report
from procrustean.cli.config_file import allow, config_argument, read_config
from procrustean.cli.data import Describe, Inspect, Prepare, Verify
from procrustean.cli.demo import Demo
from procrustean.cli.diagnose import Diagnose
from procrustean.cli.doctor import Doctor
from procrustean.cli.evaluate import Evaluate
from procrustean.cli.fleet import Fleet
from procrustean.cli.lists import Layers, Methods, Nets, Recipes, Sources
from procrustean.cli.paper import Claims, Toy
from procrustean.cli.predict import Export, Predict, Thresholds
from procrustean.cli.reproduce import Reproduce
from procrustean.cli.train import Resume, Train
from procrustean.cli.tune import Tune
from procrustean.cli.values import value_rules
from procrustean.cli.wrong_input import MARKERS, read, refuse_command

DESCRIPTION = (
    "Train image classifiers on class-imbalanced data: Major Feature Weakening\nand the methods it is compared with."
)

#: A command, or the commands behind a first word.
Tree = Mapping[str, Any]

LIST = {"methods": Methods, "nets": Nets, "layers": Layers, "recipes": Recipes, "sources": Sources}
DATA = {"describe": Describe, "prepare": Prepare, "verify": Verify}
PAPER = {"reproduce": Reproduce, "claims": Claims, "toy": Toy}

GROUPS: dict[str, Tree] = {
    "Start": {"demo": Demo, "inspect": Inspect, "doctor": Doctor},
    "Train": {"train": Train, "resume": Resume, "tune": Tune, "fleet": Fleet},
    "Compare": {"compare": Compare, "report": Report, "diagnose": Diagnose, "figures": Figures},
    "Use": {"evaluate": Evaluate, "predict": Predict, "thresholds": Thresholds, "export": Export},
    "Look up": {"list": LIST, "data": DATA},
    "Paper": {"paper": PAPER},
}
COMMANDS: Tree = {name: command for group in GROUPS.values() for name, command in group.items()}


class Command(Protocol):
    """A parsed command."""

    def run(self) -> int:
        """Carry it out; returns the exit code."""
        ...


@dataclass(frozen=True)
class Overview:
    """What there is, shown where a command line stops before a command."""

    text: str

    def run(self) -> int:
        write_result(self.text)
        return 0


def parse(arguments: Sequence[str]) -> Command:
    """The command that a command line asks for, or an overview where it names none.

    Raises:
        ConfigError: it cannot be read.
        SystemExit: with 0, after help or a completion has been printed.
    """
    if _asks_for_completion(arguments):
        tyro.cli(
            _any_command(), args=list(arguments), prog="procrustean", registry=value_rules(offered=True), config=MARKERS
        )
    path: list[str] = []
    command = COMMANDS
    while isinstance(command, Mapping):
        name = arguments[len(path)] if len(path) < len(arguments) else "--help"
        if name in ("--help", "-h"):
            return Overview(_overview(path, command))
        if name not in command:
            refuse_command([*path, name], {words[-1]: words for words, _ in leaves()})
        path.append(name)
        command = command[name]
    return _parsed(command, path, arguments[len(path) :])


def leaves(tree: Tree = COMMANDS) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words."""
    for name, command in tree.items():
        if isinstance(command, Mapping):
            yield from (((name, *words), leaf) for words, leaf in leaves(command))
        else:
            yield (name,), command


def _parsed(kind: Any, path: Sequence[str], arguments: Sequence[str]) -> Command:
    if kind not in (Train, Tune):
        parsed: Command = read(kind, path, arguments)
        return parsed
    file = config_argument(arguments)
    settings = {} if file is None else read_config(file)
    default = {} if file is None else {"default": kind.with_defaults(settings)}
    trains: Train | Tune = read(kind, path, arguments, **default)
    allow(trains.allow_code, (trains.method, trains.net), arguments)
    # Options of the command line change those of the file one by one.
    return replace(trains, options={**settings.get("options", {}), **trains.options})


def _overview(path: Sequence[str], tree: Tree) -> str:
    """The commands behind these words, in their groups where there are none."""
    start = " ".join(["procrustean", *path])
    groups = {"": tree} if path else GROUPS
    width = max(len(name) for group in groups.values() for name in group)
    lines = [f"usage: {start} COMMAND ...", *([] if path else ["", DESCRIPTION])]
    for title, group in groups.items():
        lines += ["", *filter(None, [title])]
        lines += [f"  {name:{width}}  {_summary(command)}" for name, command in group.items()]
    return "\n".join([*lines, "", f"{start} COMMAND --help explains one."])


def _summary(command: Any) -> str:
    if isinstance(command, Mapping):
        return " | ".join(command)
    return (inspect.getdoc(command) or "").partition("\n")[0].rstrip(".")


def _asks_for_completion(arguments: Sequence[str]) -> bool:
    return any(argument.startswith(("--tyro-print-completion", "--tyro-write-completion")) for argument in arguments)


def _any_command(tree: Tree = COMMANDS) -> Any:
    """All commands as one type, which tyro needs for the completion of a shell."""
    choices = []
    for name, command in tree.items():
        nested = isinstance(command, Mapping)
        kind = make_dataclass(name, [("command", _any_command(command))]) if nested else command
        choices.append(Annotated[kind, tyro.conf.subcommand(name)])
    return Union[tuple(choices)]  # noqa: UP007 (built at run time)

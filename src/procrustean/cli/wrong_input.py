"""Flags and values are read here; what cannot be read is answered in one line, by what was probably meant."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import fields
from difflib import get_close_matches
from itertools import groupby, pairwise
from typing import Any, NoReturn

import tyro

from procrustean.base.errors import ConfigError, suggestion
from procrustean.cli.values import value_rules
from procrustean.records.run_spec import ALSO_CALLED, RunSpec

#: What commands are called now that had other names.
RENAMED = {
    "adjust": "procrustean evaluate --adjust",
    "bench": "python benchmarks/speed.py",
    "claims": "procrustean paper claims",
    "data sources": "procrustean list sources",
    "layers": "procrustean list layers",
    "methods": "procrustean list methods",
    "nets": "procrustean list nets",
    "recipes": "procrustean list recipes",
    "reproduce": "procrustean paper reproduce",
    "toy": "procrustean paper toy",
}

#: Flags have plain names.
MARKERS = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff)

#: Settings that take one value in a run, with the flags under which several are asked for.
ONE_PER_RUN = {"seed": ("seed", "seeds"), "method": ("method", "methods")}
#: Flags that take all words up to the next one.
TAKES_SEVERAL = ("options", "over", "classes", "features_at")
#: Flags without a value.
_SWITCHES = tuple(field.name for field in fields(RunSpec) if isinstance(field.default, bool))
_OPTION = re.compile(r"[A-Za-z_]\w*=.+")
#: In what tyro prints: colours, and lines between the parts of a message.
_COLOUR, _RULE = re.compile(r"\x1b\[[\d;]*m"), re.compile(r"[-─]{4,}")


def refuse_command(words: Sequence[str], known: Mapping[str, Sequence[str]]) -> NoReturn:
    """ConfigError for a command that there is not.

    Args:
        words: the command line up to the word that is not known.
        known: the words of every command by its last one.
    """
    asked = " ".join(words)
    if asked in RENAMED:
        raise ConfigError(f"{asked} is now `{RENAMED[asked]}`")
    near = get_close_matches(words[-1], known, n=1)
    start = " ".join(["procrustean", *words[:-1]])
    advice = f"Did you mean `{' '.join(['procrustean', *known[near[0]]])}`?" if near else f"{start} --help lists them"
    raise ConfigError(f"there is no command {asked!r}. {advice}")


def read(kind: type, path: Sequence[str], arguments: Sequence[str], **default: Any) -> Any:
    """A command with the flags that were given.

    Args:
        kind: its class.
        path: its words.
        arguments: what follows them.
        default: the command with the settings of a file, where there is one.
    """
    program = " ".join(["procrustean", *path])
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            parsed, unknown = tyro.cli(
                kind,
                prog=program,
                args=list(arguments),
                return_unknown_args=True,
                registry=value_rules(),
                config=MARKERS,
                **default,
            )
    except SystemExit as end:
        if not end.code:
            raise
        unknown, message = [], _message(said.getvalue(), program)
    else:
        if not unknown:
            return parsed
        message = _unknown_words(unknown, kind, program)
    found = hints(path[0], arguments) if path[0] in ("train", "tune") else []
    raise ConfigError("; ".join(found) or message)


def _message(text: str, program: str) -> str:
    """What tyro says in a frame, as one line."""
    rows = [_COLOUR.sub("", line)[2:].rstrip(" │") for line in text.splitlines()[1:]]  # below the title
    parts = [list(part) for is_rule, part in groupby(rows, key=lambda row: bool(_RULE.fullmatch(row))) if not is_rule]
    about = parts[0] if parts else []
    if about and about[0].startswith("Missing from"):
        names = [row.strip() for row in about[1:] if re.match(r" {4}\S", row)]
        return f"{' and '.join(names)} is missing: {program} {' '.join(names)}; {program} --help explains it"
    said = " ".join(row.strip() for row in about).removeprefix("Error parsing ")
    return said or f"this command line cannot be read; {program} --help explains it"


def _unknown_words(unknown: Sequence[str], kind: type, program: str) -> str:
    flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    if not flags:
        return f"{unknown[0]!r} is one word too many; {program} --help explains the command"
    known = [f"--{field.name.replace('_', '-')}" for field in fields(kind)]
    near = suggestion(flags[0], known, limit=1) or f"{program} --help lists the flags"
    return f"there is no {flags[0]}. {near}"


def hints(command: str, arguments: Sequence[str]) -> list[str]:
    """Hints for a command line that was refused; none where nothing in it is known to be a common mistake.

    Args:
        command: train or tune.
        arguments: what followed it.
    """
    given = _flags(arguments)
    found = []
    if command == "train":
        for setting, names in ONE_PER_RUN.items():
            if any(flag in names and _asks_for_several(flag, values) for flag, values in given):
                found.append(
                    f"a run has one {setting}; several {setting}s are the runs of a grid: procrustean fleet grid.yaml "
                    "(docs/fleet.md)"
                )
    if options := _options_without_flag(arguments):
        found.append(f"options of the method need their flag: write --options {' '.join(options)}")
    settings = {field.name for field in fields(RunSpec)}
    asked = [(flag, values) for flag, values in given if flag not in settings]
    for flag, values in asked:
        setting = ALSO_CALLED.get(flag, flag)
        if flag == "methods" and not _asks_for_several(flag, values):
            setting = "method"
        if command == "tune" and setting == "run_dir":
            setting = "output"
        if setting != flag:
            found.append(f"there is no --{flag.replace('_', '-')}; it is --{setting.replace('_', '-')} here")
        elif flag == "resume":
            found.append("to go on with an interrupted run: procrustean resume RUN")
    with_option = _methods_by_option() if asked else {}
    for flag, values in asked:
        if methods := with_option.get(flag):
            instead = f"--options {flag}={values[0] if values else 'VALUE'}"
            if command == "tune":
                instead += f", or --over {flag}=VALUE,VALUE,... to choose it"
            of = f"method{'s' * (len(methods) > 1)} {', '.join(methods)}"
            found.append(f"{flag} is an option of the {of}: write {instead}")
    return found


def _asks_for_several(flag: str, values: Sequence[str]) -> bool:
    """Whether these words behind a flag of `ONE_PER_RUN` are for several runs; `--seeds 3` is for three of them."""
    return flag == "seeds" or len([value for value in values if not _OPTION.fullmatch(value)]) > 1


def _options_without_flag(arguments: Sequence[str]) -> list[str]:
    """Words KEY=VALUE that no flag takes: behind the source, or behind the value that a flag has already.

    >>> _options_without_flag(["digits", "--method", "mfw", "alpha=3", "--run-dir", "a=1", "--options", "beta=2"])
    ['alpha=3']
    """
    first = next((place for place, word in enumerate(arguments) if word.startswith("--")), len(arguments))
    idle = list(arguments[1:first])
    for flag, values in _flags(arguments):
        if flag not in TAKES_SEVERAL:
            idle += values[0 if flag in _SWITCHES else 1 :]
    return [word for word in idle if _OPTION.fullmatch(word)]


def _flags(arguments: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Every flag with the words that follow it.

    >>> _flags(["digits", "--seed", "0", "1", "--batch-size=8", "--drw"])
    [('seed', ['0', '1']), ('batch_size', ['8']), ('drw', [])]
    """
    places = [place for place, word in enumerate(arguments) if word.startswith("--")]
    found = []
    for place, end in pairwise([*places, len(arguments)]):
        name, equals, value = arguments[place][2:].partition("=")
        words = [*([value] if equals else []), *arguments[place + 1 : end]]
        found.append((name.replace("-", "_"), words))
    return found


def _methods_by_option() -> dict[str, list[str]]:
    from procrustean.methods.make import (  # imports torch, which no command line that is in order waits for
        METHODS,
        option_defaults,
    )

    found: dict[str, list[str]] = {}
    for method in METHODS:
        for option in option_defaults(method):
            found.setdefault(option, []).append(method)
    return found

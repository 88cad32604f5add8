"""Flags and values are read here; what cannot be read is answered in one line, by what was probably meant."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import fields
from difflib import get_close_matches
from itertools import groupby
from typing import Any, NoReturn

import tyro

from procrustean.base.errors import ConfigError, suggestion
from procrustean.cli.values import value_rules
from procrustean.records.run_spec import RunSpec
from procrustean.records.setting_types import ALSO_CALLED

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
        raise ConfigError(_message(said.getvalue(), program)) from None
    if unknown:
        raise ConfigError(_unknown_words(unknown, kind, program))
    return parsed


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
    trains = issubclass(kind, RunSpec)
    if not flags:
        if trains and all(_OPTION.fullmatch(word) for word in unknown):
            return f"options of the method need their flag: write --options {' '.join(unknown)}"
        return f"{unknown[0]!r} is one word too many; {program} --help explains the command"
    known = [f"--{field.name.replace('_', '-')}" for field in fields(kind)]
    hint = _hint(flags[0].lstrip("-").replace("-", "_"), kind) if trains else ""
    near = hint or suggestion(flags[0], known, limit=1) or f"{program} --help lists the flags"
    return f"there is no {flags[0]}. {near}"


def _hint(flag: str, kind: type) -> str:
    """What was probably meant by a flag that there is not, where settings are given; empty if that is not known."""
    if flag in ("seeds", "methods"):
        return f"A run has one {flag[:-1]}; several are the runs of a grid: procrustean fleet grid.yaml (docs/fleet.md)"
    if flag == "resume":
        return "To go on with an interrupted run: procrustean resume RUN"
    named = {field.name for field in fields(kind)}
    if setting := ALSO_CALLED.get(flag):
        setting = "output" if setting == "run_dir" and "output" in named else setting
        return f"It is --{setting.replace('_', '-')} here"
    from procrustean.methods.make import METHODS, option_defaults  # imports torch

    methods = [method for method in METHODS if flag in option_defaults(method)]
    of = f"method{'s' * (len(methods) > 1)} {', '.join(methods)}"
    choose = f", or --over {flag}=VALUE,VALUE,... to choose it" * ("over" in named)
    return f"It is an option of the {of}: write --options {flag}=VALUE{choose}" if methods else ""

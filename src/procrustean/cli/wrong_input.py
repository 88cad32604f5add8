"""Flags and values are read here; what cannot be read is answered in one line, by what was probably meant."""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import redirect_stderr
from difflib import get_close_matches
from itertools import groupby
from typing import Any, NoReturn, get_args, get_type_hints

import tyro

from procrustean.base.errors import ConfigError, suggestion
from procrustean.cli.values import value_rules
from procrustean.records.run_spec import RunSpec
from procrustean.records.setting_types import ALSO_CALLED

#: Flags have plain names.
MARKERS = (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff)

_OPTION = re.compile(r"[A-Za-z_]\w*=.+")
_FLAG = re.compile(r"--[A-Za-z].*|-[A-Za-z]", re.DOTALL)
#: Of fields that are no flags.
_WITHOUT_FLAG = [get_args(kind)[1] for kind in (tyro.conf.Positional[str], tyro.conf.Suppress[str])]
#: In what tyro prints: colours, and lines between the parts of a message.
_COLOUR, _RULE = re.compile(r"\x1b\[[\d;]*m"), re.compile(r"[-─]{4,}")


def refuse_command(words: Sequence[str], known: Mapping[str, Sequence[str]]) -> NoReturn:
    """ConfigError for a command that there is not."""
    near = get_close_matches(words[-1], known, n=1)
    start = " ".join(["procrustean", *words[:-1]])
    advice = f"Did you mean `{' '.join(['procrustean', *known[near[0]]])}`?" if near else f"{start} --help lists them"
    raise ConfigError(f"there is no command {' '.join(words)!r}. {advice}")


def read(kind: type, path: Sequence[str], arguments: Sequence[str], **default: Any) -> Any:
    """A command with the flags that were given."""
    program = " ".join(["procrustean", *path])
    # Before the values are read: what follows an unknown flag would be taken for something else.
    for word in filter(_FLAG.fullmatch, arguments):
        _check_flag(word.partition("=")[0], kind, program)
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
    if not unknown:
        return parsed
    if issubclass(kind, RunSpec) and all(_OPTION.fullmatch(word) for word in unknown):
        raise ConfigError(f"options of the method need their flag: write --options {' '.join(unknown)}")
    raise ConfigError(f"{unknown[0]!r} is one word too many; {program} --help explains the command")


def _check_flag(flag: str, kind: type, program: str) -> None:
    """ConfigError for a flag that the command does not have."""
    given = flag.lstrip("-").replace("-", "_")
    types = get_type_hints(kind, include_extras=True)
    known = {name for name, type_ in types.items() if not _has_no_flag(type_)}
    if given in known or given.removeprefix("no_") in known or flag in ("-h", "--help"):
        return
    hint = _hint(given, known) if issubclass(kind, RunSpec) else ""
    hint = hint or "Give its value without a flag" * (given in types)
    if flag == "--net":
        files = [f"--{name.replace('_', '-')}" for name in ("allow_code", "method") if name in known]
        hint = f"Files of networks of your own are named by {files[0]} here, as those of methods are" if files else hint
    near = suggestion(flag, [f"--{name.replace('_', '-')}" for name in known], limit=1)
    raise ConfigError(f"there is no {flag}. {hint or near or f'{program} --help lists the flags'}")


def _has_no_flag(type_: Any) -> bool:
    """Whether a field of a command is given by its place, or not at all."""
    return any(marker in _WITHOUT_FLAG for marker in get_args(type_))


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


def _hint(flag: str, known: Collection[str]) -> str:
    """What was probably meant by a flag that there is not, where settings are given; empty if that is not known."""
    if flag in ("seeds", "methods"):
        return f"A run has one {flag[:-1]}; several are the runs of a grid: procrustean fleet grid.yaml (docs/fleet.md)"
    if flag == "resume":
        return "To go on with an interrupted run: procrustean resume RUN"
    setting = ALSO_CALLED.get(flag, flag)
    if setting == "run_dir" and "output" in known:
        setting = "output"
    if setting != flag:
        return f"It is --{setting.replace('_', '-')} here"
    from procrustean.methods.make import METHODS, option_defaults  # imports torch

    methods = [method for method in METHODS if flag in option_defaults(method)]
    of = f"method{'s' * (len(methods) > 1)} {', '.join(methods)}"
    choose = f", or --over {flag}=VALUE,VALUE,... to choose it" * ("over" in known)
    return f"It is an option of the {of}: write --options {flag}=VALUE{choose}" if methods else ""

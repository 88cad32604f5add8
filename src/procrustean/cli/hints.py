"""What to write instead of options that `train` and `tune` do not have but are often looked for there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise

from procrustean.records.run_spec import ALSO_CALLED, RunSpec

#: Settings that take one value in a run, with the flags under which several are asked for.
ONE_PER_RUN = {"seed": ("seed", "seeds"), "method": ("method", "methods")}

#: Flags that take all words up to the next one.
TAKES_SEVERAL = ("options", "over", "classes", "features_at")
#: Flags without a value.
_SWITCHES = tuple(field.name for field in fields(RunSpec) if isinstance(field.default, bool))
_OPTION = re.compile(r"[A-Za-z_]\w*=.+")


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

"""The settings of runs of MFW with the defaults that apply, and how to tell in words in what two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from procrustean.records.groups import Group, Result, named_settings
from procrustean.records.identity import data_setting

Option = Literal["alpha", "beta"]
OPTIONS: tuple[Option, ...] = ("alpha", "beta")
#: Settings that do not bear on what a run has learned at the end, or number the repeats.
NO_MATTER = ("evaluate_every", "data_seed")
#: Settings that follow from others, which are better named instead of them.
FOLLOW = ("hold_out_from", "classes", "counts", "source_hash")
#: So many characters of a value are shown.
LONGEST = 40


def names(result: Result, option: Option) -> bool:
    """Whether the option was given a value instead of left to its default."""
    return result.record["method"]["options"].get(option) is not None


def settings_of(result: Result) -> dict[str, Any]:
    """All in which runs of MFW can differ and that bears on what they learn, with the defaults that apply."""
    from procrustean.methods.make import option_defaults

    settings = {**option_defaults("mfw"), **named_settings(Group((result,))), **data_setting(result)}
    settings |= {option: value_of(result, option) for option in OPTIONS}
    return {name: value for name, value in settings.items() if name not in NO_MATTER}


def value_of(result: Result, option: Option) -> float | None:
    """The value of an option, given or by default; None where that depends on counts that were found as they are."""
    if names(result, option):
        return float(result.record["method"]["options"][option])
    from procrustean.balance.mfw import DEFAULT_ALPHA, DEFAULT_BETA
    from procrustean.methods.mfw import ALPHA

    kind = result.data["kind"]
    if option == "alpha":
        return ALPHA.get((str(result.data["source"]), kind), DEFAULT_ALPHA.get(kind))
    return DEFAULT_BETA.get(kind)


def differing(own: Mapping[str, Any], usual: Mapping[str, Any]) -> list[str]:
    """The settings in which two runs differ; those that follow from others only if there is nothing else."""
    found = [name for name in {**own, **usual} if own.get(name) != usual.get(name)]
    return [name for name in found if name not in FOLLOW] or found


def shown(value: Any) -> str:
    """The value of a setting, no longer than it has to be.

    >>> shown(None), shown(0.5), shown([5000] * 10)
    ('default', '0.5', '[5000, 5000, 5000, 5000, 5000, 5000, ...')
    """
    text = "default" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."

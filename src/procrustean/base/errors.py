"""Errors a user can mend. Each message says what is wrong, what was received and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class ProcrusteanError(Exception):
    """Base of every error that is the input's fault, not the library's; the CLI prints it and exits with 2."""


class ConfigError(ProcrusteanError, ValueError):
    """A setting, option or method name that cannot be used."""


class DataError(ProcrusteanError, ValueError):
    """Images, labels or files that cannot be used."""


class LayerError(ProcrusteanError, LookupError):
    """A layer that does not exist or whose output cannot be mixed."""


class RunError(ProcrusteanError, RuntimeError):
    """A run directory, checkpoint or training run that cannot go on."""


class ImagesChanged(RunError):
    """The images of a run are not those that it began with; they may be put back."""


class CannotWrite(RunError):
    """A file of a run that cannot be written; there may be room for it later, or permission."""


class Diverged(RunError):
    """A loss, gradient or weight was no finite number; other settings may train well."""


class NoGradient(RunError):
    """A loss that no weight is part of, so that nothing can be learnt from it."""


def one_of(name: str, value: object, accepted: tuple[str, ...]) -> None:
    """ConfigError for a choice that there is not."""
    if value not in accepted:
        raise ConfigError(f"{name} = {value!r} received; accepted: {', '.join(map(repr, accepted))}")


#: Most names that are suggested.
_NEAREST = 3
#: More names than these are not listed where none of them is near: catalogues of other libraries have thousands.
_LISTED = 50


def suggestion(name: str, known: Iterable[str], *, limit: int = _NEAREST) -> str:
    """A sentence that names the nearest known names; empty if none is near.

    >>> suggestion("steps", ["natural", "step"])
    "Did you mean 'step'?"
    """
    lowered = {other.lower(): other for other in known}
    near = [lowered[match] for match in get_close_matches(name.lower(), lowered, n=limit, cutoff=0.5)]
    return "Did you mean " + " or ".join(repr(n) for n in near) + "?" if near else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known names, or all of them if none is near and they can be read.

    >>> did_you_mean("focla", ["erm", "focal", "mfw"])
    "Did you mean 'focal'?"
    """
    known = list(known)
    if near := suggestion(name, known):
        return near
    if len(known) > _LISTED:
        lowered = {other.lower(): other for other in known}
        nearest = get_close_matches(name.lower(), lowered, n=_NEAREST, cutoff=0)
        return f"The nearest of the {len(known)} there are: " + ", ".join(repr(lowered[n]) for n in nearest) + "."
    return "Known: " + ", ".join(known) + "."

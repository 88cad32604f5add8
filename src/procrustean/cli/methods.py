"""procrustean methods"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass

import tyro

from .reflow import hanging, reflow


@dataclass(frozen=True)
class Methods:
    """List the training methods, or explain one: formula, options and defaults, cost, source."""

    name: tyro.conf.Positional[str | None] = None
    """Method to explain, one of your own as FILE.py:NAME; without it all are listed."""

    def run(self) -> int:
        from ..console import terminal_width, write_result
        from ..method_files import pinned_name, use_file
        from ..methods import METHODS

        width = terminal_width()
        if self.name is not None:
            write_result(_explained(use_file(pinned_name(self.name)), width))
            return 0
        column = max(map(len, METHODS)) + 2
        lines = [f"{name:{column}}{_summary(name)}" for name in METHODS]
        if sys.stdout.isatty():  # elsewhere one line each, for grep and its like
            lines = [hanging(line, width, indent=column * " ") for line in lines]
        write_result("\n".join([*lines, "", "procrustean methods NAME explains one."]))
        return 0


def _explained(name: str, width: int) -> str:
    from ..method_files import file_method, plain_name
    from ..methods import entry, factory, option_defaults

    made, known = factory(name), entry(name)
    defaults = ", ".join(f"{k}={v!r}" for k, v in option_defaults(name).items())
    rows = f"{', '.join(known.rows)} in the paper" if known.rows else "not in the paper"
    if own := file_method(name):
        rows = f"your own, sha256 {own.sha256}"
    facts = (
        f"Defaults: {defaults or 'no options'}",
        f"Training time relative to ERM: {known.cost}",
        f"Source: {known.source}",
    )
    parts = [f"{plain_name(name)} ({rows})", reflow(inspect.getdoc(made) or "", width)]
    return "\n\n".join([*parts, "\n".join(hanging(fact, width) for fact in facts)])


def _summary(name: str) -> str:
    from ..methods import factory

    return (inspect.getdoc(factory(name)) or "").partition("\n")[0]

"""procrustean methods"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass

import tyro

from procrustean.base.errors import ConfigError
from procrustean.cli.reflow import hanging, reflow


@dataclass(frozen=True)
class Methods:
    """List the training methods, or explain one: formula, options and defaults, cost, source."""

    name: tyro.conf.Positional[str | None] = None
    """Method to explain, one of your own as FILE.py:NAME; without it all are listed."""
    check: bool = False
    """Try it on the digits, half a minute: whether it trains, repeats itself, and can be resumed and loaded."""

    def run(self) -> int:
        from procrustean.base.code_files import pinned_name, use_file
        from procrustean.base.console import terminal_width, write_result
        from procrustean.methods.make import METHODS

        width = terminal_width()
        if self.check:
            return self._tried()
        if self.name is not None:
            write_result(_explained(use_file(pinned_name(self.name)), width))
            return 0
        column = max(map(len, METHODS)) + 2
        lines = [f"{name:{column}}{_summary(name)}" for name in METHODS]
        if sys.stdout.isatty():  # elsewhere one line each, for grep and its like
            lines = [hanging(line, width, indent=column * " ") for line in lines]
        write_result("\n".join([*lines, "", "procrustean methods NAME explains one."]))
        return 0

    def _tried(self) -> int:
        from procrustean.base.code_files import pinned_name, use_file
        from procrustean.base.console import write_result
        from procrustean.runs.method_trial import try_method

        if self.name is None:
            raise ConfigError("--check received without a method; name one: procrustean methods FILE.py:NAME --check")
        right = True
        for trial in try_method(use_file(pinned_name(self.name))):
            accuracy = "" if trial.accuracy is None else f", test balanced accuracy {100 * trial.accuracy:.1f} %"
            if trial.guesses:
                accuracy += ", which is not above chance: in these few epochs it has learnt nothing that shows"
            write_result(
                f"{trial.name}: {'; '.join(trial.faults) or 'trains, repeats itself, goes on, is loaded'}{accuracy}"
            )
            right = right and not trial.faults
        return 0 if right else 1


def _explained(name: str, width: int) -> str:
    from procrustean.base.code_files import file_code, plain_name
    from procrustean.methods.make import entry, factory, option_defaults

    made, known = factory(name), entry(name)
    defaults = ", ".join(f"{k}={v!r}" for k, v in option_defaults(name).items())
    rows = f"{', '.join(known.rows)} in the paper" if known.rows else "not in the paper"
    if own := file_code(name):
        rows = f"your own, sha256 {own.sha256}"
    facts = (
        f"Defaults: {defaults or 'no options'}",
        f"Training time relative to ERM: {known.cost}",
        f"Source: {known.source}",
    )
    parts = filter(None, [f"{plain_name(name)} ({rows})", reflow(inspect.getdoc(made) or "", width)])
    return "\n\n".join([*parts, "\n".join(hanging(fact, width) for fact in facts)])


def _summary(name: str) -> str:
    from procrustean.methods.make import factory

    return (inspect.getdoc(factory(name)) or "").partition("\n")[0]

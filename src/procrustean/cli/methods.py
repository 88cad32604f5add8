"""procrustean methods"""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import tyro


@dataclass(frozen=True)
class Methods:
    """List the training methods, or explain one: formula, options and defaults, cost, source."""

    name: tyro.conf.Positional[str | None] = None
    """Method to explain; without it all are listed."""

    def run(self) -> int:
        from ..console import write_result
        from ..methods import METHODS, factory, option_defaults

        if self.name is not None:
            made, entry = factory(self.name), METHODS[self.name]
            defaults = ", ".join(f"{k}={v!r}" for k, v in option_defaults(self.name).items())
            rows = f"{', '.join(entry.rows)} in the paper" if entry.rows else "not in the paper"
            write_result(
                f"{self.name} ({rows})\n\n{inspect.getdoc(made)}\n\nDefaults: {defaults or 'no options'}\n"
                f"Training time relative to ERM: {entry.cost}\nSource: {entry.source}"
            )
            return 0
        width = max(map(len, METHODS))
        lines = [f"{name:{width}}  {(inspect.getdoc(factory(name)) or '').partition(chr(10))[0]}" for name in METHODS]
        write_result("\n".join([*lines, "", "procrustean methods NAME explains one."]))
        return 0

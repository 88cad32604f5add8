"""Settings that are allowed and probably a mistake: said before training, in words."""

from __future__ import annotations

from collections.abc import Callable

from procrustean.engine.prepared import (
    Prepared,
)
from procrustean.runs.lint.double_corrections import corrected_twice
from procrustean.runs.lint.leaks import leaks
from procrustean.runs.lint.schedule_checks import (
    never_pastes,
    rate_against_batch,
    schedule_of_another,
    short_schedule,
)
from procrustean.runs.lint.small_classes import held_out_too_much, untested, unused_validation, without_a_say

Rule = Callable[[Prepared], list[str]]

#: Each looks at a run that is about to start and names what it finds.
RULES: tuple[Rule, ...] = (
    corrected_twice,
    leaks,
    held_out_too_much,
    without_a_say,
    unused_validation,
    untested,
    rate_against_batch,
    short_schedule,
    never_pastes,
    schedule_of_another,
)


def lint(prepared: Prepared) -> list[str]:
    """What is probably wrong with a run, one sentence each; an empty list if nothing is."""
    return [finding for rule in RULES for finding in rule(prepared)]

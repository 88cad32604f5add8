"""Candidates that cannot be trained are refused before any of them has cost time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from procrustean.base.errors import ConfigError, ProcrusteanError
from procrustean.data.imageset import Splits
from procrustean.engine.prepared import (
    Prepared,
)
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice.plan_training import planned
from procrustean.runs.image_loading import Sources
from procrustean.runs.preparing import (
    prepare,
    recipe_of,
)
from procrustean.runs.tuning.choice import options_text
from procrustean.runs.tuning.spaces import Space, space_texts
from procrustean.runs.tuning.suggested import Options


def check_space(base: RunSpec, space: Space) -> None:
    """Refuse a value for an option that is to be chosen: no candidate would have it."""
    for text, name in zip(space_texts(space), space, strict=True):
        if name in base.options:
            given = options_text({name: base.options[name]})
            raise ConfigError(
                f"options {given} received, but {name} is to be chosen, from {text}; leave it out of the options, or "
                "name with --over what else is to be chosen"
            )


def check_options(base: RunSpec, candidates: Sequence[Options]) -> None:
    """Refuse options that the method cannot have; needs no images."""
    for options in candidates:
        with _named(options):
            recipe_of(_with(base, options))


def check_runs(base: RunSpec, candidates: Sequence[Options], sources: Sources) -> None:
    """Refuse what the images or the network do not allow, and a choice without images to choose on."""
    plan = planned(base, load=sources)
    splits = plan.splits or sources(plan.config)
    if plan.config.hold_out == 0 and splits.val is None:
        raise ConfigError(
            f"hold_out = 0 received, and {base.source} has no validation split; tuning needs held-out images, "
            "3 per class in the paper"
        )
    for prepared in _prepared(plan.config, candidates, splits):
        check_held_out(prepared)


def check_held_out(prepared: Prepared) -> None:
    """ConfigError where the images to choose on are of a single class: guessing it always would be right."""
    held_out, config = prepared.data.held_out, prepared.config
    if held_out is None or np.count_nonzero(held_out.counts) > 1:
        return
    name = held_out.classes[int(held_out.counts.argmax())]
    instead = "hold out fewer of each class, or a share such as --hold-out 0.15"
    if not config.hold_out:
        instead = "add images of other classes to it, or hold training images out: --hold-out 3"
    where = "held-out images" if config.hold_out else "images of the validation split"
    raise ConfigError(
        f"{config.source}: the {len(held_out)} {where} are all of the class {name}, and to choose on them images of at "
        f"least two classes are needed; {instead}"
    )


def check_final(final: RunSpec, candidates: Sequence[Options], sources: Sources) -> None:
    """Refuse what the data set that is trained on in the end, if it is another one, does not allow."""
    plan = planned(final, load=sources)
    for _ in _prepared(plan.config, candidates, plan.splits or sources(plan.config)):
        pass


def _prepared(base: RunSpec, candidates: Sequence[Options], splits: Splits) -> Iterator[Prepared]:
    for options in candidates:
        with _named(options):
            prepared = prepare(_with(base, options), splits=splits)
        yield prepared


def _with(base: RunSpec, options: Options) -> RunSpec:
    return replace(base, options={**base.options, **options})


@contextmanager
def _named(options: Options) -> Iterator[None]:
    """Errors within say which candidate they are about."""
    try:
        yield
    except ProcrusteanError as error:
        raise type(error)(f"candidate {options_text(options)}: {error}") from error

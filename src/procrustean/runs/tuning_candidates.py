"""The candidates of a search: what they are trained on, whether they can be, whether one is the method's default."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from procrustean.balance.count_facts import kind_for_methods
from procrustean.balance.types import Problem
from procrustean.base.errors import ConfigError, ProcrusteanError
from procrustean.data.imageset import Splits
from procrustean.data.recipes import data_set
from procrustean.data.sets.data_set import DataSet
from procrustean.data.sets.data_set_table import all_sets
from procrustean.data.sources import has_validation
from procrustean.engine.prepared import (
    Prepared,
    known_source,
)
from procrustean.methods.make import checked_options, make_method, option_defaults
from procrustean.nets.build import layers_of
from procrustean.records.run_record import RunRecord
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice import planned
from procrustean.runs.choosing import options_text
from procrustean.runs.image_loading import Sources
from procrustean.runs.option_spaces import Options, Space, space_texts
from procrustean.runs.preparing import (
    effective_options,
    prepare,
    recipe_of,
)

#: Training images per class that decide where the source has no validation split; the paper's number.
PER_CLASS = 3


def default_hold_out(reported: RunSpec, choose_on: str | None) -> int:
    """What is held out where the user says nothing: 0, so that the validation split decides, or else three per class.

    Args:
        reported: settings of the training with the chosen options.
        choose_on: source that options are chosen on, if it was named.
    """
    if reported.hold_out_from == "source":  # who says where they are to be taken from wants some held out
        return PER_CLASS
    tuned_on = _tuning_set(reported.source)
    source = choose_on or (tuned_on.name if tuned_on else reported.source)
    return 0 if has_validation(source, reported.on_bad_image, reported.group) else PER_CLASS


def candidate_settings(reported: RunSpec, choose_on: str | None) -> RunSpec:
    """The settings under which candidates are trained and compared.

    Args:
        reported: those of the training with the chosen options, and how many images per class decide.
        choose_on: source that options are chosen on; None for the one that comes with the reported data set, if there
            is one, else for that data set itself.
    """
    if choose_on is not None:
        return replace(reported, source=choose_on)
    tuned_on = _tuning_set(reported.source)
    if tuned_on is None:
        return reported
    # As many images of each class are set aside there for this, so none of its five has to be taken from training.
    hold_out = 0 if reported.hold_out == min(tuned_on.counts["val"]) else reported.hold_out
    return replace(reported, source=tuned_on.name, hold_out=hold_out)


def _tuning_set(source: str) -> DataSet | None:
    """The data set that options for another one are chosen on."""
    return next((found for found in all_sets() if source and found.tuning_of == source), None)


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


def is_default(base: RunSpec, chosen: Options, record: RunRecord) -> bool:
    """Whether options, if there are any, are those that the method takes by itself.

    Args:
        base: the settings that all candidates share.
        chosen: options.
        record: of a candidate, for the images and the network, on which defaults may depend.
    """
    if not chosen:
        return False
    data, defaults = record.data, option_defaults(base.method)
    counts = tuple(data.counts)
    height, width, channels = data.image_shape
    layers = layers_of(record.recipe.net, channels=channels, classes=len(counts), size=(height, width))
    source = data_set(known_source(data.source, base))
    problem = Problem.on(layers, counts, kind_for_methods(data.kind, counts), source)
    others = {name: value for name, value in base.options.items() if name not in chosen}
    method = make_method(base.method, problem, effective_options(replace(base, options=others)))

    def default(name: str) -> Any:
        # None is left open until the images are known.
        return method.resolved.get(name) if defaults[name] is None else defaults[name]

    return all(value == default(name) for name, value in checked_options(base.method, chosen).items())

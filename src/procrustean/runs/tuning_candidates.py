"""The candidates of a search: what they are trained on, and whether they can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from procrustean.base.errors import ConfigError, ProcrusteanError
from procrustean.base.progress import Reporter
from procrustean.data.sets.data_set import DataSet
from procrustean.data.sets.data_set_table import all_sets
from procrustean.data.sources import has_validation, is_named
from procrustean.engine.prepared_run import Prepared
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice import HOLD_OUT, Plan
from procrustean.runs.choosing import check_held_out, options_text
from procrustean.runs.image_loading import Sources
from procrustean.runs.lint import lint
from procrustean.runs.option_spaces import Options, Space, space_texts
from procrustean.runs.preparing import prepare, recipe_of

#: Training images per class that decide where the source has no validation split; the paper's number.
PER_CLASS = 3


def default_hold_out(reported: RunSpec, choose_on: str | None) -> float:
    """What is held out where the user says nothing: 0, so that the validation split decides, else three per class of a
    known data set, and of the user's own images the share that `train` holds out.

    Args:
        reported: settings of the training with the chosen options.
        choose_on: source that options are chosen on, if it was named.
    """
    if reported.hold_out_from == "source":  # who says where they are to be taken from wants some held out
        return PER_CLASS
    tuned_on = _tuning_set(reported.source)
    source = choose_on or (tuned_on.name if tuned_on else reported.source)
    if has_validation(source, reported.on_bad_image, reported.group):
        return 0
    return PER_CLASS if is_named(source) else HOLD_OUT


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


def check_candidates(plan: Plan, final: Plan, candidates: Sequence[Options], reporter: Reporter) -> None:
    """Refuse what the images or the network do not allow, and a choice without images to choose on.

    Args:
        plan: the settings that candidates share.
        final: those of the training with the chosen options.
        candidates: their options.
        reporter: told what is probably a mistake.
    """
    first, *_ = [_prepared(plan, options) for options in candidates]
    check_held_out(first)
    for finding in lint(first):
        reporter.warn(finding)
    if final.config.source != plan.config.source:
        for options in candidates:
            _prepared(final, options)


def on_all(config: RunSpec, source: str) -> RunSpec:
    """The settings of the training on all images, perhaps of another source."""
    return replace(config, source=source, hold_out=0, hold_out_from="training")


def final_plan(plan: Plan, source: str, sources: Sources) -> Plan:
    """What `on_all` makes of a plan."""
    final = on_all(plan.config, source)
    if source == plan.config.source:
        return replace(plan, config=final, made=None)
    return Plan(final, None if is_named(source) else sources(final), plan.why, trials=plan.trials)


def _prepared(plan: Plan, options: Options) -> Prepared:
    with _named(options):
        return prepare(_with(plan.config, options), splits=plan.splits, made=plan.made)


def _with(base: RunSpec, options: Options) -> RunSpec:
    return replace(base, options={**base.options, **options})


@contextmanager
def _named(options: Options) -> Iterator[None]:
    """Errors within say which candidate they are about."""
    try:
        yield
    except ProcrusteanError as error:
        raise type(error)(f"candidate {options_text(options)}: {error}") from error

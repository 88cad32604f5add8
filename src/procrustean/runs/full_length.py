"""What `--method auto` leaves out to fit into its time: how long a training without a limit is, and how to have it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from procrustean.base.console import command_text
from procrustean.data.sources import list_source
from procrustean.records.run_spec import RunSpec
from procrustean.runs.advice.cost import this_machine
from procrustean.runs.advice.plan_training import Plan, settings_at, size_to_load, trained_on
from procrustean.runs.advice.settings import Settings


def full_length(asked: RunSpec, plan: Plan) -> Settings | None:
    """Network, size of the images and epochs of a training without a limit of time, if they are others than the plan's.

    Args:
        asked: the settings as they were given.
        plan: what was made of them for a comparison within a time.
    """
    if asked.epochs is not None or asked.recipe != "auto" or plan.splits is None:
        return None
    images, shape = sum(trained_on(plan.config, plan.splits)), plan.splits.train.images.shape[1:]
    machine = this_machine(asked.device, precision=asked.precision)
    if _size_was_chosen(asked, plan.config):
        listing = list_source(asked.source, asked.on_bad_image)
        _, size = size_to_load(listing, replace(asked, hold_out=plan.config.hold_out), machine)
        shape = (size, size, shape[2])
    full = settings_at(asked, images, shape, machine, size_given=asked.image_size is not None)
    planned_size = max(plan.splits.train.images.shape[1:3])
    same = (full.net, full.size, full.epochs) == (plan.config.net, planned_size, plan.config.epochs)
    return None if same else full


def _size_was_chosen(asked: RunSpec, planned: RunSpec) -> bool:
    """Whether the size of image files was left open, so that it goes by the time as well."""
    return asked.image_size is None and planned.image_size is not None


def full_text(config: RunSpec, full: Settings) -> str:
    """The whole, beside what a comparison trains: its images are named where they have another size there."""
    return _named(full.net, full.size if _resized(config, full) else None, full.epochs)


def shortened_text(config: RunSpec, full: Settings, minutes: float) -> str:
    """What a comparison trains in place of the whole."""
    here, there = f"{config.epochs} epochs", f"{full.epochs}"
    if config.net != full.net or _resized(config, full):
        size = config.image_size if _resized(config, full) else None
        here, there = _named(config.net, size, config.epochs), full_text(config, full)
    return f"{here} instead of {there}, to fit into {minutes:g} minute{'s' * (minutes != 1)}"


def _resized(config: RunSpec, full: Settings) -> bool:
    return config.image_size not in (None, full.size)


def _named(net: str | None, size: int | None, epochs: int | None) -> str:
    pixels = "" if size is None else f" at {size} x {size} pixels"
    return f"{net}{pixels} for {epochs} epochs"


def train_command(config: RunSpec) -> str:
    """The command that trains with these settings; those that are as by default are left out.

    >>> train_command(RunSpec("photos", method="mfw", drw=True, options={"alpha": 0.2}, hold_out=0.15))
    'procrustean train photos --method mfw --options alpha=0.2 --drw --hold-out 0.15'
    """
    usual = RunSpec(config.source, method=config.method)
    words: list[Any] = ["train", config.source]
    for name in (field.name for field in fields(RunSpec) if field.name != "source"):
        value = getattr(config, name)
        if value != getattr(usual, name) or name == "method":
            words += [f"--{name.replace('_', '-')}", *_written(value)]
    return command_text(*words)


def _written(value: Any) -> list[str]:
    if isinstance(value, bool):
        return []
    if isinstance(value, dict):
        return [f"{key}={option}" for key, option in value.items()]
    return [str(part) for part in value] if isinstance(value, tuple) else [str(value)]

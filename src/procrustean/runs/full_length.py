"""What `--method auto` leaves out to fit into its time: how long a training without a limit is, and how to have it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..advice.cost import this_machine
from ..advice.planning import Plan, settings_at, trained_on
from ..advice.settings import Settings
from ..config import RunConfig
from ..progress.console import command_text


def full_length(asked: RunConfig, plan: Plan) -> Settings | None:
    """Network and epochs of a training without a limit of time, if they are others than the plan's.

    Args:
        asked: the settings as they were given.
        plan: what was made of them for a comparison within a time.
    """
    if asked.epochs is not None or asked.recipe != "auto" or plan.splits is None:
        return None
    images, shape = sum(trained_on(plan.config, plan.splits)), plan.splits.train.images.shape[1:]
    machine = this_machine(asked.device, precision=asked.precision)
    full = settings_at(asked, images, shape, machine, size_given=asked.image_size is not None)
    return None if (full.net, full.epochs) == (plan.config.net, plan.config.epochs) else full


def shortened_text(config: RunConfig, full: Settings, minutes: float) -> str:
    """What a comparison trains in place of the whole."""
    here, there = f"{config.epochs} epochs", f"{full.epochs}"
    if config.net != full.net:
        here, there = f"{config.net} for {here}", f"{full.net} for {there}"
    return f"{here} instead of {there}, to fit into {minutes:g} minute{'s' * (minutes != 1)}"


def train_command(config: RunConfig) -> str:
    """The command that trains with these settings; those that are as by default are left out.

    >>> train_command(RunConfig("photos", method="mfw", drw=True, options={"alpha": 0.2}, hold_out=0.15))
    'procrustean train photos --method mfw --options alpha=0.2 --drw --hold-out 0.15'
    """
    usual = RunConfig(config.source, method=config.method)
    words: list[Any] = ["train", config.source]
    for name in (field.name for field in fields(RunConfig) if field.name != "source"):
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

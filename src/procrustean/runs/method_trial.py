"""A short trial of a method on the digits: what has to hold for any run to be trusted, before a long one is trained."""

from __future__ import annotations

import itertools
import math
import tempfile
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from procrustean.balance.metrics import Metrics
from procrustean.base.code_files import plain_name
from procrustean.base.errors import Diverged, NoGradient, ProcrusteanError, RunError
from procrustean.base.progress import Reporter
from procrustean.base.user_code import failure_text
from procrustean.engine.make_record import identity_of
from procrustean.engine.training import Interrupted
from procrustean.methods.make import factory, option_defaults
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_spec import RunSpec
from procrustean.runs.gradient_watch import GradientWatch
from procrustean.runs.one_run import FinishedRun, OngoingRun
from procrustean.runs.preparing import prepare
from procrustean.runs.train_api import evaluate, resume
from procrustean.runs.value_watch import ValueWatch

EPOCHS = 5
#: Steps, of 17 in an epoch, after which the second run is stopped: not between two epochs.
STOPPED_AFTER = 40


@dataclass(frozen=True)
class Trial:
    """What came of a method with certain options."""

    options: dict[str, Any]
    faults: tuple[str, ...]
    accuracy: float | None  # balanced, on the test images; None if it came to no end
    chance: float = 0.0  # the accuracy up to which it may be a guess

    @property
    def name(self) -> str:
        """The options as one writes them."""
        return _named(self.options)

    @property
    def guesses(self) -> bool:
        """Whether what it answers may as well be guessed."""
        return self.accuracy is not None and self.accuracy <= self.chance


def try_method(method: str) -> Iterator[Trial]:
    """Train a method with its defaults, with each of its switches the other way round, and each other named choice.

    Args:
        method: its name; files have to be named by the user (`use_file`).

    Raises:
        RunError: for an error that arises in training, with its place in the file.
    """
    plain: bytes | None = None
    for options in ({}, *_other_choices(method)):
        try:
            with tempfile.TemporaryDirectory() as folder:
                trial, weights = _tried(method, options, Path(folder))
        except ProcrusteanError:
            raise
        except Exception as error:  # whatever the method does
            raise RunError(
                f"{plain_name(method)}, {_named(options)}: training fails with {failure_text(error)}; --debug shows "
                "the way there"
            ) from error
        if options == {}:
            plain = weights
        elif weights is not None and weights == plain:
            trial = replace(trial, faults=(*trial.faults, "it trains the same network as without this option"))
        yield trial


def _named(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}".lower() for name, value in options.items()) or "defaults"


def _other_choices(method: str) -> Iterator[dict[str, Any]]:
    """Each value beside the default of the options that have but a few, one at a time."""
    hints = typing.get_type_hints(factory(method))
    for name, default in option_defaults(method).items():
        kinds = typing.get_args(hints[name]) if typing.get_origin(hints[name]) is not typing.Literal else (hints[name],)
        named = [value for kind in kinds for value in typing.get_args(kind)]
        for value in [not default] if hints[name] is bool else named:
            if value != default:
                yield {name: value}


def _tried(method: str, options: dict[str, Any], folder: Path) -> tuple[Trial, bytes | None]:
    config = RunSpec("digits", "step", 20, method=method, options=options, epochs=EPOCHS, device="cpu")
    gradients, values = GradientWatch(), ValueWatch()
    try:
        run = _trained(config, folder / "whole", watches=(gradients, values))
    except Diverged:  # whose text names a folder that is gone by then
        return Trial(options, ("a loss, gradient or weight is no finite number", *values.faults()), None), None
    except NoGradient:
        return Trial(options, (*gradients.faults(), *values.faults()), None), None
    weights = (run.path / "model.safetensors").read_bytes()
    faults = (*gradients.faults(), *values.faults(), *_faults(config, run, weights, folder))
    metrics = run.metrics
    return Trial(options, faults, metrics.balanced_accuracy, _chance(metrics)), weights


def _chance(metrics: Metrics) -> float:
    """The balanced accuracy of a guess, and two standard errors more."""
    guess = 1 / len(metrics.recall)
    return guess + 2 * math.sqrt(guess * (1 - guess) / metrics.images)


def _faults(config: RunSpec, run: FinishedRun, weights: bytes, folder: Path) -> Iterator[str]:
    if evaluate(run.path).confusion != run.metrics.confusion:
        yield (
            "the network that is loaded again is not the one that was trained: what a reshape draws has to come from "
            "torch's generator, and what the network learns has to be in its state dict"
        )
    torch.manual_seed(12345)  # what others draw must make no difference
    again = _trained(config, folder / "again")
    if (again.path / "model.safetensors").read_bytes() != weights:
        yield (
            "another run with the same seed ends differently: it draws random numbers itself; a loss or a mixer is "
            "given those that it names in draws, a sampler draws from its stream, fresh weights are drawn in reshape"
        )
        return
    _trained(config, folder / "stopped", stop_after=STOPPED_AFTER)
    resumed = resume(folder / "stopped")
    if (resumed.path / "model.safetensors").read_bytes() != weights:
        yield (
            "a run that is stopped and goes on ends differently: what its objective learns or remembers has to be in "
            "buffers or parameters, which checkpoints keep"
        )


def _trained(
    config: RunSpec, path: Path, stop_after: int | None = None, watches: Sequence[GradientWatch | ValueWatch] = ()
) -> Any:
    """The finished run; None if it was to be stopped."""
    prepared, asked = prepare(config), itertools.count(1)
    for watch in watches:
        watch.look_at(prepared.method.stages)
    directory = RunFolder.create(path, config, identity_of(prepared))
    run = OngoingRun(prepared, directory, Reporter(), stop=lambda: stop_after is not None and next(asked) >= stop_after)
    try:
        for _ in run.turns():
            pass
    except Interrupted:
        return None
    return run.finished

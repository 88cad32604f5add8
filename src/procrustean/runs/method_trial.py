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
from torch import Tensor, nn

from procrustean.balance.metrics import Metrics
from procrustean.balance.objectives import Mixer, Mixture, check_mixture
from procrustean.balance.types import Batch
from procrustean.base.errors import Diverged, NoGradient, ProcrusteanError, RunError
from procrustean.base.own_code import code_name, failure_text, plain_name
from procrustean.base.progress import Reporter
from procrustean.engine.make_record import identity_of
from procrustean.engine.training import Interrupted
from procrustean.methods.make import factory, option_defaults
from procrustean.methods.method import Stage
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_spec import RunSpec
from procrustean.runs.one_run import FinishedRun, OngoingRun
from procrustean.runs.preparing import prepare
from procrustean.runs.train_api import evaluate, resume

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
    watch = Watch()
    try:
        run = _trained(config, folder / "whole", watch=watch)
    except Diverged:  # whose text names a folder that is gone by then
        return Trial(options, ("a loss, gradient or weight is no finite number", *watch.faults()), None), None
    except NoGradient:
        return Trial(options, watch.faults(), None), None
    weights = (run.path / "model.safetensors").read_bytes()
    faults = (*watch.faults(), *_faults(config, run, weights, folder))
    return Trial(options, faults, run.metrics.balanced_accuracy, _chance(run.metrics)), weights


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


def _trained(config: RunSpec, path: Path, stop_after: int | None = None, watch: Watch | None = None) -> Any:
    """The finished run; None if it was to be stopped."""
    prepared, asked = prepare(config), itertools.count(1)
    if watch is not None:
        watch.look_at(prepared.method.stages)
    directory = RunFolder.create(path, config, identity_of(prepared))
    run = OngoingRun(prepared, directory, Reporter(), stop=lambda: stop_after is not None and next(asked) >= stop_after)
    try:
        for _ in run.turns():
            pass
    except Interrupted:
        return None
    return run.finished


class Watch:
    """Looks on while a method is trained: whether each loss has a gradient, and whether partners fit one another.

    Weights change without a gradient as well: they decay, and batch normalisation keeps its statistics.
    """

    def __init__(self) -> None:
        self._learns: dict[nn.Module, bool] = {}  # of the objectives that were asked
        self._stage: dict[nn.Module, int] = {}  # the first that minimises it
        self._mixed: dict[str, None] = {}  # each fault once

    def look_at(self, stages: Sequence[Stage]) -> None:
        for number, stage in enumerate(stages, 1):
            if stage.objective in self._stage:
                continue
            self._stage[stage.objective] = number
            stage.objective.register_forward_hook(self._look_at_loss)
            for part in stage.objective.modules():
                if isinstance(part, Mixer):
                    part.register_forward_hook(self._look_at_mixture)

    def faults(self) -> tuple[str, ...]:
        idle = [
            f"the loss of stage {self._stage[objective]} has no gradient, so nothing is learnt: it does not depend on "
            "the scores"
            for objective, learns in self._learns.items()
            if not learns
        ]
        return (*idle, *self._mixed)

    def _look_at_loss(self, objective: nn.Module, inputs: tuple[Any, ...], loss: Tensor) -> None:
        """After a step's loss; once a gradient was found there is nothing more to find out."""
        if self._learns.setdefault(objective, False):
            return
        parameters = [parameter for parameter in inputs[0].parameters() if parameter.requires_grad]
        gradients = (
            torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True) if loss.requires_grad else ()
        )
        if all(gradient is None for gradient in gradients):  # no weight is part of it, and the step would fail
            raise NoGradient("the loss does not depend on the network")
        self._learns[objective] = any(gradient is not None and bool(gradient.any()) for gradient in gradients)

    def _look_at_mixture(self, mixer: Mixer, inputs: tuple[Batch], mixture: Mixture) -> None:
        (batch,) = inputs
        check_mixture(mixture, mixer, batch)
        order = torch.arange(len(batch.y), device=batch.y.device)
        for mix in mixture.mixes:
            if not torch.equal(mix.partner[mix.inverse], order):
                self._mixed[
                    f"the inverse in a Mix of {code_name(mixer)} is not that of its partner, so gradients are wrong: "
                    "take batch.partner and batch.inverse, or inverse_permutation(partner) of procrustean.balance"
                ] = None
            if mixture.label_weight is not None and not torch.equal(mix.partner, batch.partner):
                self._mixed[
                    f"{code_name(mixer)} mixes features with other partners than batch.partner, with whose labels the "
                    "labels are mixed: take batch.partner"
                ] = None

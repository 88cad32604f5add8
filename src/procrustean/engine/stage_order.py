"""The order of a method's stages: how many epochs each gets, what each changes about the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from procrustean.base.console import number_of
from procrustean.base.errors import ConfigError
from procrustean.base.random_numbers import torch_seed
from procrustean.methods.method import CleanBatches, Judge, Method, check_shares
from procrustean.nets.classifier import Classifier


def reshape_for(net: Classifier, method: Method, number: int, seed: int) -> None:
    """What a stage changes about the network, on the CPU: the same numbers are drawn on every device."""
    reshape = method.stages[number].reshape
    if reshape is None:
        return
    # Random numbers fill a tensor in the order of its memory, which is not the same for a run that was loaded.
    net.cpu().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    with _seeded(torch.device("cpu"), seed, "stage", number):
        reshape(net)


def begin_stage(net: Classifier, method: Method, number: int, seed: int, batches: CleanBatches) -> None:
    """What a stage sets from the training images before its first step, on the device of the network."""
    begin = method.stages[number].begin
    if begin is not None:
        with _seeded(_device_of(net), seed, "begin", number):
            begin(net, batches)


def finished(net: Classifier, method: Method, seed: int, judge: Judge | None) -> dict[str, Any]:
    """Turn the trained network into the one that predicts; returns what the method has to say about it."""
    if method.finish is None:
        return {}
    with _seeded(_device_of(net), seed, "finish"):
        return method.finish(net, judge) or {}


def _device_of(net: Classifier) -> torch.device:
    return next(net.parameters()).device


@contextmanager
def _seeded(device: torch.device, seed: int, *purpose: str | int) -> Iterator[None]:
    """Inside, torch's generators of the CPU and of the device are seeded for a purpose; outside they are as before."""
    gpu = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpu):
        number = torch_seed(seed, *purpose)
        torch.default_generator.manual_seed(number)  # torch.manual_seed would reseed all GPUs
        if gpu:
            torch.cuda.manual_seed(number)
        yield


def stage_epochs(method: Method, epochs: int) -> list[int]:
    """Epochs of each stage by their shares; they add up, and every stage has at least one."""
    check_shares(method, method.label)
    shares = [stage.share for stage in method.stages]
    if epochs < len(shares):
        raise ConfigError(
            f"{number_of(epochs, 'epoch')} received for {len(shares)} stages; every stage needs at least one"
        )
    lengths = [1] * len(shares)
    for _ in range(epochs - len(shares)):
        # The next epoch goes to the stage that is furthest behind its share; ties to the earlier one.
        behind = [share * epochs - length for share, length in zip(shares, lengths, strict=True)]
        lengths[behind.index(max(behind))] += 1
    return lengths


def stages_text(method: Method, epochs: int) -> str:
    """The epochs of several stages in words, which each go through the recipe's schedule; nothing for a single one."""
    if len(method.stages) == 1:
        return ""
    lengths = zip(method.stages, stage_epochs(method, epochs), strict=True)
    each = ", ".join(f"{stage.name} {number_of(length, 'epoch')}" for stage, length in lengths)
    return f"{each}; every stage begins the schedule anew"

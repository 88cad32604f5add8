"""The order of a method's stages: how many epochs each gets, what each changes about the network."""

from __future__ import annotations

import torch

from ..errors import ConfigError
from ..methods.base import Method
from ..methods.parts import check_shares
from ..nets.classifier import Classifier
from ..rng import torch_seed

#: More are a slip of the keyboard, and their plan alone would take minutes.
MOST_EPOCHS = 1_000_000


def reshape_for(net: Classifier, method: Method, number: int, seed: int) -> None:
    """What a stage changes about the network, on the CPU: the same numbers are drawn on every device."""
    reshape = method.stages[number].reshape
    if reshape is None:
        return
    # Random numbers fill a tensor in the order of its memory, which is not the same for a run that was loaded.
    net.cpu().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(torch_seed(seed, "stage", number))
        reshape(net)


def stage_epochs(method: Method, epochs: int) -> list[int]:
    """Epochs of each stage by their shares; they add up, and every stage has at least one."""
    check_shares(method, method.label)
    shares = [stage.share for stage in method.stages]
    if epochs > MOST_EPOCHS:
        raise ConfigError(f"{epochs:,} epochs received; at most {MOST_EPOCHS:,} are taken, which no data set needs")
    if epochs < len(shares):
        raise ConfigError(f"{epochs} epochs received for {len(shares)} stages; every stage needs at least one")
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
    each = ", ".join(f"{stage.name} {length} epoch{'s' * (length > 1)}" for stage, length in lengths)
    return f"{each}; every stage begins the schedule anew"

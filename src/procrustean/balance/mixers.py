"""Who is mixed with whom in a batch: what a mixer decides, and whether that fits the batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor, nn

from procrustean.balance.mixing import Mix
from procrustean.balance.types import Batch
from procrustean.base.errors import ConfigError
from procrustean.base.user_code import code_name, returned_text


class Mixture(NamedTuple):
    """What a mixer decides for a batch."""

    mixes: tuple[Mix, ...]  # one for each layer of the mixer
    label_weight: Tensor | None  # [B] the partner's share of the label; None keeps the labels


class Mixer(nn.Module):
    """Decides who is mixed with whom, how strongly, and where."""

    at: tuple[str, ...] = ()  # layers, by published name or module path
    draws: Mapping[str, tuple[int, ...]] = {}  # uniforms needed per sample: name -> shape

    def forward(self, batch: Batch) -> Mixture:
        raise TypeError(f"{type(self).__name__} does not say how it mixes: override forward")


def check_mixture(mixture: Mixture, mixer: Mixer, batch: Batch) -> None:
    """ConfigError for what a mixer may not return. Of tensors only shapes are asked, for which nothing waits."""
    if not isinstance(mixture, Mixture):
        raise ConfigError(
            f"the mixer {code_name(mixer)} returns {returned_text(mixture)}; return Mixture(mixes, label_weight), from "
            "procrustean.balance"
        )
    if len(mixture.mixes) != len(mixer.at):
        raise ConfigError(
            f"the mixer {code_name(mixer)} returns {len(mixture.mixes)} mixes for the {len(mixer.at)} layers in its "
            f"`at`, {tuple(mixer.at)}; return one for each"
        )
    for mix in mixture.mixes:
        if not isinstance(mix, Mix):
            raise ConfigError(
                f"the mixer {code_name(mixer)} returns {returned_text(mix)} among its mixes; return Mix(partner, "
                "inverse, weight), from procrustean.balance.mixing"
            )
        for name, values in zip(Mix._fields, mix, strict=True):
            _check_per_sample(values, name, mixer, batch)
    if mixture.label_weight is not None:
        _check_per_sample(mixture.label_weight, "label_weight", mixer, batch)


def _check_per_sample(values: object, name: str, mixer: Mixer, batch: Batch) -> None:
    if not isinstance(values, Tensor) or values.shape != batch.y.shape:
        raise ConfigError(
            f"the mixer {code_name(mixer)} returns {returned_text(values)} as {name}, but one number per sample is "
            f"needed, {tuple(batch.y.shape)}; one for the whole batch is repeated by share.expand(len(batch.y))"
        )

"""The engines: eager, captured, compiled and captured; which one a run gets, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..errors import ConfigError
from ..methods.base import Method
from .capture import EagerRunner, GraphRunner, Runner
from .step import TrainStep


@dataclass(frozen=True)
class Engine:
    """How the steps of a run are carried out."""

    name: Literal["eager", "captured", "compiled"]
    reason: str

    def runners(self, steps: Sequence[TrainStep], state: Sequence[Tensor]) -> list[Runner]:
        """One runner for each batch size."""
        if self.name == "eager":
            return [EagerRunner(step) for step in steps]
        if self.name == "compiled":
            for step in steps:
                step.compile()
        # cuDNN times its algorithms once per shape; without it the thin convolutions run at half speed.
        with torch.backends.cudnn.flags(enabled=True, benchmark=not torch.are_deterministic_algorithms_enabled()):
            pool = torch.cuda.graph_pool_handle()
            return [GraphRunner(step, state, pool) for step in steps]


def choose_engine(asked: str, device: torch.device, method: Method) -> Engine:
    """The engine that is asked for, or the fastest one that the device and the method allow."""
    hindrance = _hindrance(device, method)
    if asked in ("captured", "compiled") and hindrance:
        raise ConfigError(f"engine {asked!r} received, but {hindrance}; use --engine eager or leave it out")
    if asked == "eager":
        return Engine("eager", "as asked for")
    if hindrance:
        return Engine("eager", hindrance)
    if asked == "compiled":
        return Engine("compiled", "as asked for")
    return Engine("captured", "as asked for" if asked == "captured" else "whole steps as CUDA graphs")


def _hindrance(device: torch.device, method: Method) -> str:
    if device.type != "cuda":
        return "CUDA graphs need a GPU"
    loose = [stage.name for stage in method.stages if not stage.objective.capturable]
    if loose:
        return f"stage {loose[0]!r} of {method.label} has shapes or steps that depend on the data"
    return ""

"""The engines that carry out training steps: eager, captured as CUDA graphs, compiled and captured.

A captured step costs the host one launch instead of several hundred. It is the same function over the same tensors,
so everything that changes over time (cursor, learning rate, epoch) is read from device memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from procrustean.base.errors import ConfigError
from procrustean.engine.device import Placement
from procrustean.engine.step import TrainStep
from procrustean.methods.method import Method
from procrustean.nets.blocks import FusableUnit
from procrustean.nets.own_net import OwnBackbone

WARM_UP_STEPS = 3


class Runner(Protocol):
    """Carries out a step any number of times."""

    def __call__(self, count: int) -> None: ...


class EagerRunner:
    """Calls the step."""

    def __init__(self, step: Callable[[], None]) -> None:
        self.step = step

    def __call__(self, count: int) -> None:
        for _ in range(count):
            self.step()


class GraphRunner:
    """Captures the step as one CUDA graph on the current stream and replays it.

    Args:
        step: a function of tensors that stay where they are.
        state: every tensor the step changes; the warm-up steps before the capture are undone through it.
        pool: memory shared with the other graphs of the same run, which never run at the same time.
    """

    def __init__(self, step: Callable[[], None], state: Sequence[Tensor], pool: Any) -> None:
        stream = torch.cuda.current_stream()
        if stream == torch.cuda.default_stream():
            raise RuntimeError("a step cannot be captured on the default stream; enter a stream of the run's own")
        before = [tensor.clone() for tensor in state]
        # Warm-up lets cuDNN choose its algorithms and libraries allocate their workspaces, which a capture must not do.
        # Each step is undone at once: the cursor must not run past the end of the plan.
        for _ in range(WARM_UP_STEPS):
            step()
            _restore(state, before)
        self.graph = torch.cuda.CUDAGraph()
        # "thread_local": another thread (a logger, a notebook) may use the device meanwhile.
        with torch.cuda.graph(self.graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            step()

    def __call__(self, count: int) -> None:
        for _ in range(count):
            self.graph.replay()


@torch.no_grad()
def _restore(state: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for tensor, value in zip(state, values, strict=True):
        tensor.copy_(value)


EngineName = Literal["eager", "captured", "compiled"]


@dataclass(frozen=True)
class Engine:
    """How the steps of a run are carried out."""

    name: EngineName
    reason: str
    kernels: bool = False  # hand-written kernels for the units of small residual networks

    def runners(self, steps: Sequence[TrainStep], state: Sequence[Tensor]) -> list[Runner]:
        """One runner for each batch size."""
        if self.name == "eager":
            return [EagerRunner(step) for step in steps]
        if self.name == "compiled":
            for step in steps:
                step.compile()
        with timed_algorithms():
            pool = torch.cuda.graph_pool_handle()
            return [GraphRunner(step, state, pool) for step in steps]


@contextmanager
def timed_algorithms() -> Iterator[None]:
    """cuDNN times its algorithms once per shape, unless they have to be deterministic: else thin convolutions run at
    half speed.

    Nothing else of it is touched, as `torch.backends.cudnn.flags` would: that sets what is not named to its default.
    """
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    cudnn.benchmark = not (cudnn.deterministic or torch.are_deterministic_algorithms_enabled())
    try:
        yield
    finally:
        cudnn.benchmark = before


def choose_engine(
    asked: str, kernels: str, placement: Placement, method: Method, net: nn.Module | None = None
) -> Engine:
    """The engine that is asked for, or the fastest one that the device, the method and the network allow."""
    name, reason = _engine_name(asked, placement.device, method)
    if asked == "auto" and name == "captured" and isinstance(net, OwnBackbone):
        name, reason = "eager", "a network of your own may decide by values; --engine captured is faster if it does not"
    missing = _without_kernels(placement, name) or ("" if net is None else _without_units(net))
    if kernels == "on" and missing:
        raise ConfigError(f"kernels 'on' received, but {missing}; use --kernels auto or off")
    return Engine(name, reason, kernels=kernels != "off" and not missing)


def _engine_name(asked: str, device: torch.device, method: Method) -> tuple[EngineName, str]:
    hindrance = _hindrance(asked, device, method)
    if asked in ("captured", "compiled") and hindrance:
        raise ConfigError(f"engine {asked!r} received, but {hindrance}; use --engine eager or leave it out")
    if asked == "eager":
        return "eager", "as asked for"
    if hindrance:
        return "eager", hindrance
    if asked == "compiled":
        return "compiled", "as asked for"
    return "captured", "as asked for" if asked == "captured" else "whole steps as CUDA graphs"


def _without_kernels(placement: Placement, engine: EngineName) -> str:
    if placement.device.type != "cuda":
        return "they need a GPU"
    if placement.low_precision is None:
        return "they compute in bf16"
    if engine == "compiled":
        return "torch.compile cannot look inside them"
    return "" if find_spec("triton") else "Triton is not installed"


def _without_units(net: nn.Module) -> str:
    found = any(isinstance(module, FusableUnit) for module in net.modules())
    return "" if found else "this network has no layers that they are for, as resnet20 to resnet56 have"


def _hindrance(asked: str, device: torch.device, method: Method) -> str:
    if device.type != "cuda":
        return "CUDA graphs need a GPU"
    loose = [stage.name for stage in method.stages if not stage.objective.capturable]
    if loose:
        return f"stage {loose[0]!r} of {method.label} has shapes or steps that depend on the data"
    whole = [stage.name for stage in method.stages if not stage.objective.compilable]
    if asked == "compiled" and whole:
        return f"stage {whole[0]!r} of {method.label} cannot be compiled into one graph"
    return ""

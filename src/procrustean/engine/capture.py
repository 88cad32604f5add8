"""How a training step is carried out: eagerly, or captured once as a CUDA graph and replayed.

A captured step costs the host one launch instead of several hundred. It is the same function over the same tensors,
so everything that changes over time (cursor, learning rate, epoch) is read from device memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

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

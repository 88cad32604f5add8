"""Forward passes that gradient checkpointing repeats."""

from __future__ import annotations

import torch


def recomputes() -> bool:
    """Whether a forward pass runs inside backward, as gradient checkpointing lets it."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1

"""Class weights on several processes: the gradient of a step is that of one process with the whole batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("transformers")


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
def test_the_gradient_is_that_of_the_whole_batch(count: int, processes: Callable[..., list[str]]) -> None:
    processes(Path(__file__).with_name("weighting_worker.py"), count=count)

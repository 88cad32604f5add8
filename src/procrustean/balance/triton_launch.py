"""Launch Triton kernels, or only compile them, many at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import triton

_compiling: ContextVar[bool] = ContextVar("procrustean_compiling", default=False)


def compiling_only() -> bool:
    """Whether launches only compile."""
    return _compiling.get()


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    """Run a kernel, or have it compiled in the background inside `compile_in_parallel`."""
    if compiling_only():
        kernel.warmup(*arguments, grid=grid, **options)
    else:
        kernel[grid](*arguments, **options)


@contextmanager
def compile_in_parallel() -> Iterator[None]:
    """Inside it launches compute nothing: kernels are compiled by several threads, and are ready at its end."""
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as threads, triton.AsyncCompileMode(threads):
        token = _compiling.set(True)
        try:
            yield
        finally:
            _compiling.reset(token)

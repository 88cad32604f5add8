"""Imbalanced image data: sources, the imbalance builder and its counts. Names are resolved on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from procrustean.data.imageset import ImageSet, Splits
    from procrustean.data.imbalance import (
        HoldOut,
        Imbalanced,
        build,
        hold_out,
        long_tailed_counts,
        select,
        step_counts,
    )
    from procrustean.data.sources import describe_sources, load_source

__all__ = [
    "HoldOut",
    "ImageSet",
    "Imbalanced",
    "Splits",
    "build",
    "describe_sources",
    "hold_out",
    "load_source",
    "long_tailed_counts",
    "select",
    "step_counts",
]

_HOMES = {
    **dict.fromkeys(("ImageSet", "Splits"), "imageset"),
    **dict.fromkeys(("describe_sources", "load_source"), "sources"),
    **dict.fromkeys(
        ("HoldOut", "Imbalanced", "build", "hold_out", "long_tailed_counts", "select", "step_counts"),
        "imbalance",
    ),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

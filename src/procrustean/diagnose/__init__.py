"""Why a network does what it does to its classes: the paper's analyses, for any network and for every run.

Names are resolved on first use, so that the command line can answer `--help` without loading torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from procrustean.diagnose.curves import Curves, curves_of
    from procrustean.diagnose.deviation import feature_deviation
    from procrustean.diagnose.findings import Finding, verdict
    from procrustean.diagnose.finished import Diagnosis, diagnose_run
    from procrustean.diagnose.gradients import feature_gradient_norms, mean_per_class
    from procrustean.diagnose.ratio import classification_ratio

__all__ = [
    "Curves",
    "Diagnosis",
    "Finding",
    "classification_ratio",
    "curves_of",
    "diagnose_run",
    "feature_deviation",
    "feature_gradient_norms",
    "mean_per_class",
    "verdict",
]

_HOMES = {
    "classification_ratio": "ratio",
    "feature_deviation": "deviation",
    **dict.fromkeys(("feature_gradient_norms", "mean_per_class"), "gradients"),
    **dict.fromkeys(("Curves", "curves_of"), "curves"),
    **dict.fromkeys(("Finding", "verdict"), "findings"),
    **dict.fromkeys(("Diagnosis", "diagnose_run"), "finished"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

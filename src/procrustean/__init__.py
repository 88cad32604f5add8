"""Train image classifiers on class-imbalanced data.

The public names below are imported when they are first used, so that `import procrustean` is instant and the
command line can answer `--help` without loading torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "DRW",
    "METHODS",
    "MFW",
    "Classifier",
    "ConfigError",
    "DataError",
    "ImageSet",
    "LayerError",
    "ProcrusteanError",
    "RunConfig",
    "RunError",
    "__version__",
    "adjust",
    "class_counts",
    "data",
    "diagnose",
    "evaluate",
    "export",
    "fit",
    "load_model",
    "make_method",
    "predict",
    "recalibrate",
    "use_file",
]

_HOMES = {
    "MFW": "procrustean.mfw",
    "DRW": "procrustean.weights",
    "class_counts": "procrustean.counting",
    "METHODS": "procrustean.methods",
    "make_method": "procrustean.methods",
    "use_file": "procrustean.own_methods.files",
    "ImageSet": "procrustean.data.imageset",
    "RunConfig": "procrustean.config",
    "recalibrate": "procrustean.normalisation",
    "fit": "procrustean.api",
    "evaluate": "procrustean.api",
    "adjust": "procrustean.posthoc",
    "Classifier": "procrustean.estimator.classifier",
    "export": "procrustean.exporting.export",
    "load_model": "procrustean.predicting.loading",
    "predict": "procrustean.predicting.predict",
    "ProcrusteanError": "procrustean.errors",
    "ConfigError": "procrustean.errors",
    "DataError": "procrustean.errors",
    "LayerError": "procrustean.errors",
    "RunError": "procrustean.errors",
}

if TYPE_CHECKING:
    from procrustean import data, diagnose
    from procrustean.api import evaluate, fit
    from procrustean.config import RunConfig
    from procrustean.counting import class_counts
    from procrustean.data.imageset import ImageSet
    from procrustean.errors import ConfigError, DataError, LayerError, ProcrusteanError, RunError
    from procrustean.estimator.classifier import Classifier
    from procrustean.exporting.export import export
    from procrustean.methods import METHODS, make_method
    from procrustean.mfw import MFW
    from procrustean.normalisation import recalibrate
    from procrustean.own_methods.files import use_file
    from procrustean.posthoc import adjust
    from procrustean.predicting.loading import load_model
    from procrustean.predicting.predict import predict
    from procrustean.weights import DRW
else:  # hidden from type checkers, which would otherwise accept any name

    def __getattr__(name: str) -> object:
        """Import a public name, or a submodule, on first use (PEP 562)."""
        if name in _HOMES:
            value = getattr(import_module(_HOMES[name]), name)
            globals()[name] = value
            return value
        if not name.startswith("_"):
            path = f"{__name__}.{name}"
            try:
                return import_module(path)
            except ModuleNotFoundError as error:
                if error.name != path:
                    raise
        from procrustean.errors import did_you_mean

        raise AttributeError(f"module 'procrustean' has no attribute {name!r}. {did_you_mean(name, __all__)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

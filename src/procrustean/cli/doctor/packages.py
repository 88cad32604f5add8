"""Python, required packages and those that only some commands need."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from procrustean.base.optional_libraries import first_cause, installing, not_built_for_torch, unfit_version
from procrustean.cli.doctor.finding import Finding, fine, note, problem

#: Packages that are not needed by all, with what they are for and the extra that brings them.
OPTIONAL = {
    "torchvision": ("networks of torchvision (--net torchvision:NAME)", "nets"),
    "timm": ("networks of timm (--net timm:NAME)", "nets"),
    "pyarrow": ("tables in parquet", "tables"),
    "datasets": ("Hugging Face data sets on disk", "tables"),
    "onnx": ("export to ONNX", "onnx"),
    "onnxruntime": ("export to ONNX", "onnx"),
    "onnxscript": ("export to ONNX", "onnx"),
    "optuna": ("choosing options by a search (tune --trials)", "tune"),
    "tensorboard": ("--log tensorboard", "tensorboard"),
    "wandb": ("--log wandb", "wandb"),
    "lightning": ("procrustean.balance.lightning", "lightning"),
    "transformers": ("procrustean.balance.transformers", "transformers"),
    "accelerate": ("procrustean.balance.transformers", "transformers"),
}

#: What is imported of a package that loads its parts only when they are used, and would hide that they are broken.
NEEDED = {"transformers": "transformers.trainer"}


def check_python() -> list[Finding]:
    """Python and this library."""
    from procrustean.base.version import __version__

    return [fine("Python", f"{sys.version.split()[0]}, procrustean {__version__}, torch {version('torch')}")]


def check_optional(load: Callable[[str], object] = import_module) -> list[Finding]:
    """Each optional package: there, absent, or there and broken."""
    found = []
    for name, (purpose, extra) in OPTIONAL.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            found.append(note(name, f"not installed; needed for {purpose}, {installing(extra)}"))
            continue
        try:
            load(NEEDED.get(name, name))
        except Exception as error:  # a package that does not fit another raises errors of many kinds
            found.append(_broken(name, installed, error))
        else:
            found.append(fine(name, f"{installed}, for {purpose}"))
    return found


def _broken(name: str, installed: str, error: BaseException) -> Finding:
    said = first_cause(error)
    wrong_version = unfit_version(OPTIONAL[name][1], said)
    if wrong_version is not None:
        return note(name, f"{installed} is installed but cannot be imported ({said}): {wrong_version}")
    if "torchvision" not in said:
        return note(name, f"{installed} is installed but cannot be imported ({said}); install it again")
    if name != "torchvision":  # one thing to mend, not one of every package that imports it
        return note(name, f"{installed} is installed, but imports torchvision, which does not load ({said}): see there")
    return problem(name, f"{installed} is installed, but {not_built_for_torch(said)}")

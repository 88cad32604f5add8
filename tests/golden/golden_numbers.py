"""What is kept of a case: hashes of its numbers, and a few of them for machines that compute a little differently."""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL
import torch

from golden_cases import Case
from golden_library import TRAINED, Arrays, exported, one_thread, predicted, weights_of

KEPT = Path(__file__).with_name("golden.json")


def environment() -> dict[str, str]:
    """What has to be the same for numbers to be equal bit for bit."""
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pillow": PIL.__version__,
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "processor": _processor(),
    }


def _processor() -> str:
    """Maker, family and model: by them mathematical libraries choose how they compute."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = [re.search(rf"^{name}\s*: (.*)$", text, re.MULTILINE) for name in ("vendor_id", "cpu family", "model")]
    return " ".join(match[1] for match in found if match)


def computed(case: Case, images: Path, folder: Path) -> Arrays:
    """Train a case in a new folder; its weights, and the scores of its model and of the export."""
    run = folder / "run"
    with one_thread():
        TRAINED[case.trained](case.settings(images), run)
        weights = {f"weights/{name}": values for name, values in weights_of(run).items()}
        scores = predicted(run, case.predicts(images))
        export = exported(run, case.export, case.predicts(images), folder / "export")
    return {**weights, "scores": scores, "export": export}


def summary(arrays: Arrays) -> dict[str, Any]:
    """Hashes of the weights, the scores and the export, and a few of the scores."""
    weights = {name: values for name, values in arrays.items() if name.startswith("weights/")}
    return {
        "weights": digest(weights),
        "scores": digest({"scores": arrays["scores"]}),
        "export": digest({"export": arrays["export"]}),
        "values": few(arrays["scores"]),
    }


def few(scores: npt.NDArray[Any]) -> list[float]:
    """The probabilities of the largest class for six images."""
    return [round(float(value), 6) for value in scores[::2, 0]]


def digest(arrays: Arrays) -> str:
    """sha256 of names, types, shapes and bytes."""
    found = hashlib.sha256()
    for name, values in sorted(arrays.items()):
        found.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()

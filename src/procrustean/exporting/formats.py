"""Write a network in a format, and check that what was written gives the same probabilities."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from ..calibration.scaling import Prior
from ..data.imageset import Images
from ..errors import ConfigError, RunError
from ..predicting.loading import WEIGHTS
from ..predicting.model import Model
from .deployable import Deployable

Format = Literal["safetensors", "torch", "onnx"]
FILES: dict[str, str] = {"safetensors": WEIGHTS, "torch": "model.pt2", "onnx": "model.onnx"}
#: Largest difference of a probability between the network here and the exported one.
TOLERANCE = 1e-4
#: Batches that are compared: one image, and more than the one that was traced.
CHECKED = (1, 5)

Probabilities = npt.NDArray[np.floating]
Runner = Callable[[Images], Probabilities]


def write(form: Format, model: Model, prior: Prior | None, folder: Path) -> float:
    """Write the network into the folder; returns the largest difference of a probability that the check found."""
    path = folder / FILES[form]
    writer = {"safetensors": _safetensors, "torch": _torch, "onnx": _onnx}[form]
    run = writer(model, prior, path)
    largest = 0.0
    for number in CHECKED:
        pixels = np.random.default_rng(number).integers(0, 256, (number, *model.spec.input_shape), np.uint8)
        with torch.no_grad():
            expected = Deployable(model, prior)(torch.from_numpy(pixels)).numpy()
        found = run(pixels)
        if found.shape != expected.shape or not np.isfinite(found).all():
            raise RunError(
                f"{path.name}: gives {found.shape} for {number} images instead of {expected.shape}, or no numbers"
            )
        largest = max(largest, float(np.abs(found - expected).max()))
    if largest > TOLERANCE:
        raise RunError(
            f"{path.name}: its probabilities differ from the network's by up to {largest:.2g}, more than "
            f"{TOLERANCE:g}; this export cannot be trusted. Try another --format"
        )
    return largest


def _safetensors(model: Model, prior: Prior | None, path: Path) -> Runner:
    from safetensors.torch import load_file, save

    path.write_bytes(save({name: tensor.contiguous() for name, tensor in model.net.state_dict().items()}))
    again = Model(model.spec, load_file(path))
    return lambda pixels: Deployable(again, prior)(torch.from_numpy(pixels)).detach().numpy()


def _torch(model: Model, prior: Prior | None, path: Path) -> Runner:
    content = io.BytesIO()  # torch itself cannot tell that a disk is full, and leaves half a file
    torch.export.save(_program(model, prior), content)
    path.write_bytes(content.getvalue())
    loaded = torch.export.load(path).module()
    return lambda pixels: loaded(torch.from_numpy(pixels)).detach().numpy()


def _onnx(model: Model, prior: Prior | None, path: Path) -> Runner:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        _needed(name)
    import onnxruntime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about its own inner workings
        program = torch.onnx.export(
            _program(model, prior), dynamo=True, input_names=["pixels"], output_names=["probabilities"], verbose=False
        )
    assert program is not None
    program.save(str(path), external_data=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda pixels: np.asarray(session.run(None, {session.get_inputs()[0].name: pixels})[0])


def _program(model: Model, prior: Prior | None) -> torch.export.ExportedProgram:
    example = torch.zeros(2, *model.spec.input_shape, dtype=torch.uint8)
    batch = torch.export.Dim("batch", min=1)
    with torch.no_grad():
        return torch.export.export(Deployable(model, prior).eval(), (example,), dynamic_shapes=({0: batch},))


def _needed(name: str) -> None:
    try:
        import_module(name)
    except ImportError as error:
        raise ConfigError(f"format 'onnx' needs {name} ({error}): pip install -c constraints.txt '.[onnx]'") from error

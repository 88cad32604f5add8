"""Write a network in a format, and check that what was written gives the same probabilities."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from procrustean.base.errors import ConfigError, ProcrusteanError, RunError
from procrustean.base.optional_libraries import installing
from procrustean.data.imageset import Images
from procrustean.deploy.model import Model, ModelSpec
from procrustean.deploy.model_loading import WEIGHTS
from procrustean.engine.probabilities import Prior

Format = Literal["safetensors", "torch", "onnx"]
FILES: dict[str, str] = {"safetensors": WEIGHTS, "torch": "model.pt2", "onnx": "model.onnx"}
#: Largest difference of a probability between the network here and the exported one.
TOLERANCE = 1e-4
#: Largest difference of a log-probability, as a share of 1 + the spread of an image's scores: a confident network has
#: probabilities of 0 and 1, whatever is wrong with scale or prior.
LOG_TOLERANCE = 1e-3
#: Log-probabilities below are beyond float32.
LEAST_LOG = -80.0
#: Batches that are compared: one image, and more than the one that was traced.
CHECKED = (1, 5)

Probabilities = npt.NDArray[np.floating]
Runner = Callable[[Images], Probabilities]


def write(form: Format, model: Model, prior: Prior | None, folder: Path) -> float:
    """Write the network into the folder; returns the largest difference of a probability that the check found."""
    path = folder / FILES[form]
    writer = {"safetensors": _safetensors, "torch": _torch, "onnx": _onnx}[form]
    try:
        run = writer(model, prior, path)
    except (ProcrusteanError, OSError, MemoryError):
        raise
    except Exception as error:  # exporters raise nearly anything on a network that they cannot express
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise RunError(f"this network cannot be written as {path.name} ({said:.200}); try another --format") from error
    largest = 0.0
    for number in CHECKED:
        for pixels in _checked_images(model.spec, number):
            largest = max(largest, _difference(run(model.spec.shown(pixels)), model, prior, pixels, path))
    return largest


def _checked_images(spec: ModelSpec, number: int) -> Iterator[Images]:
    """Noise of all bytes, and images as the network has seen them: noise around its mean."""
    random = np.random.default_rng(number)
    shape = (number, *spec.image_shape)
    yield random.integers(0, 256, shape, np.uint8)
    yield np.clip(np.round(255 * random.normal(spec.mean, spec.std, shape)), 0, 255).astype(np.uint8)


def _difference(found: Probabilities, model: Model, prior: Prior | None, pixels: Images, path: Path) -> float:
    """Largest difference of a probability from those of the network; a RunError where it is too large."""
    calibration, scores = model.spec.calibration, model.scores(pixels)
    expected = calibration.log_probabilities(scores, prior)
    if found.shape != expected.shape or not np.isfinite(found).all():
        raise RunError(
            f"{path.name}: gives {found.shape} for {len(pixels)} images instead of {expected.shape}, or no numbers"
        )
    largest = float(np.abs(found - np.exp(expected)).max())
    logs = np.log(np.maximum(found.astype(np.float64), np.exp(LEAST_LOG)))
    apart = np.abs(logs - np.maximum(expected, LEAST_LOG))
    allowed = LOG_TOLERANCE * (1 + np.ptp(calibration.scale * scores, axis=1, keepdims=True))
    if largest > TOLERANCE or (apart > allowed).any():
        raise RunError(
            f"{path.name}: its probabilities differ from the network's by up to {largest:.2g} (at most {TOLERANCE:g} "
            f"is right), their logarithms by up to {apart.max():.2g}; this export cannot be trusted. Try another "
            "--format"
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
    with _without_asides():
        loaded = torch.export.load(path).module()
    return lambda pixels: loaded(torch.from_numpy(pixels)).detach().numpy()


def _onnx(model: Model, prior: Prior | None, path: Path) -> Runner:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        _needed(name)
    import onnxruntime

    with _without_asides():
        program = torch.onnx.export(
            _program(model, prior), dynamo=True, input_names=["pixels"], output_names=["probabilities"], verbose=False
        )
    assert program is not None
    program.save(str(path), external_data=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda pixels: np.asarray(session.run(None, {session.get_inputs()[0].name: pixels})[0])


@contextmanager
def _without_asides() -> Iterator[None]:
    """In it PyTorch says nothing about its own inner workings, such as torchvision's operators, which are unused.

    Whether the export is right is checked afterwards.
    """
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _program(model: Model, prior: Prior | None) -> torch.export.ExportedProgram:
    example = torch.zeros(2, *model.spec.input_shape, dtype=torch.uint8)
    batch = torch.export.Dim("batch", min=1)
    with torch.no_grad():
        return torch.export.export(Deployable(model, prior).eval(), (example,), dynamic_shapes=({0: batch},))


def _needed(name: str) -> None:
    try:
        import_module(name)
    except ImportError as error:
        raise ConfigError(f"format 'onnx' needs {name} ({error}); install it {installing('onnx')}") from error


class Deployable(nn.Module):
    """uint8 pixels [N, H, W, channels] to probabilities [N, C]: normalise, classify, calibrate.

    Args:
        model: the trained network.
        prior: class frequencies where it will be used; None leaves the classes as the network ranks them.
    """

    class_shift: Tensor

    def __init__(self, model: Model, prior: Prior | None = None) -> None:
        super().__init__()
        self.net = model.net.cpu().eval()
        spec = model.spec
        self.preparation = model.preparation.cpu()
        # log 0 as a number that the formats can hold: such a class has probability 0.
        shift = torch.from_numpy(spec.calibration.shift(prior)).clamp(min=-1e9).float()
        self.register_buffer("class_shift", shift)
        self.scale = spec.calibration.scale

    def forward(self, pixels: Tensor) -> Tensor:
        scores = self.net(self.preparation(pixels))
        return torch.softmax(self.scale * scores + self.class_shift, dim=1)

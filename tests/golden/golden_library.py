"""All that the golden cases use of the library, but for golden_method: what is renamed there is followed here."""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file

import procrustean
from procrustean.cli import main

Arrays = dict[str, npt.NDArray[Any]]
#: Tells golden_method to ask for the run to be stopped.
STOP = "GOLDEN_STOP"


def fitted(settings: Mapping[str, Any], run: Path) -> None:
    """Train in Python."""
    procrustean.fit(**settings, run_dir=run)


def commanded(settings: Mapping[str, Any], run: Path) -> None:
    """Train by the command, with the settings in a file."""
    file = run.with_suffix(".yaml")
    file.write_text(yaml.safe_dump({**settings, "run_dir": str(run)}), encoding="utf-8")
    _command("train", str(settings["source"]), "--config", str(file), "--quiet")


def resumed(settings: Mapping[str, Any], run: Path) -> None:
    """Train, stop on the way, and go on by the command."""
    os.environ[STOP] = str(run)
    try:
        fitted(settings, run)
    except procrustean.RunError as stopped:
        assert "go on with" in str(stopped)  # noqa: PT017  any other error has another text
    else:
        raise AssertionError("the run was not stopped")
    finally:
        os.environ.pop(STOP, None)
    _command("resume", str(run), "--method", str(settings["method"]).rpartition(":")[0], "--quiet")


TRAINED = {"fit": fitted, "command": commanded, "resume": resumed}


def _command(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = main(arguments)
    assert code == 0, said.getvalue()


def weights_of(run: Path) -> Arrays:
    """Every tensor that a run has kept: the last weights, averages, those chosen on held-out images."""
    return {
        f"{file.stem}.{name}": tensor.numpy()
        for file in sorted(run.glob("*.safetensors"))
        for name, tensor in sorted(load_file(file).items())
    }


def predicted(model: Path, images: Path) -> npt.NDArray[np.float64]:
    """Probabilities of `predict` for the images of a folder, in the order of the model's classes, [N, C]."""
    loaded = procrustean.load_model(model, device="cpu")
    rows = procrustean.predict(loaded, images, prior=None, top=len(loaded.classes), batch_size=256, device="cpu")
    found = [dict(zip(row.classes, row.probabilities, strict=True)) for row in rows]
    return np.array([[row[name] for name in loaded.classes] for row in found])


def exported(run: Path, form: str, images: Path, folder: Path) -> npt.NDArray[Any]:
    """Probabilities of an export for the same images, [N, C]."""
    procrustean.export(run, form=form, output=folder, prior=None)
    if form == "safetensors":
        return predicted(folder, images)
    pixels = np.stack([_pixels(path) for path in sorted(images.iterdir())])
    if form == "torch":
        return torch.export.load(folder / "model.pt2").module()(torch.from_numpy(pixels)).detach().numpy()
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = 1
    session = InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: pixels})[0])


def _pixels(path: Path) -> npt.NDArray[np.uint8]:
    pixels = np.asarray(Image.open(path))
    return pixels if pixels.ndim == 3 else pixels[:, :, None]


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread computes, whatever the environment says, and warnings about tiny trainings stay out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_num_threads(before)

"""What load.py of an export shows the network is what `predict` shows it."""

from __future__ import annotations

import json
import runpy
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from procrustean.data.image_files import pixels_of
from procrustean.deploy.export_formats import Format
from procrustean.deploy.load_program import load_example
from procrustean.deploy.model import ModelSpec
from procrustean.deploy.model_card import _preparation
from small_spec import small_spec


def spec(channels: int = 3, side: int = 12, evaluation_crop: int | None = None) -> ModelSpec:
    return small_spec(side, side + 2, channels, evaluation_crop=evaluation_crop)


class Seen:
    """In place of the exported network: keeps the pixels that it is shown."""

    pixels: np.ndarray

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        self.pixels = pixels.numpy()
        return torch.tensor([[0.25, 0.75]] * len(pixels))

    def module(self) -> Seen:
        return self

    def run(self, names: None, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.pixels = inputs["pixels"]
        return [np.array([[0.25, 0.75]] * len(self.pixels))]


def shown(form: Format, of: ModelSpec, image: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The pixels that load.py makes of an image."""
    program = image.with_name("load.py")
    program.write_text(load_example(form, of))
    image.with_name("model.json").write_text(json.dumps({"classes": list(of.classes)}))
    seen = Seen()
    if form == "onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        monkeypatch.setattr(onnxruntime, "InferenceSession", lambda path: seen)
    else:
        monkeypatch.setattr(torch.export, "load", lambda path: seen)
    monkeypatch.setattr(sys, "argv", ["load.py", str(image)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(program), run_name="__main__")
    assert seen.pixels.dtype == np.uint8
    return seen.pixels


def picture(mode: str) -> tuple[Image.Image, str]:
    """A picture of a mode, and an ending whose format can hold it."""
    random = np.random.default_rng(0)
    if mode in ("I;16", "I;16B"):
        deep = random.integers(0, 65536, (17, 23)).astype("<u2" if mode == "I;16" else ">u2")
        return Image.frombytes(mode, (23, 17), deep.tobytes()), "tif"
    if mode == "I of a PGM":  # Pillow's words for its 16 bits
        return Image.fromarray(random.integers(0, 65536, (17, 23)).astype(np.int32)), "pgm"
    if mode == "I":
        return Image.fromarray(random.integers(0, 100_000, (17, 23)).astype(np.int32)), "tif"
    if mode == "F":
        return Image.fromarray(random.random((17, 23)).astype(np.float32)), "tif"
    colours = Image.fromarray(random.integers(0, 256, (17, 23, 4)).astype(np.uint8))
    if mode.startswith("P"):
        palette = colours.convert("RGB").quantize(16)
        if mode == "P with transparency":
            palette.info["transparency"] = bytes(range(0, 256, 16))
        return palette, "png"
    return (colours if mode == "RGBA" else colours.convert("RGB").convert(mode)), "tif" if mode == "CMYK" else "png"


MODES = ("RGB", "RGBA", "L", "1", "LA", "CMYK", "P", "P with transparency", "I;16", "I;16B", "I of a PGM")


@pytest.mark.parametrize("form", ["torch", "onnx"])
@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("mode", MODES)
def test_every_mode(mode: str, channels: int, form: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, ending = picture(mode)
    made.save(tmp_path / f"image.{ending}")
    with Image.open(tmp_path / f"image.{ending}") as opened:
        assert opened.mode == mode.split(" ")[0]
        expected = pixels_of(opened, spec(channels).image_shape)
    assert expected.std() > 10  # nothing is cut off
    assert (shown(form, spec(channels), tmp_path / f"image.{ending}", monkeypatch) == expected[None]).all()


@pytest.mark.parametrize("mode", ["I", "F"])
def test_32_bits_are_refused(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, ending = picture(mode)
    made.save(tmp_path / f"image.{ending}")
    with pytest.raises(SystemExit):
        shown("torch", spec(), tmp_path / f"image.{ending}", monkeypatch)
    assert "save the image with 8 or 16 bits" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_the_middle_is_shown_where_the_network_was_tested_on_it(
    form: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, ending = picture("RGB")
    made.save(tmp_path / f"image.{ending}")
    of = spec(side=15, evaluation_crop=8)
    expected = of.shown(pixels_of(made, of.image_shape)[None])
    assert expected.shape == (1, 8, 8, 3)
    assert (shown(form, of, tmp_path / f"image.{ending}", monkeypatch) == expected).all()
    assert "resized to 17 x 15 pixels, of which the middle 8 x 8 are shown to it." in _preparation(of, form)

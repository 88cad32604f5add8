"""The program that goes with an export: load the network, classify one image."""

from __future__ import annotations

from ..predicting.spec import ModelSpec
from .formats import Format

_USAGE = """\
if len(sys.argv) != 2: sys.exit("usage: python load.py IMAGE")
"""
# As `procrustean.data.image_files.pixels_of` prepares an image; decoders raise nearly anything on damaged files.
_PIXELS = """\
try: image = ImageOps.exif_transpose(file := Image.open(sys.argv[1]))
except Exception as error: sys.exit(f"{{sys.argv[1]}}: not a complete image ({{error}})")
if image.mode == "F" or image.mode == "I" and file.format != "PPM": sys.exit("save the image with 8 or 16 bits, not 32")
if image.mode.startswith("I"): image = image.convert("I").point([value >> 8 for value in range(65536)], "L")
image = image.convert("RGBA" if image.mode == "P" else {mode!r}).convert({mode!r})
image = image.resize(({whole_width}, {whole_height}), Image.Resampling.BILINEAR){crop}
"""
_LOAD = {
    "torch": '''\
"""Classify an image: python load.py IMAGE. Needs torch alone, and Pillow to read the image."""
import json, pathlib, sys, torch, warnings
from PIL import Image, ImageOps

'''
    + _USAGE
    + """\
warnings.simplefilter("ignore"); here = pathlib.Path(__file__).parent  # torch may warn about its way to read a file
model = torch.export.load(here / "model.pt2").module()
"""
    + _PIXELS
    + """\
pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(1, {height}, {width}, {channels})
for p, name in sorted(zip(model(pixels)[0].tolist(), json.loads((here / "model.json").read_text())["classes"]))[::-1]:
    print(f"{{p:.4f}} {{name if name.isprintable() else ascii(name)}}")
""",
    "onnx": '''\
"""Classify an image: python load.py IMAGE. Needs onnxruntime alone (with its numpy), and Pillow to read the image."""
import json, pathlib, sys, numpy, onnxruntime
from PIL import Image, ImageOps

'''
    + _USAGE
    + """\
here = pathlib.Path(__file__).parent
model = onnxruntime.InferenceSession(here / "model.onnx")
"""
    + _PIXELS
    + """\
found = model.run(None, {{"pixels": numpy.array(image).reshape(1, {height}, {width}, {channels})}})[0][0].tolist()
for p, name in sorted(zip(found, json.loads((here / "model.json").read_text())["classes"]))[::-1]:
    print(f"{{p:.4f}} {{name if name.isprintable() else ascii(name)}}")
""",
    "safetensors": '''\
"""Classify an image: python load.py IMAGE. Needs procrustean."""
import sys
from pathlib import Path
from procrustean import predict
from procrustean.errors import ProcrusteanError

'''
    + _USAGE
    + """\
try: rows = list(predict(Path(__file__).parent, [sys.argv[1]], top={classes}))
except ProcrusteanError as error: sys.exit(str(error))
for found in rows:
    if found.problem: sys.exit(f"{{found.file}}: {{found.problem}}")
    for p, name in zip(found.probabilities, found.classes):
        print(f"{{p:.4f}} {{name if name.isprintable() else ascii(name)}}")
""",
}


def load_example(form: Format, spec: ModelSpec) -> str:
    """A short program for a format."""
    whole_height, whole_width, channels = spec.image_shape
    height, width, _ = spec.input_shape
    top, left = (whole_height - height) // 2, (whole_width - width) // 2
    return _LOAD[form].format(
        whole_height=whole_height,
        whole_width=whole_width,
        height=height,
        width=width,
        channels=channels,
        crop="" if spec.evaluation_crop is None else f".crop(({left}, {top}, {left + width}, {top + height}))",
        mode="RGB" if channels == 3 else "L",
        classes=len(spec.classes),
    )

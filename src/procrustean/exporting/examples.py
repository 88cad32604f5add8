"""The program that goes with an export: load the network, classify one image."""

from __future__ import annotations

from ..predicting.spec import ModelSpec
from .formats import Format

_LOAD = {
    "torch": '''\
"""Classify an image: python load.py IMAGE. Needs torch alone, and Pillow to read the image."""
import json, sys, numpy, torch
from pathlib import Path
from PIL import Image, ImageOps

here = Path(__file__).parent
model = torch.export.load(here / "model.pt2").module()
image = ImageOps.exif_transpose(Image.open(sys.argv[1])).convert({mode!r})
image = image.resize(({width}, {height}), Image.Resampling.BILINEAR)
pixels = torch.from_numpy(numpy.array(image).reshape(1, {height}, {width}, {channels}))
for p, name in sorted(zip(model(pixels)[0].tolist(), json.loads((here / "model.json").read_text())["classes"]))[::-1]:
    print(f"{{p:.4f}} {{name if name.isprintable() else ascii(name)}}")
''',
    "onnx": '''\
"""Classify an image: python load.py IMAGE. Needs onnxruntime alone, and Pillow to read the image."""
import json, sys, numpy, onnxruntime
from pathlib import Path
from PIL import Image, ImageOps

here = Path(__file__).parent
model = onnxruntime.InferenceSession(here / "model.onnx")
image = ImageOps.exif_transpose(Image.open(sys.argv[1])).convert({mode!r})
image = image.resize(({width}, {height}), Image.Resampling.BILINEAR)
pixels = numpy.array(image).reshape(1, {height}, {width}, {channels})
names = json.loads((here / "model.json").read_text())["classes"]
for p, name in sorted(zip(model.run(None, {{"pixels": pixels}})[0][0].tolist(), names))[::-1]:
    print(f"{{p:.4f}} {{name if name.isprintable() else ascii(name)}}")
''',
    "safetensors": '''\
"""Classify an image: python load.py IMAGE. Needs procrustean."""
import sys
from pathlib import Path
from procrustean import predict

for found in predict(Path(__file__).parent, [sys.argv[1]], top={classes}):
    for p, name in zip(found.probabilities, found.classes):
        print(f"{{p:.4f}} {{name if name.isprintable() else ascii(name)}}")
''',
}


def load_example(form: Format, spec: ModelSpec) -> str:
    """A program of about ten lines for a format."""
    height, width, channels = spec.input_shape
    mode = "RGB" if channels == 3 else "L"
    values = {"height": height, "width": width, "channels": channels, "mode": mode, "classes": len(spec.classes)}
    return _LOAD[form].format(**values)

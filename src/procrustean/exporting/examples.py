"""The program that goes with an export: `classify` for other programs, and a command that classifies images."""

from __future__ import annotations

from ..predicting.spec import ModelSpec
from .formats import Format

_NEEDED = {
    "torch": "torch alone (and Pillow to read images)",
    "onnx": "onnxruntime alone (with its numpy; and Pillow to read images)",
    "safetensors": "procrustean",
}
_IMPORTS = {
    "torch": "import json\nimport sys\nimport warnings\nfrom functools import cache\nfrom pathlib import Path\n\n"
    "import torch\nfrom PIL import Image, ImageOps\n",
    "onnx": "import json\nimport sys\nfrom functools import cache\nfrom pathlib import Path\n\n"
    "import numpy as np\nimport onnxruntime\nfrom PIL import Image, ImageOps\n",
    "safetensors": "import json\nimport sys\nfrom functools import cache\nfrom pathlib import Path\n\n"
    "import numpy as np\nfrom PIL import Image, ImageOps\nfrom procrustean import load_model\n",
}
#: With numpy, which torch alone does not bring; a thousand images at once would not fit into every memory.
_CLASSIFY_ARRAYS = '''\
def classify(images):
    """Probabilities of CLASSES, an array [N, C], for a list of N images: paths or Pillow images."""
    pixels = np.stack([pixels_of(image) for image in images])
    parts = [pixels[start : start + AT_ONCE] for start in range(0, len(pixels), AT_ONCE)]
    return np.concatenate([{answer} for part in parts])
'''
_NETWORK = {
    "torch": '''\
@cache
def network():
    """Pixels to probabilities. It was exported as it is used: it needs no eval(), and has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch may warn about its own way to read a file
        return torch.export.load(HERE / "model.pt2").module()


def classify(images):
    """Probabilities of CLASSES, a tensor [N, C], for a list of N images: paths or Pillow images."""
    pixels = torch.stack([pixels_of(image) for image in images])
    with torch.no_grad():
        return torch.cat([network()(part) for part in pixels.split(AT_ONCE)])
''',
    "onnx": '''\
@cache
def network():
    """Pixels to probabilities."""
    return onnxruntime.InferenceSession(HERE / "model.onnx")


'''
    + _CLASSIFY_ARRAYS.format(answer='network().run(None, {"pixels": part})[0]'),
    "safetensors": '''\
@cache
def network():
    """Pixels to probabilities."""
    return load_model(HERE)


'''
    + _CLASSIFY_ARRAYS.format(answer="network().probabilities(part)"),
}
# As `procrustean.data.image_files.pixels_of` prepares an image.
_PIXELS = '''\
def pixels_of(image):
    """The bytes of an image as the network takes them, [height, width, channels]."""
    try:
        file = image if isinstance(image, Image.Image) else Image.open(image)
        upright = ImageOps.exif_transpose(file)
    except Exception as error:  # decoders raise nearly anything on damaged files
        raise ValueError(f"{image}: not a complete image ({error})") from error
    if upright.mode == "F" or (upright.mode == "I" and file.format != "PPM"):
        raise ValueError(f"{image}: pixels of 32 bits; save the image with 8 or 16 bits")
    if upright.mode.startswith("I"):  # 16 bits, of which the upper eight are taken
        upright = upright.convert("I").point([value >> 8 for value in range(65536)], "L")
    if upright.mode == "P":  # a palette may hold transparent colours
        upright = upright.convert("RGBA")
    shown = upright.convert(MODE).resize(SIZE, Image.Resampling.BILINEAR).crop(SHOWN)
'''
_AS_BYTES = {
    "torch": "    flat = torch.frombuffer(bytearray(shown.tobytes()), dtype=torch.uint8)\n"
    "    return flat.view(shown.height, shown.width, -1)\n",
    "onnx": "    return np.array(shown).reshape(shown.height, shown.width, -1)\n",
    "safetensors": "    return np.array(shown).reshape(shown.height, shown.width, -1)\n",
}
_COMMAND = '''\
def plain(text):
    """A name that cannot drive the terminal."""
    return text if text.isprintable() else ascii(text)


def main(paths):
    if not paths:
        sys.exit("usage: python load.py IMAGE [IMAGE ...]")
    sys.stdout.reconfigure(errors="replace")  # not every terminal can show every name
    for path in paths:
        try:
            (probabilities,) = classify([path]).tolist()
        except ValueError as error:
            sys.exit(str(error))
        if len(paths) > 1:
            print(f"{plain(path)}:")
        for probability, name in sorted(zip(probabilities, CLASSES), reverse=True):
            print(f"{probability:.4f} {plain(name)}")


if __name__ == "__main__":
    main(sys.argv[1:])
'''


def load_example(form: Format, spec: ModelSpec) -> str:
    """A program for a format, which can be run and imported."""
    opening = f'''\
"""Classify images with the network beside this file, by {_NEEDED[form]}.

As a command: python load.py IMAGE [IMAGE ...]
In a program: from load import CLASSES, classify
"""

{_IMPORTS[form]}
{_constants(form, spec)}'''
    return "\n\n".join([opening, _NETWORK[form], _PIXELS + _AS_BYTES[form], _COMMAND])


def _constants(form: Format, spec: ModelSpec) -> str:
    whole_height, whole_width, channels = spec.image_shape
    # This library's own network takes whole images and cuts the middle out itself.
    height, width, _ = spec.image_shape if form == "safetensors" else spec.input_shape
    top, left = (whole_height - height) // 2, (whole_width - width) // 2
    return f"""\
HERE = Path(__file__).resolve().parent
CLASSES = json.loads((HERE / "model.json").read_text(encoding="utf-8"))["classes"]
MODE = "{"RGB" if channels == 3 else "L"}"  # of images, in Pillow's words
SIZE = ({whole_width}, {whole_height})  # width and height that they are resized to
SHOWN = ({left}, {top}, {left + width}, {top + height})  # left, top, right and bottom of what the network takes of them
AT_ONCE = 64  # images
"""


#: How the program is used from another one; also part of the model card.
USE = """\
from load import CLASSES, classify

for probabilities in classify(["one.png", "two.png"]):
    print(CLASSES[probabilities.argmax()], float(probabilities.max()))
"""

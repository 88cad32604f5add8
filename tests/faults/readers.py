"""Every reader of files, each with a valid file that can then be damaged."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file

from procrustean.config import RunConfig
from procrustean.data import npm_mirror, restricted_pickle
from procrustean.data.cifar import CIFAR10, MAX_ARCHIVE_BYTES, _members
from procrustean.data.sources import load_source
from procrustean.engine import checkpoint
from procrustean.engine.run_directory import RunDirectory
from procrustean.grids import expand
from procrustean.nets.pretrained import read_pretrained
from procrustean.plain_yaml import read_yaml
from procrustean.report.results import load_result

FIXTURES = Path(__file__).parents[1] / "fixtures" / "format-1"
PER_BATCH = 2  # images of each sheet of the npm package made here


@dataclass(frozen=True)
class Reader:
    """How a file is made, and how it is read after it was damaged.

    Args:
        make: the content of a valid file.
        read: reads the file at a path; may use the folder it is in.
        name: of the file.
        packed: the content is damaged before it is compressed, so that the damage gets past the checksum of gzip.
        text: it is text, whose values are worth changing as well as its bytes.
    """

    make: Callable[[], bytes]
    read: Callable[[Path], object]
    name: str
    packed: bool = False
    text: bool = False


def _picture(form: str, **options: Any) -> Callable[[], bytes]:
    def make() -> bytes:
        pixels = np.random.RandomState(0).randint(0, 256, (12, 12, 3)).astype(np.uint8)
        image, content = Image.fromarray(pixels), io.BytesIO()
        frames = {"save_all": True, "append_images": [image.rotate(90)]} if form in ("GIF", "TIFF") else {}
        image.save(content, form, **frames, **options)
        return content.getvalue()

    return make


def _read_folder(on_bad_image: Any) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        root = path.parent / "folder"
        for number, name in enumerate(("cat/0", "cat/1", "dog/0", "dog/1")):
            place = root / f"{name}.png"
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(np.full((12, 12, 3), 60 * number, np.uint8)).save(place)
        (root / "dog/damaged.png").write_bytes(path.read_bytes())
        return load_source(str(root), on_bad_image=on_bad_image)

    return read


def _npz(save: Callable[..., None]) -> Callable[[], bytes]:
    def make() -> bytes:
        content = io.BytesIO()
        images = np.random.RandomState(0).randint(0, 256, (6, 4, 4)).astype(np.uint8)
        save(content, train_images=images, train_labels=np.arange(6) % 2, classes=np.array(["cat", "dog"]))
        return content.getvalue()

    return make


def _tar(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def _cifar_tar() -> bytes:
    return _tar({f"{CIFAR10.folder}/{name}": _pickle() for name in CIFAR10.md5})


def _read_cifar_tar(path: Path) -> object:
    assert MAX_ARCHIVE_BYTES
    return _members(path, {f"{CIFAR10.folder}/{name}": name for name in CIFAR10.md5})


def _pickle() -> bytes:
    data = np.random.RandomState(0).randint(0, 256, (3, 12)).astype(np.uint8)
    return pickle.dumps({"data": data, "labels": [0, 1, 2], "names": ["cat", "dog", "owl"]}, 4)


def _package() -> bytes:
    pixels = np.random.RandomState(0).randint(0, 256, (PER_BATCH, 1024, 3)).astype(np.uint8)
    sheet = io.BytesIO()
    Image.fromarray(pixels).save(sheet, "PNG")
    members = dict.fromkeys((*npm_mirror.TRAIN, *npm_mirror.TEST), sheet.getvalue())
    members[npm_mirror.TRAIN_LABELS] = json.dumps(list(range(5 * PER_BATCH))).encode()
    members[npm_mirror.TEST_LABELS] = json.dumps(list(range(PER_BATCH))).encode()
    return _tar(members)


def _read_package(path: Path) -> object:
    expected, npm_mirror.IMAGES_PER_BATCH = npm_mirror.IMAGES_PER_BATCH, PER_BATCH
    try:
        return npm_mirror.read_package(path)
    finally:
        npm_mirror.IMAGES_PER_BATCH = expected


def _fixture(name: str) -> Callable[[], bytes]:
    return (FIXTURES / name).read_bytes


def _saved(state: dict[str, torch.Tensor]) -> bytes:
    content = io.BytesIO()
    torch.save(state, content)
    return content.getvalue()


def _weights() -> dict[str, torch.Tensor]:
    return {"conv.weight": torch.arange(12.0).view(3, 4), "bn.bias": torch.ones(3)}


def _safetensors() -> bytes:
    path = Path("/dev/shm") / f"procrustean-fuzz-{torch.initial_seed()}"
    save_file(_weights(), path)
    try:
        return path.read_bytes()
    finally:
        path.unlink()


def _read_checkpoint(path: Path) -> object:
    """A checkpoint whose manifest says that it is whole, as a hostile writer's would."""
    entry = {"file": "checkpoint-000001.safetensors", "sha256": checkpoint._sha256(path), "position": {"stage": 0}}
    path.with_name(entry["file"]).write_bytes(path.read_bytes())
    path.with_name(checkpoint.MANIFEST).write_bytes(checkpoint._manifest([entry]))
    return checkpoint.load_checkpoint(path.parent)


def _read_grid(path: Path) -> object:
    return expand(read_yaml(path), Path("runs"))


READERS = {
    "image PNG": Reader(_picture("PNG"), _read_folder("error"), "image"),
    "image JPEG": Reader(_picture("JPEG"), _read_folder("error"), "image"),
    "image GIF": Reader(_picture("GIF"), _read_folder("error"), "image"),
    "image WebP": Reader(_picture("WEBP"), _read_folder("error"), "image"),
    "image TIFF": Reader(_picture("TIFF", compression="tiff_lzw"), _read_folder("error"), "image"),
    "image BMP": Reader(_picture("BMP"), _read_folder("error"), "image"),
    "image PPM": Reader(_picture("PPM"), _read_folder("error"), "image"),
    "image, to be skipped": Reader(_picture("PNG"), _read_folder("skip"), "image"),
    "arrays": Reader(_npz(np.savez), lambda path: load_source(str(path)), "arrays.npz"),
    "arrays, compressed": Reader(_npz(np.savez_compressed), lambda path: load_source(str(path)), "arrays.npz"),
    "CIFAR archive": Reader(_cifar_tar, _read_cifar_tar, "cifar.tar.gz", packed=True),
    "CIFAR batch": Reader(_pickle, lambda path: restricted_pickle.load(path.read_bytes(), name="batch"), "batch"),
    "npm package": Reader(_package, _read_package, "package.tgz", packed=True),
    "config.json": Reader(
        _fixture("unfinished/config.json"), lambda path: RunDirectory.open(path.parent), "config.json", text=True
    ),
    "checkpoints.json": Reader(
        _fixture("unfinished/checkpoints.json"),
        lambda path: checkpoint.load_checkpoint(path.parent),
        "checkpoints.json",
        text=True,
    ),
    "checkpoint": Reader(_safetensors, _read_checkpoint, "new"),
    "epochs.jsonl": Reader(
        _fixture("finished/epochs.jsonl"), lambda path: RunDirectory(path.parent).records(), "epochs.jsonl", text=True
    ),
    "result.json": Reader(_fixture("finished/result.json"), load_result, "result.json", text=True),
    "run.yaml": Reader(_fixture("run.yaml"), lambda path: RunConfig.from_json(read_yaml(path)), "run.yaml", text=True),
    "grid.yaml": Reader(
        lambda: yaml.safe_dump({"base": {"source": "digits"}, "grid": {"seed": [0, 1]}}).encode(),
        _read_grid,
        "grid.yaml",
        text=True,
    ),
    "weights, safetensors": Reader(
        _safetensors, lambda path: RunDirectory(path.parent).load_weights(path.name), "model.safetensors"
    ),
    "weights to start from, safetensors": Reader(
        _safetensors, lambda path: read_pretrained(str(path), "resnet20"), "start.safetensors"
    ),
    "weights to start from, torch": Reader(
        lambda: _saved(_weights()), lambda path: read_pretrained(str(path), "resnet20"), "start.pth"
    ),
}


def write(reader: Reader, content: bytes, folder: Path) -> Path:
    """The damaged file, as its reader will find it."""
    path = folder / reader.name
    path.write_bytes(gzip.compress(content, 1) if reader.packed else content)
    return path

"""Every reader of files, each with a valid file that can then be damaged."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from PIL import Image
from safetensors.torch import save

from procrustean.base.json_files import to_plain, to_typed
from procrustean.base.yaml_files import read_yaml
from procrustean.data import load_source, restricted_pickle
from procrustean.data.sets import cifar
from procrustean.data.sets.cifar import CIFAR10
from procrustean.data.sets.official_files import MAX_ARCHIVE_BYTES
from procrustean.data.sets.official_files import members as read_members
from procrustean.data.stores.listing import listing_of, read_lines
from procrustean.data.stores.store import content_digest, open_store, verify
from procrustean.deploy import load_model
from procrustean.deploy.model import ModelSpec, network_of
from procrustean.engine.probabilities import Calibration, read_prior
from procrustean.engine.stored_calibration import held_out_scores
from procrustean.engine.stored_features import load_features
from procrustean.nets.pretrained import read_pretrained
from procrustean.records import RunSpec, group_results, load_result
from procrustean.records.checkpoints import load_checkpoint
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import Probes
from procrustean.records.several_runs import Comparison, agreed, chosen_run, read_comparison
from procrustean.report.curves import class_curves, overall_curves
from procrustean.runs import expand

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
    return _tar({f"{CIFAR10.folder}/{name}": _pickle() for name in CIFAR10.files})


def _read_cifar_tar(path: Path) -> object:
    assert MAX_ARCHIVE_BYTES
    return read_members(path, {f"{CIFAR10.folder}/{name}": name for name in CIFAR10.files})


def _pickle() -> bytes:
    data = np.random.RandomState(0).randint(0, 256, (3, 12)).astype(np.uint8)
    return pickle.dumps({"data": data, "labels": [0, 1, 2], "names": ["cat", "dog", "owl"]}, 4)


def _package() -> bytes:
    pixels = np.random.RandomState(0).randint(0, 256, (PER_BATCH, 1024, 3)).astype(np.uint8)
    sheet = io.BytesIO()
    Image.fromarray(pixels).save(sheet, "PNG")
    members = dict.fromkeys((*cifar.TRAIN, *cifar.TEST), sheet.getvalue())
    members[cifar.TRAIN_LABELS] = json.dumps(list(range(5 * PER_BATCH))).encode()
    members[cifar.TEST_LABELS] = json.dumps(list(range(PER_BATCH))).encode()
    return _tar(members)


def _read_package(path: Path) -> object:
    expected, cifar.IMAGES_PER_BATCH = cifar.IMAGES_PER_BATCH, PER_BATCH
    try:
        return cifar.read_package(path)
    finally:
        cifar.IMAGES_PER_BATCH = expected


def _fixture(name: str) -> Callable[[], bytes]:
    return (FIXTURES / name).read_bytes


def _saved(state: dict[str, torch.Tensor]) -> bytes:
    content = io.BytesIO()
    torch.save(state, content)
    return content.getvalue()


def _weights() -> dict[str, torch.Tensor]:
    return {"conv.weight": torch.arange(12.0).view(3, 4), "bn.bias": torch.ones(3)}


def _safetensors() -> bytes:
    return _tensors(_weights())


def _tensors(tensors: dict[str, torch.Tensor]) -> bytes:
    return save(tensors)


def _pictures(folder: Path) -> None:
    for number in range(4):
        place = folder / f"{number}.png"
        if not place.exists():
            Image.fromarray(np.full((12, 12, 3), 60 * number, np.uint8)).save(place)


def _read_table(on_bad_image: Any) -> Callable[[Path], object]:
    def read(path: Path) -> object:
        _pictures(path.parent)
        return load_source(str(path), on_bad_image=on_bad_image)

    return read


_ROWS = {"path": [f"{number}.png" for number in range(4)], "label": ["cat", "cat", "dog", "dog"]}


def _csv_table() -> bytes:
    return "\n".join(["path,label", *(",".join(row) for row in zip(*_ROWS.values(), strict=True))]).encode()


def _parquet_table(columns: dict[str, list[Any]] = _ROWS) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    content = io.BytesIO()
    parquet.write_table(pa.table(columns), content)
    return content.getvalue()


def _parquet_of_pictures() -> bytes:
    pictures = []
    for number in range(4):
        content = io.BytesIO()
        Image.fromarray(np.full((12, 12, 3), 60 * number, np.uint8)).save(content, "PNG")
        pictures.append({"bytes": content.getvalue(), "path": f"{number}.png"})
    return _parquet_table({"image": pictures, "label": _ROWS["label"]})


@cache
def _hugging_face() -> dict[str, bytes]:
    """The files of a data set on disk."""
    import datasets

    datasets.disable_progress_bars()
    pictures = [Image.fromarray(np.full((12, 12, 3), 60 * number, np.uint8)) for number in range(4)]
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    made = datasets.Dataset.from_dict({"image": pictures, "label": [0, 0, 1, 1]}, datasets.Features(features))
    with tempfile.TemporaryDirectory() as folder:
        made.save_to_disk(folder)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


_ARROW = "data-00000-of-00001.arrow"


def _read_hugging_face(path: Path) -> object:
    root = path.parent / "saved"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, content in _hugging_face().items():
        (root / name).write_bytes(path.read_bytes() if name == path.name else content)
    return load_source(str(root), on_bad_image="skip")


def _spec() -> dict[str, Any]:
    spec = ModelSpec(
        label="ERM", net="small", method="erm", options={}, seed=0, classes=("cat", "dog"), image_shape=(8, 8, 1),
        crop=None, evaluation_crop=None, mean=(0.5,), std=(0.25,), kind="step",
        calibration=Calibration(1.0, 0.0, (20, 5), 10),
    )  # fmt: skip
    even, pixels = {"cat": 0.5, "dog": 0.5}, {"name": "pixels", "dtype": "uint8", "shape": ["N", 8, 8, 1]}
    names = {"classes": ["cat", "dog"], "prior": even, "frequencies": even}
    return {"format": 1, **names, "input": pixels, "spec": to_plain(spec)}


def _model_weights() -> bytes:
    return _tensors(dict(network_of(to_typed(_spec()["spec"], ModelSpec)).state_dict()))


def _read_export(path: Path) -> object:
    for name, make in {"model.json": lambda: json.dumps(_spec()).encode(), "model.safetensors": _model_weights}.items():
        if name != path.name:
            path.with_name(name).write_bytes(make())
    model = load_model(path.parent, device="cpu")
    return model.probabilities(np.zeros((1, *model.spec.image_shape), np.uint8)) if path.name == "model.json" else model


def _result_with_probes() -> bytes:
    record = json.loads((FIXTURES / "finished/result.json").read_text())
    classes = len(record["data"]["classes"])
    measured = {name: [[0.5] * classes] for name in Probes.__struct_fields__}
    record["probes"] = {**measured, "epochs": [0], "layer": ["group2"]}
    return json.dumps(record).encode()


def _read_curves(path: Path) -> object:
    group = group_results([load_result(path)])[0]
    return overall_curves(group), class_curves(group)


def _read_run_as_model(path: Path) -> object:
    for name in ("config.json", "model.safetensors"):
        path.with_name(name).write_bytes((FIXTURES / "finished" / name).read_bytes())
    return load_model(path.parent, device="cpu")


def _comparison() -> bytes:
    settings = RunSpec("digits", "step", 20, method="erm").to_json()
    return json.dumps({"format": 1, "asked": settings, "config": settings, "chosen": "erm", "compared": []}).encode()


def _read_comparison(path: Path) -> object:
    path.with_name("erm").mkdir(exist_ok=True)
    return read_comparison(path.parent), chosen_run(path.parent), agreed(path.parent, Comparison, _ASKED)


_ASKED = RunSpec("digits", "step", 20, method="erm")


def _features() -> bytes:
    content = io.BytesIO()
    kept = {"train_features": np.zeros((6, 2)), "test_features": np.zeros((4, 2))}
    np.savez_compressed(content, train_labels=np.arange(6) % 2, test_labels=np.arange(4) % 2, **kept)
    return content.getvalue()


def _scores() -> bytes:
    return _tensors({"scores": torch.arange(8.0).view(4, 2), "labels": torch.tensor([0, 1, 0, 1])})


def _store(name: str) -> Callable[[], bytes]:
    def make() -> bytes:
        return _store_files()[name]

    return make


def _store_files() -> dict[str, bytes]:
    images, labels = np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 1, 0, 1])
    splits, chunk = np.array([0, 0, 1, 1], np.uint8), hashlib.sha256(images.data).hexdigest()
    manifest = {
        "format": 1, "shape": list(images.shape), "classes": ["cat", "dog"], "splits": {"train": 2, "test": 2},
        "chunks": [chunk], "chunk_images": 4, "digest": content_digest([chunk], labels, splits),
    }  # fmt: skip
    files = {"store.json": json.dumps(manifest).encode()}
    for name, values in {"images.npy": images, "labels.npy": labels, "splits.npy": splits}.items():
        content = io.BytesIO()
        np.save(content, values)
        files[name] = content.getvalue()
    return files


def _read_store(path: Path) -> object:
    for name, content in _store_files().items():
        if name != path.name:
            path.with_name(name).write_bytes(content)
    store = open_store(path.parent)
    return store.split("train").counts, verify(path.parent)


def _read_list(path: Path) -> object:
    _pictures(path.parent)
    return listing_of(path.parent, {"train": read_lines(path)}, ("cat", "dog"))


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
        _fixture("unfinished/config.json"), lambda path: RunFolder.open(path.parent), "config.json", text=True
    ),
    "checkpoint": Reader(
        _fixture("unfinished/checkpoint-000001.safetensors"),
        lambda path: load_checkpoint(path.parent),
        "checkpoint-000001.safetensors",
    ),
    "epochs.jsonl": Reader(
        _fixture("finished/epochs.jsonl"), lambda path: RunFolder(path.parent).records(), "epochs.jsonl", text=True
    ),
    "result.json": Reader(_fixture("finished/result.json"), load_result, "result.json", text=True),
    "run.yaml": Reader(_fixture("run.yaml"), lambda path: RunSpec.from_json(read_yaml(path)), "run.yaml", text=True),
    "grid.yaml": Reader(
        lambda: yaml.safe_dump({"base": {"source": "digits"}, "grid": {"seed": [0, 1]}}).encode(),
        _read_grid,
        "grid.yaml",
        text=True,
    ),
    "weights, safetensors": Reader(
        _safetensors, lambda path: RunFolder(path.parent).load_weights(path.name), "model.safetensors"
    ),
    "weights to start from, safetensors": Reader(
        _safetensors, lambda path: read_pretrained(str(path), "resnet20"), "start.safetensors"
    ),
    "weights to start from, torch": Reader(
        lambda: _saved(_weights()), lambda path: read_pretrained(str(path), "resnet20"), "start.pth"
    ),
    "table, CSV": Reader(_csv_table, _read_table("error"), "images.csv"),
    "table, CSV, to be skipped": Reader(_csv_table, _read_table("skip"), "images.csv"),
    "table, parquet": Reader(_parquet_table, _read_table("error"), "images.parquet"),
    "table of pictures, parquet": Reader(_parquet_of_pictures, _read_table("skip"), "images.parquet"),
    "Hugging Face data, arrays": Reader(lambda: _hugging_face()[_ARROW], _read_hugging_face, _ARROW),
    "Hugging Face data, description": Reader(
        lambda: _hugging_face()["dataset_info.json"], _read_hugging_face, "dataset_info.json", text=True
    ),
    "list of images": Reader(lambda: b"0.png 0\n1.png 1\n2.png 0\n", _read_list, "list.txt"),
    "store, manifest": Reader(_store("store.json"), _read_store, "store.json", text=True),
    "store, images": Reader(_store("images.npy"), _read_store, "images.npy"),
    "store, labels": Reader(_store("labels.npy"), _read_store, "labels.npy"),
    "model.json of an export": Reader(lambda: json.dumps(_spec()).encode(), _read_export, "model.json", text=True),
    "weights of an export": Reader(_model_weights, _read_export, "model.safetensors"),
    "result.json as a model": Reader(_fixture("finished/result.json"), _read_run_as_model, "result.json", text=True),
    "result.json, drawn": Reader(_result_with_probes, _read_curves, "result.json", text=True),
    "auto.json": Reader(_comparison, _read_comparison, "auto.json", text=True),
    "kept features": Reader(_features, lambda path: load_features(path.parent), "features-000001.npz"),
    "held-out scores": Reader(
        _scores, lambda path: held_out_scores(RunFolder(path.parent)), "held_out_scores.safetensors"
    ),
    "prior, CSV": Reader(
        lambda: b"cat,0.3\ndog,0.7\n", lambda path: read_prior(str(path), ["cat", "dog"], [2, 1]), "prior.csv"
    ),
    "prior, JSON": Reader(
        lambda: b'{"cat": 0.3, "dog": 0.7}',
        lambda path: read_prior(str(path), ["cat", "dog"], [2, 1]),
        "prior.json",
        text=True,
    ),
}


def write(reader: Reader, content: bytes, folder: Path) -> Path:
    """The damaged file, as its reader will find it."""
    path = folder / reader.name
    path.write_bytes(gzip.compress(content, 1) if reader.packed else content)
    return path

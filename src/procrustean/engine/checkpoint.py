"""Checkpoints: a safetensors file and a manifest, written so that a kill at any moment leaves a whole one behind."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..errors import RunError

MANIFEST = "checkpoints.json"
KEPT = 2


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole: readers see the old one or the new one, also after a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write {path} ({error.strerror}); the previous version is intact") from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(contiguous, temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write {path} ({error}); what was saved before is intact") from error


def save_checkpoint(folder: Path, number: int, tensors: Mapping[str, Tensor], position: Mapping[str, Any]) -> None:
    """Save a checkpoint and drop all but the last two; the manifest, written last, makes it count."""
    path = folder / f"checkpoint-{number:06d}.safetensors"
    save_tensors(path, tensors)
    entry = {"file": path.name, "sha256": _sha256(path), "position": dict(position)}
    earlier = [e for e in _entries(folder) if e["file"] != path.name]
    entries = [*earlier[-(KEPT - 1) :], entry]
    write_atomically(folder / MANIFEST, json.dumps({"format": 1, "checkpoints": entries}).encode())
    kept = {e["file"] for e in entries}
    for old in folder.glob("checkpoint-*.safetensors"):
        if old.name not in kept:
            old.unlink()


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], int] | None:
    """The newest whole checkpoint: tensors, position and number; None if there is none yet.

    A missing or damaged one is passed over with a warning, for the one before it.
    """
    entries = _entries(folder)
    for entry in reversed(entries):
        path = folder / entry["file"]
        if not path.exists() or _sha256(path) != entry["sha256"]:
            warnings.warn(f"{path} is missing or damaged; going back to the checkpoint before it", stacklevel=2)
            continue
        return load_file(path), entry["position"], int(path.stem.rpartition("-")[2])
    if entries:
        raise RunError(f"every checkpoint in {folder} is missing or damaged; start the run again in a new folder")
    return None


def kept_checkpoints(folder: Path) -> list[dict[str, Any]]:
    """The checkpoints that count, oldest first: file, sha256 and position of each."""
    return _entries(folder)


def remove_leftovers(folder: Path) -> None:
    """Drop half-written files of a run that was killed while saving."""
    for path in folder.glob(".*.tmp"):
        path.unlink()


def remove_checkpoints(folder: Path) -> None:
    """Drop the checkpoints of a finished run."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in folder.glob("checkpoint-*.safetensors"):
        path.unlink()


def _entries(folder: Path) -> list[dict[str, Any]]:
    path = folder / MANIFEST
    if not path.exists():
        return []
    try:
        manifest = json.loads(path.read_text())
        if manifest["format"] != 1:
            raise RunError(f"{path} has format {manifest['format']}; this version of procrustean reads format 1")
        entries: list[dict[str, Any]] = manifest["checkpoints"]
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is not a checkpoint manifest ({error})") from error
    return entries


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cpu_copy(tensor: Tensor) -> Tensor:
    """A copy on the host that later training steps do not change."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)

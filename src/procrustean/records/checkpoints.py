"""Checkpoints: safetensors files that each hold a whole state and its hash, so that a kill at any moment leaves one."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from procrustean.base.errors import RunError
from procrustean.base.files import Check, drop, is_half_written, no_check, replacing
from procrustean.base.json_files import parse_json
from procrustean.base.lease import MARKER

KEPT = 2
FILE = re.compile(r"checkpoint-(\d{6,})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is kept; what cannot be read of it is a RunError that names it."""

    path: Path
    number: int

    def position(self) -> dict[str, Any]:
        """Where the run stood."""
        with self._readable(), safe_open(self.path, "pt") as file:
            position: dict[str, Any] = parse_json(file.metadata()["position"].encode())
            return position

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and position, as they were saved."""
        position = self.position()
        with self._readable(), safe_open(self.path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  no mapping
            if file.metadata()["sha256"] != _digest(tensors, file.metadata()["position"]):
                raise ValueError("its content does not match its hash")
        return tensors, position

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (OSError, SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise RunError(f"{self.path} is damaged ({error})") from error


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], check: Check = no_check, metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file atomically, if the check allows it in the end."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path, check=check) as temporary:
        temporary.touch()
        usual = temporary.stat().st_mode
        try:
            save_file(contiguous, temporary, metadata)
        except SafetensorError as error:
            raise OSError(str(error)) from error
        if temporary.stat().st_mode != usual:  # safetensors makes a file that nobody else may read
            temporary.chmod(usual)


def save_checkpoint(
    folder: Path,
    number: int,
    tensors: Mapping[str, Tensor],
    position: Mapping[str, Any],
    check: Check = no_check,
) -> None:
    """Save a checkpoint and drop all but the last two.

    Args:
        folder, number: the run's, and of the checkpoint.
        tensors, position: what is saved.
        check: raises an error if this process may not write in the folder any more.
    """
    place = json.dumps(dict(position))
    metadata = {"position": place, "sha256": _digest(tensors, place)}
    save_tensors(folder / f"checkpoint-{number:06d}.safetensors", tensors, check, metadata)
    for old in kept_checkpoints(folder)[:-KEPT]:
        drop(old.path)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], int] | None:
    """The newest whole checkpoint: tensors, position and number; None if there is none yet.

    A damaged one is passed over with a warning, for the one before it.
    """
    kept = kept_checkpoints(folder)
    for checkpoint in reversed(kept):
        try:
            return *checkpoint.load(), checkpoint.number
        except RunError as error:
            warnings.warn(f"{error}; going back to the checkpoint before it", stacklevel=2)
    if kept:
        raise RunError(f"every checkpoint in {folder} is damaged; start the run again in a new folder")
    return None


def kept_checkpoints(folder: Path) -> list[Checkpoint]:
    """The checkpoints in a folder, oldest first."""
    named = [(FILE.fullmatch(path.name), path) for path in folder.glob("checkpoint-*")]
    return sorted((Checkpoint(path, int(name[1])) for name, path in named if name), key=lambda kept: kept.number)


def is_leftover(path: Path) -> bool:
    """Whether a file is one that was being written when the program was killed, or says that it was at work."""
    return path.name == MARKER or is_half_written(path)


def remove_checkpoints(folder: Path) -> None:
    """Drop the checkpoints of a finished run."""
    for checkpoint in kept_checkpoints(folder):
        drop(checkpoint.path)


def _digest(tensors: Mapping[str, Tensor], position: str) -> str:
    digest = hashlib.sha256(position.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {_kind(tensor)}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def check_tensors(wanted: Mapping[str, Tensor], found: Mapping[str, Tensor], place: str) -> None:
    """RunError unless a checkpoint has every tensor that is wanted, in its shape and type."""
    for name, tensor in wanted.items():
        kind, other = _kind(tensor), _kind(found[name]) if name in found else "missing"
        if kind != other:
            raise RunError(
                f"the checkpoint of {place} does not fit this run: {name} is {other}, {kind} is needed. It was written "
                "by another version or for another network; start the run again in a new folder"
            )


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def cpu_copy(tensor: Tensor) -> Tensor:
    """A copy on the host that later training steps do not change."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)

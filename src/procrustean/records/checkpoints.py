"""Checkpoints: a safetensors file and a manifest, written so that a kill at any moment leaves a whole one behind."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from msgspec import Meta, MsgspecError, Struct
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from procrustean.base.errors import CannotWrite, RunError
from procrustean.base.files import OF_A_RUN, Check, drop, is_half_written, no_check, replacing, write_atomically
from procrustean.base.json_files import FORMAT, check_format, parse_json, to_typed, typed_json
from procrustean.base.lease import MARKER

MANIFEST = "checkpoints.json"
PREVIOUS = "checkpoints.previous.json"
KEPT = 2
FILE = re.compile(r"checkpoint-(\d{6,})\.safetensors")


class Entry(Struct, frozen=True, kw_only=True):
    """A checkpoint that counts."""

    file: Annotated[str, Meta(pattern=r"^checkpoint-\d{6,}\.safetensors$")]
    sha256: str
    position: dict[str, Any]


class Manifest(Struct, frozen=True, kw_only=True):
    """The content of checkpoints.json, oldest first."""

    format: Literal[1] = FORMAT
    sha256: str  # of the checkpoints as they are listed
    checkpoints: list[Entry]


def save_tensors(path: Path, tensors: Mapping[str, Tensor], check: Check = no_check) -> None:
    """Write a safetensors file atomically, if the check allows it in the end."""
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with replacing(path, check=check) as temporary:
        temporary.touch()
        usual = temporary.stat().st_mode
        try:
            save_file(contiguous, temporary)
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
    """Save a checkpoint and drop all but the last two; the manifest, written last, makes it count.

    Args:
        folder, number: the run's, and of the checkpoint.
        tensors, position: what is saved.
        check: raises an error if this process may not write in the folder any more; asked before each file.
    """
    path = folder / f"checkpoint-{number:06d}.safetensors"
    save_tensors(path, tensors, check)
    try:
        entry = Entry(file=path.name, sha256=_sha256(path), position=dict(position))
    except OSError as error:
        raise CannotWrite(f"cannot read {path} after writing it ({error.strerror or error}); {OF_A_RUN}") from error
    before = kept_checkpoints(folder)
    entries = [*[e for e in before if e.file != path.name][-(KEPT - 1) :], entry]
    if before:
        write_atomically(folder / PREVIOUS, _manifest(before), OF_A_RUN, check)
    write_atomically(folder / MANIFEST, _manifest(entries), OF_A_RUN, check)
    kept = {e.file for e in entries}
    for old in folder.glob("checkpoint-*.safetensors"):
        if old.name not in kept:
            drop(old)


def load_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], int] | None:
    """The newest whole checkpoint: tensors, position and number; None if there is none yet.

    A missing or damaged one is passed over with a warning, for the one before it.
    """
    entries, problem = _newest_manifest(folder)
    if problem:
        warnings.warn(f"{problem}; going back to the manifest before it", stacklevel=2)
    for entry in reversed(entries):
        path = folder / entry.file
        try:
            if _sha256(path) == entry.sha256:
                return load_file(path), entry.position, int(FILE.fullmatch(path.name)[1])  # type: ignore[index]
        except (OSError, SafetensorError):
            pass  # told of below
        warnings.warn(f"{path} is missing or damaged; going back to the checkpoint before it", stacklevel=2)
    if entries:
        raise RunError(f"every checkpoint in {folder} is missing or damaged; start the run again in a new folder")
    return None


def kept_checkpoints(folder: Path) -> list[Entry]:
    """The checkpoints that count, oldest first: what each is."""
    return _newest_manifest(folder)[0]


def is_leftover(path: Path) -> bool:
    """Whether a file is one that was being written when the program was killed, or says that it was at work."""
    return path.name == MARKER or is_half_written(path)


def remove_checkpoints(folder: Path) -> None:
    """Drop the checkpoints of a finished run."""
    for path in (folder / MANIFEST, folder / PREVIOUS, *folder.glob("checkpoint-*.safetensors")):
        drop(path)


def _newest_manifest(folder: Path) -> tuple[list[Entry], str]:
    """What the newest whole manifest names (nothing if there is none yet), and what is wrong with a newer one."""
    problems: list[str] = []
    for path in (folder / MANIFEST, folder / PREVIOUS):
        try:
            return _entries_of(path), "; ".join(problems)
        except FileNotFoundError:
            problems.append(f"{path} is missing")
        except (OSError, ValueError, MsgspecError, RecursionError) as error:
            problems.append(f"{path} is damaged ({error})")
    if not all(problem.endswith("is missing") for problem in problems):
        raise RunError(f"{'; '.join(problems)}; start the run again in a new folder")
    return [], ""


def _entries_of(path: Path) -> list[Entry]:
    content = parse_json(path.read_bytes())
    check_format(content, path)
    manifest = to_typed(content, Manifest)
    if manifest.sha256 != _digest(manifest.checkpoints):
        raise ValueError("its content does not match its hash")
    return manifest.checkpoints


def _manifest(entries: list[Entry]) -> bytes:
    return typed_json(Manifest(sha256=_digest(entries), checkpoints=entries), indent=0)


def _digest(entries: list[Entry]) -> str:
    return hashlib.sha256(typed_json(entries, indent=0)).hexdigest()


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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

"""The folder of a run: config.json, epochs.jsonl, checkpoints, model.safetensors, result.json."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from procrustean.base.console import command_text
from procrustean.base.epochs import EpochRecord
from procrustean.base.errors import CannotWrite, RunError
from procrustean.base.files import OF_A_RUN, drop, remove_half_written, write_atomically
from procrustean.base.json_files import parse_json, read_typed, to_typed, typed_json
from procrustean.base.lease import MARKER, Claim
from procrustean.data.sources import place_of
from procrustean.records import checkpoints as checkpoint
from procrustean.records.finding_runs import CONFIG_FILE, FINAL, RESULT_FILE, no_run_at, resume_command
from procrustean.records.finding_runs import TRIALS as TRIALS
from procrustean.records.identity import Beginning, Identity, Trial, changed_settings
from procrustean.records.run_record import RunRecord
from procrustean.records.run_spec import RunSpec

#: What a run keeps of the trainings that decided how it is trained.
TRIAL_SCORES = "trial_scores.safetensors"
RECORDS = "records"  # the epochs so far, as bytes, among the tensors of a checkpoint


class RunUnfinished(RunError):
    """The folder holds a run with these very settings, which has not come to its end."""


class RunFolder:
    """Reads and writes a run's files. Nothing in it is ever overwritten by another run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._number = 0
        self._claim: Claim | None = None
        self._recorded = bytearray()  # what epochs.jsonl holds
        self._saved = b""  # what it held when the checkpoint was saved

    @classmethod
    def create(
        cls,
        path: Path,
        config: RunSpec,
        identity: Identity,
        why: Sequence[str] = (),
        trials: Sequence[Trial] = (),
        *,
        final: bool = False,
    ) -> RunFolder:
        """Start a new run and claim it; refuses a folder that holds one already, or anything else.

        Args:
            path: of the folder.
            config, identity: the settings, and what must not change.
            why: reasons for settings that were chosen for the user.
            trials: what these rest on.
            final: whether one more training follows, on all images.
        """
        directory = cls(path)
        beginning = Beginning(
            hash=config.hash,
            config=config,
            identity=identity,
            why=list(why),
            trials=list(trials),
            final=final,
            source_path=place_of(config.source),
        )
        try:
            directory._take(config)
            directory.write(CONFIG_FILE, typed_json(beginning))
        except BaseException:
            directory.release()
            raise
        return directory

    def _take(self, config: RunSpec) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.claim()
            if self.file(CONFIG_FILE).exists():
                self.refuse_reuse(config)
            # What a kill left of the first file that is written does not stand in the way of a second attempt.
            beside = [entry for entry in self.path.iterdir() if entry.name != TRIALS]
            if not all(map(checkpoint.is_leftover, beside)):
                raise RunError(f"{self.path} exists and is not an empty folder; choose another --run-dir")
            remove_half_written(self.path)
        except OSError as error:
            raise CannotWrite(
                f"cannot create the run directory {self.path} ({error.strerror}); choose another --run-dir"
            ) from error

    @classmethod
    def open(cls, path: Path) -> tuple[RunFolder, RunSpec, Identity]:
        """An existing run with its settings and identity."""
        directory = cls(path)
        beginning = directory.beginning()
        if beginning.hash != beginning.config.hash:
            raise RunError(
                f"{path}/{CONFIG_FILE} has been changed or damaged since the run began: its settings have the hash "
                f"{beginning.config.hash}, not {beginning.hash!r:.20}. Put it back, or start a new run with these "
                "settings"
            )
        return directory, beginning.config, beginning.identity

    def beginning(self) -> Beginning:
        """What the run began with."""
        path = self.file(CONFIG_FILE)
        if not os.path.isfile(path):  # noqa: PTH113  that of pathlib raises where names are too long
            raise no_run_at(self.path)
        return read_typed(path, Beginning, f"restore it, or remove {self.path} to train the run again")

    def claim(self) -> None:
        """Keep other processes from training this run until `release`, or until this process ends.

        A finished run is not trained by any, and may be where nothing can be written.
        """
        if not self.finished:
            self._claim = self._claim or Claim(self.path)

    def _check(self) -> None:
        """RunInUse if another process has taken over the run that this one has claimed."""
        if self._claim is not None:
            self._claim.check()

    def write(self, name: str, content: bytes) -> None:
        """Replace a file of the run as a whole, unless another process has taken the run over."""
        write_atomically(self.file(name), content, OF_A_RUN, self._check)

    def release(self) -> None:
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    def remember_source(self, source: str) -> None:
        """Keep where the images have moved, for whatever uses the run later; its settings and their hash stay."""
        beginning, place = self.beginning(), place_of(source)
        if place is not None and place != beginning.source_path:
            self.write(CONFIG_FILE, typed_json(msgspec.structs.replace(beginning, source_path=place)))

    def refuse_reuse(self, config: RunSpec) -> None:
        """Say why an existing run directory cannot take this run."""
        _, existing, _ = RunFolder.open(self.path)
        if changed := changed_settings(existing, config, self.beginning().source_path):
            told = ", ".join(f"{name}: {there!r} there, {here!r} here" for name, (there, here) in changed.items())
            raise RunError(f"{self.path} holds a run with other settings ({told}); choose another --run-dir")
        if self.finished and not self.lacks_final:
            raise RunError(f"{self.path} holds this very run, finished; see: {command_text('compare', self.path)}")
        raise RunUnfinished(f"{self.path} holds this very run, unfinished; go on with: {resume_command(self.path)}")

    def file(self, name: str) -> Path:
        return self.path / name

    @property
    def finished(self) -> bool:
        return self.file(RESULT_FILE).exists()

    @property
    def lacks_final(self) -> bool:
        """Whether the training on all images that follows this run has not come to its end."""
        return self.beginning().final and not (self.path / FINAL / RESULT_FILE).exists()

    def records(self) -> list[EpochRecord]:
        """The epochs so far; a last line cut short by a kill does not count."""
        path = self.file("epochs.jsonl")
        if not path.exists():
            return []
        try:
            return [to_typed(parse_json(line), EpochRecord) for line in path.read_bytes().split(b"\n")[:-1]]
        except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
            raise RunError(f"{path} is damaged ({error}); start the run again in a new folder") from error

    def keep_records(self) -> None:
        """Drop the epochs after the checkpoint that training goes on from; they are about to be trained again.

        A file that does not hold the epochs before it any more is put right.
        """
        path = self.file("epochs.jsonl")
        content = self._saved
        if content and not (path.exists() and path.read_bytes().startswith(content)):
            warnings.warn(f"{path} is missing or damaged; restored from the checkpoint", stacklevel=2)
        self.write(path.name, content)
        self._recorded = bytearray(content)

    def append(self, record: EpochRecord) -> None:
        """Add an epoch."""
        line = typed_json(record, indent=0)
        self._check()
        try:
            with open(self.file("epochs.jsonl"), "ab") as file:
                file.write(line)
                file.flush()
                # A checkpoint that counts this epoch must not outlive it.
                os.fsync(file.fileno())
        except OSError as error:
            raise CannotWrite(
                f"cannot write {self.file('epochs.jsonl')} ({error.strerror or error}); {OF_A_RUN}"
            ) from error
        self._recorded += line

    @property
    def has_checkpoint(self) -> bool:
        """Whether one has been saved or gone on from since the run was opened."""
        return self._number > 0

    def save_checkpoint(self, tensors: Mapping[str, Tensor], position: Mapping[str, Any]) -> None:
        self._number += 1
        recorded = torch.from_numpy(np.frombuffer(bytes(self._recorded), np.uint8).copy())
        checkpoint.save_checkpoint(self.path, self._number, {**tensors, RECORDS: recorded}, position, self._check)

    def load_checkpoint(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        remove_half_written(self.path)
        loaded = checkpoint.load_checkpoint(self.path)
        if loaded is None:
            return None
        tensors, position, self._number = loaded
        self._saved = bytes(tensors.pop(RECORDS).to(torch.uint8).numpy())
        return tensors, position

    def save_arrays(self, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Write numpy arrays as one compressed file."""
        content = io.BytesIO()
        np.savez_compressed(content, allow_pickle=False, **arrays)
        self.write(name, content.getvalue())

    def save_weights(self, name: str, weights: Mapping[str, Tensor]) -> None:
        checkpoint.save_tensors(self.file(name), weights, self._check)

    def load_weights(self, name: str) -> dict[str, Tensor]:
        """Tensors of a file of this run, or a RunError."""
        try:
            return load_file(self.file(name))
        except (OSError, SafetensorError) as error:
            raise RunError(f"{self.file(name)} is missing or damaged ({error})") from error

    def clear(self) -> None:
        """Remove what a finished run does not need; a kill right after its result was written has left it."""
        checkpoint.remove_checkpoints(self.path)
        drop(self.file(MARKER))

    def finish(self, record: RunRecord) -> None:
        """Write the result; from now on the run is complete and needs its checkpoints no more."""
        self.write(RESULT_FILE, typed_json(record))
        checkpoint.remove_checkpoints(self.path)

"""Where results are written: where that can be, never over what is no result or what was read, and never into a run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from procrustean.base.errors import RunError
from procrustean.base.files import write_atomically

#: Endings of files that a table, or a file of metrics, may replace.
TABLES, METRICS = (".csv", ".tsv", ".md", ".tex", ".txt"), (".json",)


def write_table(output: Path, text: str, inputs: Iterable[str | Path] = ()) -> None:
    """Write a table into a new file, or in place of an older table."""
    check_output(output, inputs)
    write_text(output, text)


def write_text(output: Path, text: str) -> None:
    """Write a file as a whole, whatever there is."""
    write_atomically(output, text.encode("utf-8", errors="surrogateescape"), "choose another --output")


def check_output(output: Path, inputs: Iterable[str | Path] = (), endings: Sequence[str] = TABLES) -> None:
    """RunError for a file that must not be replaced or cannot be written to; before anything is computed."""
    if any(Path(given).exists() and output.exists() and output.samefile(given) for given in inputs):
        raise RunError(f"{output} is read for this; choose another --output")
    if output.is_dir() or (output.exists() and output.suffix.lower() not in endings):
        kind = "a table" if endings is TABLES else "a file of metrics"
        raise RunError(
            f"{output} exists and is not {kind} ({', '.join(endings)}), so it is not replaced; choose another --output"
        )
    if not output.parent.is_dir():
        raise RunError(f"cannot write {output}: there is no folder {output.parent}; choose another --output")
    # The file is written beside its place and then moved there, which the folder has to allow.
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise RunError(
            f"cannot write {output}: there is no permission to write into {output.parent}; choose another --output"
        )


def check_folder(folder: Path, option: str = "--output") -> None:
    """RunError for a folder that cannot be made or written into; say it before anything is computed."""
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    except OSError as error:
        raise RunError(f"cannot write into {folder} ({error.strerror}); choose another {option}") from error
    if not there.is_dir():
        raise RunError(f"cannot write into {folder}: {there} is no folder; choose another {option}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise RunError(
            f"cannot write into {folder}: there is no permission to write into {there}; choose another {option}"
        )


def refuse_inside(run: Path, output: Path | None) -> None:
    """RunError for a file or folder inside a run, whose folder holds what training left, and nothing else."""
    if output is not None and output.resolve().is_relative_to(run.resolve()):
        raise RunError(f"{output} is inside the run {run}, which stays as it is; give another place")

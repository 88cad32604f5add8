"""Files: paths as users write them, and files that are replaced as a whole or not at all."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from procrustean.base.errors import CannotWrite

#: What to do about a file of a run that cannot be written.
OF_A_RUN = "what was saved before is intact. Make room or allow writing there, then go on with the run"

#: Names of files that are being written: ours, and that under which safetensors writes before it renames.
TEMPORARY = re.compile(r"\..+\.\d+\.tmp|\.tmp[0-9A-Za-z]{6}")

Check = Callable[[], None]


def no_check() -> None:
    """Whoever writes may."""


def write_atomically(path: Path, content: bytes, advice: str = OF_A_RUN, check: Check = no_check) -> None:
    """Replace a file as a whole: readers see the old one or the new one, also after a power cut.

    Args:
        path: of the file.
        content: all of it.
        advice: what to do where it cannot be written.
        check: raises an error if the file must stay as it is after all; asked last.
    """
    with replacing(path, advice, check) as temporary, open(temporary, "wb") as file:
        file.write(content)


def write_json(path: Path, content: object, advice: str = OF_A_RUN) -> None:
    """Replace a file of JSON as a whole, in lines that a person can read."""
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode(), advice)


@contextmanager
def replacing(path: Path, advice: str = OF_A_RUN, check: Check = no_check) -> Iterator[Path]:
    """A name to write to; then the file is synced, put in its place if the check allows it, and the folder synced."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        sync(temporary)
        check()
        os.replace(temporary, path)
        sync(path.parent)
    except OSError as error:
        raise CannotWrite(f"cannot write {path} ({error.strerror or error}); {advice}") from error
    finally:
        drop(temporary)


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_half_written(path: Path) -> bool:
    """Whether a file is one that was being written when the program was killed."""
    return TEMPORARY.fullmatch(path.name) is not None


def remove_half_written(folder: Path) -> None:
    """Drop what killed programs have left in a folder that no other one is writing to."""
    for path in folder.iterdir():
        if is_half_written(path):
            drop(path)


def drop(path: Path) -> None:
    """Remove a file that nothing needs any more; where the system refuses, say so and go on."""
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:
        pass  # below a file there is nothing to remove
    except OSError as error:
        warnings.warn(f"cannot remove {path} ({error.strerror}); it is not needed any more", stacklevel=2)


def expanded(path: str | Path) -> Path:
    """The path with ~ written out; as it is where no user is called so, which is how shells leave it.

    >>> expanded("~nobody_is_called_so/x.png").as_posix()
    '~nobody_is_called_so/x.png'
    """
    return Path(os.path.expanduser(path))  # noqa: PTH111  that of pathlib raises there

"""Make a folder as a whole: it is written beside its place and put there when all of it is on the disk."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from procrustean.base.errors import CannotWrite, RunError
from procrustean.base.lease import Claim, RunInUse
from procrustean.base.whole_files import sync


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """A folder to write into; it becomes `place` at the end, and nothing does after an error or a kill.

    What killed calls have left beside the place is removed.

    Args:
        place: where nothing may be, or an empty folder.
    """
    target = place.resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunError(f"{place} exists and is not an empty folder; choose another --output")
    if target == Path.cwd():
        raise RunError(f"{place} is the current folder, which cannot be replaced; name a new folder by --output")
    place_of_draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    draft = made = place_of_draft / target.name  # beside the claim, which stays behind
    claim: Claim | None = None
    done = False
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target)
        place_of_draft.mkdir()
        claim = Claim(place_of_draft)
        draft.mkdir()
        yield draft
        for path in (*draft.iterdir(), draft):
            sync(path)
        made = draft.rename(target)
        sync(target.parent)
        done = True
    except OSError as error:
        raise RunError(
            f"cannot write {place} ({error.strerror or error}); nothing is left there. Make room, or choose another "
            "--output"
        ) from error
    finally:
        if not done:
            shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(place_of_draft, ignore_errors=True)
        if claim is not None:
            claim.release()


def _remove_leftovers(target: Path) -> None:
    """Remove drafts of this folder whose processes were killed."""
    name = re.compile(rf"\.{re.escape(target.name)}\.\d+\.tmp")
    for path in [path for path in target.parent.iterdir() if name.fullmatch(path.name)]:
        try:
            claim = Claim(path)
        except (RunInUse, CannotWrite):  # of a process that goes on, or gone by now
            continue
        shutil.rmtree(path)
        claim.release()

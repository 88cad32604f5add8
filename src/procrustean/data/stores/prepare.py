"""From an official layout to a store: check, estimate, decode in parallel, and put the whole in place at once."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from procrustean.base.errors import DataError
from procrustean.base.lease import in_turn
from procrustean.data.download import Say
from procrustean.data.image_files import Problems
from procrustean.data.image_lists import named
from procrustean.data.sets.prepared_files import Prepared
from procrustean.data.stores.listing import Listing, Resize, count_problems
from procrustean.data.stores.store import Store, open_store, store_path
from procrustean.data.stores.store_writer import Building, Progress, decode

OnBadImage = Literal["error", "skip"]
SAMPLE = 24
#: How many problems are told.
SHOWN = 20


@dataclass(frozen=True)
class Plan:
    """What is going to be done, and what it takes."""

    layout: Prepared
    listing: Listing
    problems: Problems
    target: Path  # where the store will be
    size: int
    resize: Resize
    images: int
    gigabytes: float
    free_gigabytes: float
    seconds: float  # predicted for decoding
    workers: int


def plan(
    layout: Prepared,
    source: Path,
    *,
    root: Path,
    lists: Path | None = None,
    size: int | None = None,
    resize: Resize | None = None,
    workers: int | None = None,
) -> Plan:
    """Read a layout, compare it with the published counts, and estimate what its store takes; nothing is written.

    Args:
        layout: which data set.
        source: its folder.
        root: folder of data sets, below which the store will be.
        lists: folder of the list files, where they are not in `source`.
        size: side of the stored images; default the layout's.
        resize: how images become square; default the layout's.
        workers: processes that decode; default all cores.
    """
    if not source.is_dir():
        raise DataError(f"{source}: there is no such folder; name the unpacked data set with --source")
    listing = layout.read(source, lists)
    counts = {} if layout.groups else layout.counts
    problems = {**listing.problems, **count_problems(listing, counts, layout.groups)}
    side, how = size or layout.size, resize or layout.resize
    images = sum(len(part.labels) for part in listing.parts.values())
    count = workers or os.cpu_count() or 1
    return Plan(
        layout=layout,
        listing=listing,
        problems=problems,
        target=store_path(root, layout.stored_as, side),
        size=side,
        resize=how,
        images=images,
        gigabytes=images * side * side * 3 / 1e9,
        free_gigabytes=shutil.disk_usage(_existing(root)).free / 1e9,
        seconds=_seconds_per_image(listing, side, how) * images / count,
        workers=count,
    )


def prepare(
    planned: Plan,
    *,
    on_bad_image: OnBadImage = "error",
    say: Say = lambda text: None,
    progress: Progress = lambda done, total: None,
) -> Store:
    """Decode everything that was planned into a store and open it. What an earlier call has decoded is kept.

    Args:
        planned: what `plan` gave.
        on_bad_image: "error" refuses a data set in which anything is wrong, "skip" leaves the images at fault out,
            counts the classes again and says so.
        say: called with one line at a time.
        progress: told how many images are done.
    """
    layout, problems = planned.layout, dict(planned.problems)
    if on_bad_image == "error":
        _refuse(problems, planned)
    building = Building(
        planned.listing, planned.target, name=layout.stored_as, size=planned.size, resize=planned.resize
    )
    planned.target.parent.mkdir(parents=True, exist_ok=True)
    with in_turn(planned.target.parent, lambda: say(f"waiting for another process in {planned.target.parent}")):
        if planned.target.exists():
            store = open_store(planned.target)
            building.refuse_other(store)
            say(f"{planned.target} is complete already; remove the folder to prepare it again")
            return store
        if planned.free_gigabytes < planned.gigabytes and not building.draft.exists():
            raise DataError(
                f"{planned.target.parent}: {planned.free_gigabytes:.3g} GB free, {planned.gigabytes:.3g} GB needed; "
                "make room, or choose another place with --data-dir or a smaller --size"
            )
        try:
            problems |= building.decode_all(
                planned.workers, keep_damaged=on_bad_image == "skip", say=say, progress=progress
            )
            if on_bad_image == "error":
                _refuse(problems, planned)
            store = building.finish(problems, groups=bool(layout.groups))
        except OSError as error:
            raise DataError(
                f"preparing {planned.target} ended with an error: {error}. What has been decoded is kept in "
                f"{building.draft}; mend this, make room for example, and give the same command again"
            ) from error
    if problems:
        _tell_of_skipping(problems, planned, say)
    return store


def _refuse(problems: Problems, planned: Plan) -> None:
    if problems:
        lines = [
            f"{planned.layout.title} cannot be prepared: {len(problems):,} problem{'s' * (len(problems) > 1)}",
            *named(problems, SHOWN),
            f"All of them: {_listed(problems, planned)}",
            "Mend them (an incomplete data set is best unpacked again), or leave these images out with "
            "--on-bad-image skip, which counts the classes again",
        ]
        raise DataError("\n".join(lines))


def _tell_of_skipping(problems: Problems, planned: Plan, say: Say) -> None:
    path = _listed(problems, planned)
    for line in named(problems, SHOWN):
        say(line)
    say(
        f"{planned.layout.title} is not complete: images counted again, results are not comparable with published "
        f"ones; all problems: {path}"
    )


def _listed(problems: Problems, planned: Plan) -> Path:
    """The file that names all problems; what is no text in the name of a file is written as its bytes."""
    path = planned.target.with_name(planned.target.name + ".problems.txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{name}: {problem}\n" for name, problem in problems.items())
    path.write_text(lines, encoding="utf-8", errors="backslashreplace")
    return path


def _seconds_per_image(listing: Listing, size: int, resize: Resize) -> float:
    """Time that one process takes for an image, from a few spread over the data set."""
    out = np.empty((size, size, 3), np.uint8)
    began, tried = time.perf_counter(), 0
    for part in listing.parts.values():
        count = len(part.labels)
        for row in range(0, count, max(1, count * len(listing.parts) // SAMPLE)):
            (image,) = part.payload(row, row + 1)
            tried += 1
            try:
                decode(image, out, resize)
            except Exception:  # it will be told of when its turn comes
                continue
    return (time.perf_counter() - began) / max(tried, 1)


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)

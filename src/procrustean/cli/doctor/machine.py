"""Processor, threads, memory, disk and data folders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from procrustean.base.cores import ONE_THREAD, slow_threads
from procrustean.cli.doctor.finding import Finding, fine, note, problem

GIB = 2**30
LITTLE_DISK, LITTLE_MEMORY = 2 * GIB, 2 * GIB
#: From this many waiting programs per core on a machine is called busy.
BUSY = 0.75


def check_threads(threads: int, cores: int, environment: Mapping[str, str]) -> list[Finding]:
    """Whether torch computes with as many threads as there are cores.

    Args:
        threads: torch's.
        cores: that this process may use.
        environment: variables.
    """
    asked = environment.get("OMP_NUM_THREADS")
    if threads > cores:
        text = f"torch computes with {threads} threads on {cores} usable core(s), which is much slower than {cores}"
        return [problem("threads", f"{text}: export OMP_NUM_THREADS={cores}")]
    if threads < cores:
        why = f"OMP_NUM_THREADS={asked}" if asked else "torch's own setting"
        return [note("threads", f"{threads} of {cores} cores are used, because of {why}")]
    return [fine("threads", f"{threads}, as many as there are usable cores")]


def check_load(load: float | None, cores: int, threads: int) -> list[Finding]:
    """Whether other programs leave the cores free.

    Args:
        load: programs that wanted to compute in the last minute, None where the system does not tell.
        cores: that this process may use.
        threads: torch's.
    """
    if load is None or load < BUSY * cores:
        return []
    text = f"{load:.1f} programs wanted to compute on {cores} core{'s' * (cores > 1)} in the last minute (load average)"
    text += ": training takes longer than announced until they are done"
    if threads > 1:
        text += (
            f", and {slow_threads(threads)}: until then write {ONE_THREAD} before a command that trains, and go on "
            f"with a run that has begun by {ONE_THREAD} procrustean resume RUN"
        )
    return [note("load", text)]


def check_memory(free: int | None) -> list[Finding]:
    """`free` is in bytes, None where the system does not tell."""
    if free is None:
        return []
    if free < LITTLE_MEMORY:
        return [problem("memory", f"{free / GIB:.1f} GiB are free; images are kept in memory while training")]
    return [fine("memory", f"{free / GIB:.1f} GiB free")]


def check_disk(folder: Path) -> list[Finding]:
    """Room and permission for runs in a folder."""
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        return [problem("disk", f"{folder} cannot be written to, and runs are kept there; go to another folder")]
    if free < LITTLE_DISK:
        return [problem("disk", f"{free / GIB:.1f} GiB are free in {folder}; runs with checkpoints need more")]
    return [fine("disk", f"{free / GIB:.0f} GiB free in {folder}")]


def check_data(places: list[Path]) -> list[Finding]:
    """The folders in which data sets are looked for."""
    there, held, found = [], set[str](), list[Finding]()
    for place in places:
        try:
            if place.is_dir():
                held.update(path.name for path in place.iterdir() if not path.name.startswith("."))
                there.append(place)
        except OSError as error:
            text = f"{place} cannot be looked at ({error.strerror}), and data sets are looked for there"
            found.append(
                problem("data", f"{text}: change that, or set the variable PROCRUSTEAN_DATA to another folder")
            )
    if found:
        return found
    if not there:
        shown = ", ".join(map(str, places))
        return [note("data", f"none of {shown} exists yet; CIFAR is downloaded there when it is first used")]
    text = f"{', '.join(map(str, there))}: {', '.join(sorted(held)[:6]) or 'empty'}{' ...' * (len(held) > 6)}"
    return [fine("data", text)]

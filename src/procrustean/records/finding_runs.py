"""Where runs are: what a path that is given for runs stands for, and what to say where there is none."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from procrustean.base.console import command_text
from procrustean.base.errors import RunError
from procrustean.base.json_files import parse_json
from procrustean.methods.table import METHODS

CONFIG_FILE, RESULT_FILE = "config.json", "result.json"
#: What results are called: in the folder of a run, and where copies are kept of them, after the run (`RunSpec.slug`).
NAMED_AS_RESULT = re.compile(r"result|.+-seed\d+-[0-9a-f]{12}(-\d+)?")
#: What `train --folds`, `--method auto` and `tune` keep beside their runs.
FOLDS, COMPARISON, STUDY = "folds.json", "auto.json", "tuning.json"
#: Folders beside these: the run on all images, also within the folder of a run that was measured on images set aside;
#: short trainings of methods that were left behind; the runs by which options are chosen; the ways to train that were
#: tried before.
FINAL, SHORT, CANDIDATES, TRIALS = "all", "short", "candidates", "trials"
#: Which of them hold no results for tables: that on all images may have no test images, the others chose.
NOT_FOR_TABLES = {FOLDS: (FINAL, TRIALS), COMPARISON: (SHORT,), STUDY: (TRIALS,)}
DEPTH = 3  # how many folders deep runs are looked for: `tune` in a folder of runs keeps its own so deep


def runs_in(path: Path) -> list[Path]:
    """A run, by its folder or its result file, stands for itself; a folder for the runs and result files in it, damaged
    ones too.

    Those are looked for up to DEPTH folders deep, and those of one folder come in the order in which the library lists
    their methods: names of folders have none. A folder without any stands for itself.

    Raises:
        RunError: when there is nothing at the path.
    """
    if not os.path.exists(path):  # noqa: PTH110  that of pathlib raises where names are too long
        raise no_run_at(path)
    if path.is_file() or is_run(path):
        return [path]
    by_folder: dict[Path, list[Path]] = {}  # whose runs need not lie side by side: a folder may stand between them
    for run in _runs_below(path, DEPTH):
        by_folder.setdefault(run.parent, []).append(run)
    return [run for runs in by_folder.values() for run in sorted(runs, key=_place_of_method)] or [path]


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, finished or not."""
    # A run that was copied for its record alone has a result and nothing else.
    return any((folder / name).exists() for name in (CONFIG_FILE, RESULT_FILE))


def may_be_result(path: Path) -> bool:
    """Whether a JSON file holds the result of a run, or may have held one: damaged ones are to be named, not missed."""
    content = _content(path)
    fields = set(content) if isinstance(content, dict) else set()
    if content is None or fields >= {"format", "label", "config", "selections"}:
        return True
    # A study may keep a record of another kind by the name of the run that it is about.
    of_a_study = "config" in fields and not {"label", "selections"} & fields
    return NAMED_AS_RESULT.fullmatch(path.stem) is not None and not of_a_study


def _content(path: Path) -> Any:
    """What a JSON file holds; None where that cannot be read."""
    try:
        return parse_json(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def resume_command(run: Path, source: str | os.PathLike[str] | None = None) -> str:
    """The command that goes on with a run; files of the user's own code have to be named again.

    Args:
        run: run directory.
        source: where its images have moved, if they have.
    """
    from procrustean.base.own_code import file_code

    settings = _settings_in(run / CONFIG_FILE)
    words: list[str | os.PathLike[str]] = [run]
    for name in ("method", "net"):
        if (own := file_code(str(settings.get(name, "")))) is not None:
            words += [f"--{name}", own.path]
    return command_text("resume", *words, *(() if source is None else ("--source", source)))


def _place_of_method(run: Path) -> tuple[int, bool]:
    """Where a run stands by its method: as in the library's table, with DRW after without; those of the user's last."""
    kept = [run] if run.is_file() else [run / CONFIG_FILE, run / RESULT_FILE]
    settings = next(filter(None, map(_settings_in, kept)), {})
    names, method = list(METHODS), settings.get("method")
    return names.index(method) if method in names else len(names), bool(settings.get("drw"))


def _settings_in(file: Path) -> dict[str, Any]:
    """The settings that a file of a run holds; none where they cannot be read."""
    record = _content(file)
    settings = record.get("config") if isinstance(record, dict) else None
    return settings if isinstance(settings, dict) else {}


def no_run_at(path: Path, what: str = "run") -> RunError:
    """The error for a path that holds no run.

    Args:
        path: what was given.
        what: what it could have been, in words.
    """
    if not os.path.lexists(path):
        return RunError(f"There is no {what} at {path}. Mend the path.")
    inside = _runs_below(path, depth=1) if path.is_dir() else []
    hint = f". Runs are in it: give one of them, for example {inside[0]}" if inside else ""
    return RunError(f"{path} is not a run directory: it has no {CONFIG_FILE}{hint}")


def _runs_below(folder: Path, depth: int) -> list[Path]:
    """The runs and result files of a folder, and of those in it that are no runs."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise RunError(f"{folder} cannot be searched for runs: {error.strerror or error}.") from error
    found = []
    passed_over = [name for record, names in NOT_FOR_TABLES.items() if (folder / record).is_file() for name in names]
    for entry in entries:
        if entry.name in passed_over:
            continue
        if entry.is_dir():
            found += [entry] if is_run(entry) else _runs_below(entry, depth - 1) if depth > 1 else []
        elif entry.suffix == ".json" and may_be_result(entry):
            found.append(entry)
    return found

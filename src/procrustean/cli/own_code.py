"""Files of the user's own code: imported where the command line names them, and told apart by what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from procrustean.base.code_files import file_code, named_code, use_file
from procrustean.base.console import notify
from procrustean.records.finding_runs import method_of, runs_in
from procrustean.records.run_spec import RunSpec


def allow(files: Iterable[str], names: Iterable[str | None] = (), arguments: Sequence[str] = ()) -> None:
    """Name the files of --allow-code, and those of methods and networks that were typed, not read from a file."""
    typed = {word.removeprefix("--method=").removeprefix("--net=") for word in arguments}
    for name in (*files, *(name for name in names if name in typed)):
        use_file(str(name))


def refuse_unnamed(configs: Iterable[RunSpec]) -> None:
    """ConfigError for code that a file of settings names and the command line does not; nothing is imported."""
    for config in configs:
        for kind, name in config.code.items():
            named_code(name, "method" if kind == "method" else "network", option="--allow-code")


def say_changed(folder: Path, methods: Iterable[str]) -> None:
    """Name the files that have changed since runs in a folder were begun: those are other methods, and do not go on.

    Args:
        folder: where the runs are kept.
        methods: full names, with the hash of the code.
    """
    wanted = [own for method in dict.fromkeys(methods) if (own := file_code(method)) is not None]
    if not wanted or not folder.is_dir():
        return
    found = [own for run in runs_in(folder) if (own := file_code(method_of(run))) is not None]
    for own in wanted:
        earlier = [o for o in found if (o.path, o.function) == (own.path, own.function) and o.sha256 != own.sha256]
        if earlier:
            number = "1 run" if len(earlier) == 1 else f"{len(earlier)} runs"
            notify(
                f"{own.path} has changed since {number} of {own.function} in {folder} began; as it is now it is "
                "another method, and its runs begin anew beside them"
            )

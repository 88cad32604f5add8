"""Code in files is imported where the command line names the file; that a file of settings names it is not enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from procrustean.base.code_files import named_code, use_file
from procrustean.records.run_spec import RunSpec


def allow(files: Iterable[str], names: Iterable[str | None] = (), arguments: Sequence[str] = ()) -> None:
    """Name the files of --allow-code, and those of methods and networks that were typed, not read from a file."""
    typed = {word.removeprefix("--method=").removeprefix("--net=") for word in arguments}
    for name in (*files, *(name for name in names if name in typed)):
        use_file(str(name))


def refuse_unnamed(configs: Iterable[RunSpec]) -> None:
    """ConfigError for code that a file of settings names and the command line does not; nothing is imported."""
    for name in dict.fromkeys(name for config in configs for name in config.own_code):
        named_code(name, option="--allow-code")

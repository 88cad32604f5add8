"""Code in files is imported where the command line names the file; that a file of settings names it is not enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from procrustean.base.code_files import file_method, named_code, use_file


def allow(files: Iterable[str], method: str = "", arguments: Sequence[str] = ()) -> None:
    """Name the files of --allow-code, and that of a method if it was typed and not read from a file of settings."""
    typed = method in arguments or f"--method={method}" in arguments
    for name in (*files, *[method] * typed):
        use_file(name)


def refuse_unnamed(methods: Iterable[str]) -> None:
    """ConfigError for code that a file of settings names and the command line does not; nothing is imported."""
    for method in dict.fromkeys(methods):
        if file_method(method) is not None:
            named_code(method, option="--allow-code")

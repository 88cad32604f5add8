"""Errors that arise in methods of the user's own, each told in one line with its place in the file."""

from __future__ import annotations

import traceback
from pathlib import Path

from procrustean.base.code_files import Code, named_files
from procrustean.base.errors import ProcrusteanError


def error_in(code: Code, error: BaseException) -> str:
    """An error with the line of the file that led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(code.path)]
    return _told(error, f", line {lines[-1]}" if lines else "")


def failure_text(error: BaseException) -> str:
    """Why one of many runs failed: those of the library's errors say it, others are named and placed.

    >>> failure_text(ProcrusteanError("no such method")), failure_text(ZeroDivisionError("division by zero"))
    ('no such method', 'ZeroDivisionError: division by zero')
    """
    if isinstance(error, ProcrusteanError):
        return str(error)
    files = named_files()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) in files]
    return _told(error, f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else "")


def _told(error: BaseException, place: str) -> str:
    said = " ".join(str(error).split())  # those of torch have several lines
    return f"{type(error).__name__}{place}" + (f": {said}" if said else "")

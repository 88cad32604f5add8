"""JSON files kept beside runs and models, read back with one kind of error for all that can be wrong with them."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from procrustean.base.errors import RunError

#: Of all these files. Some were written without a number before there was a second format.
FORMAT = 1


def is_whole(value: object) -> bool:
    """Whether a value that was read is a whole number; what is true or false is none, though Python counts with it."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether a value that was read is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def parse_json(text: str | bytes) -> Any:
    """What a text of JSON holds. A whole number beyond all floats is infinite, as one with a point is to Python."""
    return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> float:
    return int(digits) if len(digits) <= sys.float_info.max_10_exp else float(digits)


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """The mapping in a JSON file; one of a later format is refused.

    Args:
        path: the file.
        remedy: what to do where it is damaged, for the message.
    """
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunError(f"cannot read {path} ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged ({error}); {remedy}") from error
    if not isinstance(content, dict):
        raise RunError(f"{path} is damaged (it holds {type(content).__name__}, no mapping); {remedy}")
    if content.get("format", FORMAT) != FORMAT:
        raise RunError(
            f"{path} has format {content['format']!r:.20}; this version of procrustean reads format {FORMAT}. "
            "Use the version that wrote it, or a newer one"
        )
    return content

"""How messages name code of a user's, with the file that it is written in, and what it has returned."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path


def code_name(part: object) -> str:
    """What a message calls a function, or an object by its class; a lambda could not be found by its name alone.

    >>> code_name(partial(code_name))
    'code_name (code_names.py, line 10)'
    """
    while isinstance(part, partial):
        part = part.func
    code = getattr(part, "__code__", None)
    if code is not None:
        name = str(getattr(part, "__name__", "function"))
        return f"{name} ({Path(code.co_filename).name}, line {code.co_firstlineno})"
    kind = part if isinstance(part, type) else type(part)
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return f"{kind.__name__} ({Path(file).name})" if file else kind.__name__


def returned_text(value: object) -> str:
    """What was returned where a tensor of floating-point numbers was to be.

    >>> returned_text(None)
    'NoneType'
    """
    shape, kind = getattr(value, "shape", None), str(getattr(value, "dtype", ""))
    if shape is None:
        return type(value).__name__
    return f"the shape {tuple(shape)}" + (f" of {kind}" if "float" not in kind else "")

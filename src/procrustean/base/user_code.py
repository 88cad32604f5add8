"""Imports files of the user's own, and tells errors and objects of such code in a line, with their place in the file.

Whoever imports has the name of the file from the user, never from a record (`procrustean.base.code_files`).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import inspect
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from procrustean.base.code_files import SHOWN, Code, FileCode, Kind, named_code, named_files
from procrustean.base.errors import ConfigError, ProcrusteanError, did_you_mean

_loaded: dict[str, types.ModuleType] = {}  # by the hash of the code
_beside: dict[str, tuple[Path, str]] = {}  # modules beside such files: their place, and whose code imported them


def object_in_file(name: str, kind: Kind = "method") -> tuple[FileCode, Code, Any]:
    """What FILE.py:NAME stands for, with its code; the user must have named the file in this process."""
    own, code = named_code(name, kind)
    module = imported(code, own.path)
    if not hasattr(module, own.function):
        public = [n for n, value in vars(module).items() if _is_defined_in(module, n, value)]
        hint = did_you_mean(own.function, public) if public else "It defines no functions or classes."
        raise ConfigError(f"{own.path} has no {own.function!r}. {hint}")
    return own, code, getattr(module, own.function)


def _is_defined_in(module: types.ModuleType, name: str, value: Any) -> bool:
    callable_here = inspect.isfunction(value) or inspect.isclass(value)
    return callable_here and value.__module__ == module.__name__ and not name.startswith("_")


class _Text(importlib.abc.InspectLoader):
    """Imports the very text that was hashed: the file may have changed since."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._code.text)

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self._code.text, str(self._code.path))


def imported(code: Code, given: str) -> types.ModuleType:
    """The module of a file, once per process, with the modules beside it that it imports.

    Args:
        code: its text.
        given: what the user calls it, for messages.
    """
    if code.sha256 in _loaded:
        return _loaded[code.sha256]
    for helper, place in code.beside.items():
        _make_way(helper, place, code, given)
    name = f"procrustean_own_{code.sha256[:SHOWN]}"
    spec = importlib.util.spec_from_loader(name, _Text(code), origin=str(code.path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(code.path)
    sys.modules[name] = module  # dataclasses, pickle and torch.compile look it up there
    try:
        with _importable_beside(code):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the file does
        del sys.modules[name]
        raise ConfigError(f"{given} cannot be imported: {error_in(code, error)}") from error
    _loaded[code.sha256] = module
    return module


@contextmanager
def _importable_beside(code: Code) -> Iterator[None]:
    """Modules beside the file can be imported by their names while it is."""
    folder, writes_none = str(code.path.parent), sys.dont_write_bytecode
    sys.path.insert(0, folder)
    # Bytecode is told apart by seconds: of a module that is edited twice in one, the older could be taken.
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(folder)
        sys.dont_write_bytecode = writes_none


def _make_way(name: str, place: Path, code: Code, given: str) -> None:
    """Forget the module of this name that another file, or an older text, has imported from beside it."""
    known = sys.modules.get(name)
    if known is not None and name not in _beside:
        at = Path(getattr(known, "__file__", None) or "")
        folders = [Path(folder).resolve() for folder in getattr(known, "__path__", ())]  # of a package
        if place not in (at.resolve(), *folders):
            raise ConfigError(
                f"{given} cannot be imported: {place} has the name of a module that is imported already from "
                f"{at if at.name else 'Python itself'}; rename it"
            )
    elif _beside.get(name, (place, code.sha256)) != (place, code.sha256):
        for loaded in [n for n in sys.modules if n == name or n.startswith(f"{name}.")]:
            del sys.modules[loaded]
    _beside[name] = place, code.sha256


def error_in(code: Code, error: BaseException) -> str:
    """An error with the line of the file that led to it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(code.path)]
    return _told(error, f", line {lines[-1]}" if lines else "")


def failure_text(error: BaseException) -> str:
    """Why one of many runs failed: the message of the library's errors; others with their name and place.

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


def code_name(part: object) -> str:
    """What a message calls a function, or an object by its class, with the file that it is written in."""
    while isinstance(part, partial):
        part = part.func
    code = getattr(part, "__code__", None)
    if code is not None:  # a lambda could not be found by its name alone
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

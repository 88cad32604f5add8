"""Imports files of the user's own. Whoever calls it has the file from the user, never from a record."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from procrustean.base.code_files import SHOWN, Code
from procrustean.base.errors import ConfigError
from procrustean.base.errors_in_user_code import error_in

_beside: dict[str, tuple[Path, str]] = {}  # modules beside such files: their place, and whose code imported them


class _Text(importlib.abc.InspectLoader):
    """Imports the very text that was hashed: the file may have changed since."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._code.text)

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self._code.text, str(self._code.path))


def imported(code: Code, given: str) -> types.ModuleType:
    """The module of a file that the user has named, with the modules beside it that it imports.

    Args:
        code: its text.
        given: what the user calls it, for messages.
    """
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

"""Methods from files of the user's: imports the file and checks that what it names builds a method."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ConfigError, ProcrusteanError, did_you_mean
from ..objectives import Objective
from ..own_methods.errors import error_in
from ..own_methods.files import SHOWN, Code, FileMethod, named_code
from ..types import Problem
from .base import Method, Stage

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

_loaded: dict[str, types.ModuleType] = {}  # by the hash of the code
_beside: dict[str, tuple[Path, str]] = {}  # modules beside such files: their place, and whose code imported them


def factory_in_file(name: str) -> Callable[..., Method]:
    """The function that builds a method of a file; refuses files that the user has not named in this process."""
    own, code = named_code(name)
    if code.sha256 not in _loaded:
        _loaded[code.sha256] = _imported(code, own.path)
    module = _loaded[code.sha256]
    made = getattr(module, own.function, None)
    if not inspect.isfunction(made):
        functions = [n for n, value in vars(module).items() if _is_public(n, value, module)]
        what = (
            f"{own.path} has no {own.function!r}" if made is None else f"{own.function!r} of {own.path} is no function"
        )
        raise ConfigError(f"{what}. {did_you_mean(own.function, functions) if functions else 'It has no functions.'}")
    _check_signature(made, own)
    return made


def build_from_file(name: str, problem: Problem, options: Mapping[str, Any]) -> object:
    """What the function returns; an error of its own is told with its line."""
    own, code = named_code(name)
    build = factory_in_file(name)
    try:
        return build(problem, **options)
    except ProcrusteanError:
        raise
    except (Exception, SystemExit) as error:  # whatever the function does
        raise ConfigError(f"{own.plain} builds no method: {error_in(code, error)}") from error


def _is_public(name: str, value: object, module: types.ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")


class _Text(importlib.abc.InspectLoader):
    """Imports the very text that was hashed: the file may have changed since."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._code.text)

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self._code.text, str(self._code.path))


def _imported(code: Code, given: str) -> types.ModuleType:
    for helper, place in code.beside.items():
        _make_way(helper, place, code, given)
    name = f"procrustean_method_{code.sha256[:SHOWN]}"
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


def _check_signature(made: Callable[..., Any], own: FileMethod) -> None:
    """Refuse a function whose options the command line could not be made from."""
    arguments = list(inspect.signature(made).parameters.values())
    wanted = f"write def {own.function}(problem: Problem, *, option: float = 0.1) -> Method"
    if not arguments or arguments[0].name != "problem" or arguments[0].kind not in _POSITIONAL:
        raise ConfigError(f"{own.plain} builds no method: its first argument has to be problem; {wanted}")
    try:
        hints = typing.get_type_hints(made)
    except Exception as error:  # names that are imported for type checkers alone, and anything else in a hint
        raise ConfigError(f"{own.plain}: a type hint means nothing here ({error}); import what it names") from error
    for option in arguments[1:]:
        where = f"{own.plain}: the argument {option.name!r}"
        if option.kind is not option.KEYWORD_ONLY:
            raise ConfigError(f"{where} is not keyword-only, so it is no option; {wanted}")
        if option.default is option.empty:
            raise ConfigError(f"{where} has no default; options need one: {wanted}")
        if not _is_option_type(hints.get(option.name)):
            raise ConfigError(
                f"{where} has no type that an option can have; accepted: int, float, bool, str, Literal[...], "
                f"and unions of these with None; {wanted}"
            )


def _is_option_type(hint: Any) -> bool:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return all(map(_is_option_type, typing.get_args(hint)))
    return typing.get_origin(hint) is typing.Literal or hint in (int, float, bool, str, type(None))


def check_parts(made: Method, name: str) -> None:
    """ConfigError for a method whose parts are not what they have to be, which training would stumble over later.

    Args:
        made: what the function of a file has returned.
        name: of the method in messages.
    """
    stages: object = made.stages
    if not isinstance(stages, tuple | list) or not stages or not all(isinstance(stage, Stage) for stage in stages):
        raise ConfigError(
            f"{name}: stages of type {type(stages).__name__} received that are no Stages; give a tuple of them, in "
            "which a single one has a comma behind it: stages=(Stage(objective),)"
        )
    for stage in made.stages:
        if not isinstance(stage.objective, Objective):
            raise ConfigError(
                f"{name}: a Stage of {type(stage.objective).__name__} received; give it an objective, for a loss "
                "Stage(Classify(loss=...)), from procrustean.objectives"
            )
    if not isinstance(made.label, str) or not made.label:
        raise ConfigError(f"{name}: label = {made.label!r} received; give the name that it has in tables")

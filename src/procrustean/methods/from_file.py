"""Methods from files of the user's: checks that what a file names builds a method."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from procrustean.balance.types import Problem
from procrustean.base.code_files import FileMethod, named_code
from procrustean.base.errors import ConfigError, ProcrusteanError, did_you_mean
from procrustean.base.errors_in_user_code import error_in
from procrustean.base.import_file import imported
from procrustean.methods.base import Method

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

_loaded: dict[str, types.ModuleType] = {}  # by the hash of the code


def factory_in_file(name: str) -> Callable[..., Method]:
    """The function that builds a method of a file; refuses files that the user has not named in this process."""
    own, code = named_code(name)
    if code.sha256 not in _loaded:
        _loaded[code.sha256] = imported(code, own.path)
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

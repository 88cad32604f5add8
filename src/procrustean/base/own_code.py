"""Code in files of the user's: methods and networks named FILE.py:NAME, their hash, consent, import and errors.

Settings and records write FILE.py:NAME@SHA256, so that a reader knows which code is meant, wherever the file is. A
file is imported only if the user has named it in this process (`use_file`), never because a record names it: somebody
else's run folder can name any file.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.abc
import importlib.util
import os
import re
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from procrustean.base.errors import ConfigError, ProcrusteanError, did_you_mean
from procrustean.base.files import expanded

#: Digits of a hash that are shown; all of them are compared.
SHOWN = 12

#: What the code is for, in messages.
Kind = Literal["method", "network"]
OPTION: dict[Kind, str] = {"method": "--method", "network": "--net"}

_PINNED = re.compile(r"(?P<plain>.*)@(?P<sha256>[0-9a-f]{64})", re.DOTALL)


@dataclass(frozen=True)
class FileCode:
    """The parts of FILE.py:NAME@SHA256. Users leave out the hash, and sometimes the name."""

    path: str
    function: str
    sha256: str = ""

    @property
    def plain(self) -> str:
        """As a user writes it."""
        return f"{self.path}:{self.function}" if self.function else self.path

    @property
    def identity(self) -> str:
        """What it computes, wherever the file is and whatever it is called."""
        return f"{self.function}@{self.sha256}"


@dataclass(frozen=True)
class Code:
    """The text of a file, and the modules in its folder that it imports, as they were when they were read."""

    path: Path
    text: bytes
    beside: dict[str, Path]  # top-level modules by name
    sha256: str


_named: dict[str, Code] = {}  # by hash: what the user has named in this process


def file_code(name: str) -> FileCode | None:
    """The parts of a name of code in a file; None for names of the library's own.

    >>> file_code("lab/my_methods.py:label_smoothing")
    FileCode(path='lab/my_methods.py', function='label_smoothing', sha256='')
    >>> file_code("mfw") is None, file_code("timm:resnet18") is None
    (True, True)
    """
    pinned = _PINNED.fullmatch(name)
    plain, sha256 = (pinned["plain"], pinned["sha256"]) if pinned else (name, "")
    if plain.endswith(".py"):
        return FileCode(plain, "", sha256)
    path, _, function = plain.rpartition(":")
    return FileCode(path, function, sha256) if path.endswith(".py") else None


def file_meant(name: str) -> str:
    """A question whether FILE.py:NAME was meant by a name that is written like one of a module; empty if not."""
    module, _, function = name.replace(":", ".").rpartition(".")
    path = f"{module.replace('.', '/')}.py"
    found = function.isidentifier() and os.path.isfile(path)  # noqa: PTH113  that of pathlib raises on long names
    return f"Did you mean {path}:{function}?" if found else ""


def plain_name(name: str) -> str:
    """A name as a user writes it, without a hash.

    >>> plain_name("my_methods.py:mine@" + 64 * "0"), plain_name("mfw")
    ('my_methods.py:mine', 'mfw')
    """
    pinned = _PINNED.fullmatch(name)
    return pinned["plain"] if pinned else name


def short_name(name: str) -> str:
    """The same with the beginning of the hash.

    >>> short_name("my_nets.py:mine@" + 64 * "0"), short_name("resnet32")
    ('my_nets.py:mine@000000000000', 'resnet32')
    """
    pinned = _PINNED.fullmatch(name)
    return f"{pinned['plain']}@{pinned['sha256'][:SHOWN]}" if pinned else name


def code_identity(name: str) -> str:
    """A name without the place of its file: the same text for the same code."""
    own = file_code(name)
    return name if own is None else own.identity


def short_identity(name: str) -> str:
    """The same with the beginning of the hash."""
    own = file_code(name)
    return name if own is None else own.identity[: len(own.function) + 1 + SHOWN]


def folder_name(name: str) -> str:
    """A method's name as part of the name of a run folder."""
    own = file_code(name)
    return name if own is None else own.function


def pinned_name(name: str, kind: Kind = "method") -> str:
    """The name with the hash of the code that the file holds now; other names, and names with a hash, as they are."""
    own = file_code(name)
    if own is None or own.sha256:
        return name
    code = read_code(own.path, kind)
    if not own.function:
        names = _public_names(code, classes=kind == "network")
        listed = f" It has: {', '.join(names)}." if names else ""
        raise ConfigError(
            f"{kind} {name!r} received, a file without the name of what to use in it; write "
            f"{own.path}:{names[0] if names else 'NAME'}.{listed}"
        )
    return f"{own.plain}@{code.sha256}"


def use_file(name: str, kind: Kind = "method") -> str:
    """Allow a file of methods or networks to be imported in this process; returns the full name.

    Runs remember the hash of their code. `resume`, `evaluate` and the like use a file only if it holds the same code,
    wherever it is now.

    Args:
        name: FILE.py or FILE.py:NAME; with a hash behind it, the file must have that hash. Other names are returned
            as they are.
        kind: what it is for, in messages.
    """
    own = file_code(name)
    if own is None or own.sha256 in _named:  # the text is kept, whatever becomes of the file during many runs
        return name
    code = read_code(own.path, kind)
    if own.sha256 not in ("", code.sha256):
        raise ConfigError(_changed(own, code))
    _named[code.sha256] = code
    return f"{own.plain}@{code.sha256}"


def named_code(name: str, kind: Kind = "method", *, option: str = "") -> tuple[FileCode, Code]:
    """The code behind a name, if the user has named its file in this process; ConfigError otherwise.

    Args:
        name: FILE.py:NAME, with a hash or without.
        kind: what it is for.
        option: flag that names files, where it is not --method or --net.
    """
    own = file_code(name)
    assert own is not None
    place = expanded(own.path).resolve()
    for code in reversed(_named.values()):
        if own.sha256 == code.sha256 or (not own.sha256 and place == code.path):
            return own, code
    if own.sha256 and (edited := _code_of_that_name(own)) is not None:
        raise ConfigError(_changed(own, edited))
    hash_text = f" (sha256 {own.sha256[:SHOWN]}...)" if own.sha256 else ""
    raise ConfigError(
        f"the {kind} {own.plain}{hash_text} is code in a file, and no file is imported that you have not named "
        f"yourself. Name it: {option or OPTION[kind]} {own.path}, wherever it is now; in Python "
        f"procrustean.use_file({own.path!r})"
    )


def is_usable(name: str) -> bool:
    """Whether code can be used: the library's own, or that of a file the user has named."""
    own = file_code(name)
    return own is None or own.sha256 in _named


def edited_file(own: FileCode) -> Path | None:
    """The file of that name that the user has named in this process, if its text is another."""
    code = _code_of_that_name(own)
    return None if code is None or code.sha256 == own.sha256 else code.path


def _code_of_that_name(own: FileCode) -> Code | None:
    name = expanded(own.path).resolve().name
    return next((code for code in reversed(_named.values()) if code.path.name == name), None)


def named_files() -> set[Path]:
    """The files that the user has named in this process, and the modules beside them that they import."""
    files = set()
    for code in _named.values():
        files.add(code.path)
        for module in code.beside.values():
            files.update(module.rglob("*.py") if module.is_dir() else [module])
    return files


def read_code(path: str, kind: Kind = "method") -> Code:
    """The file and the modules beside it that it imports, with the hash over all of them. Nothing is executed.

    The hash of a file that imports nothing from its folder is that of its bytes, as `sha256sum` prints it.
    """
    place = expanded(path).resolve()
    text = _read(place, path, kind)
    beside = dict(_modules_beside(place, text, path))
    own = hashlib.sha256(text).hexdigest()
    if not beside:
        return Code(place, text, {}, own)
    files = [file for module in beside.values() for file in _files_of(module)]
    texts = sorted((file.relative_to(place.parent).as_posix(), _read(file, str(file), kind)) for file in files)
    lines = [own, *(f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in texts)]
    return Code(place, text, beside, hashlib.sha256("\n".join(lines).encode()).hexdigest())


def _changed(own: FileCode, code: Code) -> str:
    modules = " or a module beside it that it imports" * bool(code.beside)
    return (
        f"{code.path}{modules} has changed since the run or its settings were made (sha256 {own.sha256[:SHOWN]}... "
        f"then, {code.sha256[:SHOWN]}... now). Put back the text that it had, or train a new run in another folder "
        "(--output)"
    )


def _read(place: Path, given: str, kind: Kind) -> bytes:
    if not place.is_file():
        relative = " Relative paths start at the working directory." * (not expanded(given).is_absolute())
        raise ConfigError(f"{kind} {given!r}: there is no file {place}.{relative}")
    try:
        return place.read_bytes()
    except OSError as error:
        raise ConfigError(f"{given} cannot be read ({error.strerror})") from error


def _modules_beside(place: Path, text: bytes, given: str) -> Iterator[tuple[str, Path]]:
    """All modules in the folder of a file that it imports, or that those import in turn."""
    waiting, known = [(text, given)], set[str]()
    while waiting:
        for module in _imported_names(*waiting.pop()):
            if module in known or (at := _module_in(place.parent, module)) in (None, place):
                continue
            known.add(module)
            yield module, at
            waiting += [(_read(file, str(file), "method"), str(file)) for file in _files_of(at)]


def _files_of(module: Path) -> list[Path]:
    return sorted(module.rglob("*.py")) if module.is_dir() else [module]


def _module_in(folder: Path, name: str) -> Path | None:
    """The module or package that Python would import from a folder by this name."""
    package, module = folder / name, folder / f"{name}.py"
    if (package / "__init__.py").is_file():
        return package
    if module.is_file():
        return module
    # A folder without __init__.py is a package too, unless there is a module of this name anywhere else.
    return package if any(package.rglob("*.py")) and not _is_elsewhere(name) else None


def _is_elsewhere(name: str) -> bool:
    """Whether there is a module of this name that is more than a folder; nothing is imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # of a module that was made by hand
        return True
    return spec is not None and spec.origin is not None


def _imported_names(text: bytes, given: str) -> list[str]:
    """Names of the top-level modules that a text imports."""
    names = []
    for node in ast.walk(_parsed(text, given)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _public_names(code: Code, *, classes: bool) -> list[str]:
    wanted = (ast.FunctionDef, ast.ClassDef) if classes else ast.FunctionDef
    tree = _parsed(code.text, str(code.path))
    return [node.name for node in tree.body if isinstance(node, wanted) and not node.name.startswith("_")]


def _parsed(text: bytes, given: str) -> ast.Module:
    try:
        return ast.parse(text, given)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConfigError(f"{given} cannot be imported: {type(error).__name__}{line}: {said}") from error


_loaded: dict[str, types.ModuleType] = {}  # by the hash of the code
_beside: dict[str, tuple[Path, str]] = {}  # modules beside such files: their place, and whose code imported them


def object_in_file(name: str, kind: Kind = "method") -> tuple[FileCode, Code, Any]:
    """What FILE.py:NAME stands for, with its code; the user must have named the file in this process."""
    own, code = named_code(name, kind)
    module = imported(code, own.path)
    if not hasattr(module, own.function):
        public = _public_names(code, classes=True)
        hint = did_you_mean(own.function, public) if public else "It defines no functions or classes."
        raise ConfigError(f"{own.path} has no {own.function!r}. {hint}")
    return own, code, getattr(module, own.function)


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

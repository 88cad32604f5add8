"""Methods in files of the user's: how they are named, what tells their code apart, and which may be imported.

A method of one's own is named FILE.py:NAME. Settings and records name it FILE.py:NAME@SHA256, so that whoever reads
them knows the code that is meant, wherever the file is. Code is imported only from files that the user has named in
this process (`use_file`), never because a record names it: a run directory of somebody else's can name any file.

Nothing here imports torch, or the file itself: settings are made of names. `procrustean.base.import_file` imports.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from procrustean.base.errors import ConfigError
from procrustean.base.paths import expanded

if TYPE_CHECKING:
    import ast

#: Bytes of a file beyond which it is no method.
LARGEST = 10_000_000
#: Digits of a hash that are shown; all of them are compared.
SHOWN = 12

_SEE_ALSO = {"method": "procrustean methods", "model": "procrustean layers --help"}
_PINNED = re.compile(r"(?P<plain>.*)@(?P<sha256>[0-9a-f]{64})", re.DOTALL)


@dataclass(frozen=True)
class FileMethod:
    """The parts of FILE.py:NAME@SHA256; users write it without the hash, and may leave the name to be asked for."""

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
    """The text of a file with that of the modules beside it that it imports, as they were when they were read."""

    path: Path
    text: bytes
    beside: dict[str, Path]  # top-level modules by name
    sha256: str


_named: dict[str, Code] = {}  # by hash: what the user has named in this process


def file_method(name: str) -> FileMethod | None:
    """The parts of a name, if it is that of a method in a file; None for names of the library's own methods.

    >>> file_method("lab/my_methods.py:label_smoothing")
    FileMethod(path='lab/my_methods.py', function='label_smoothing', sha256='')
    >>> file_method("label_smoothing") is None
    True
    """
    pinned = _PINNED.fullmatch(name)
    plain, sha256 = (pinned["plain"], pinned["sha256"]) if pinned else (name, "")
    if ":" not in plain and not plain.endswith(".py") and not {"/", "\\"} & set(plain):
        return None
    path, colon, function = plain.rpartition(":")
    return FileMethod(path, function, sha256) if colon else FileMethod(plain, "", sha256)


def plain_name(name: str) -> str:
    """A method's name as a user writes it.

    >>> plain_name("my_methods.py:mine@" + 64 * "0"), plain_name("mfw")
    ('my_methods.py:mine', 'mfw')
    """
    own = file_method(name)
    return name if own is None else own.plain


def method_identity(name: str) -> str:
    """A method's name without the place of its file: the same text for the same code."""
    own = file_method(name)
    return name if own is None else own.identity


def short_identity(name: str) -> str:
    """The same with the beginning of the hash, for readers."""
    own = file_method(name)
    return name if own is None else own.identity[: len(own.function) + 1 + SHOWN]


def folder_name(name: str) -> str:
    """A method's name in that of a run's folder."""
    own = file_method(name)
    return name if own is None else own.function


def pinned_name(name: str) -> str:
    """The name with the hash of the code it stands for now; names that have one, and the library's own, as they are."""
    own = file_method(name)
    if own is None or own.sha256:
        return name
    code = read_code(own.path)
    if not own.function:
        functions = _functions(code)
        example = functions[0] if functions else "NAME"
        listed = f" It has: {', '.join(functions)}." if functions else ""
        raise ConfigError(
            f"method {name!r} received, which is a file without the name of a function in it; write "
            f"{own.path}:{example}.{listed}"
        )
    return f"{own.plain}@{code.sha256}"


def use_file(name: str) -> str:
    """Allow a file to be imported in this process, for methods that settings or records name; returns the full name.

    Runs remember the hash of their method's code. `resume`, `evaluate` and the like use a file only if it is the same
    code, wherever it is now.

    Args:
        name: FILE.py or FILE.py:NAME; with a hash behind it, the file has to have that hash. Names of the library's own
            methods are left as they are.
    """
    own = file_method(name)
    if own is None:
        return name
    if own.sha256 in _named:
        return name  # its text is kept, whatever becomes of the file before the last of many runs begins
    code = read_code(own.path)
    if own.sha256 not in ("", code.sha256):
        raise ConfigError(_changed(own, code))
    _named[code.sha256] = code
    return f"{own.plain}@{code.sha256}"


def named_code(name: str, *, option: str = "--method") -> tuple[FileMethod, Code]:
    """The code of a method, if the user has named its file in this process; ConfigError otherwise.

    Args:
        name: of the method.
        option: of the command line that names files, for the message.
    """
    own = file_method(name)
    assert own is not None
    place = expanded(own.path).resolve()
    for code in reversed(_named.values()):
        if own.sha256 == code.sha256 or (not own.sha256 and place == code.path):
            return own, code
    if own.sha256 and (edited := _code_of_that_name(own)) is not None:
        raise ConfigError(_changed(own, edited))
    hash_text = f" (sha256 {own.sha256[:SHOWN]}...)" if own.sha256 else ""
    raise ConfigError(
        f"the method {own.plain}{hash_text} is code in a file, and no file is imported that you have not named "
        f"yourself. Name it: {option} {own.path}, wherever it is now; in Python procrustean.use_file({own.path!r})"
    )


def is_usable(name: str) -> bool:
    """Whether a method is there to be built: one of the library's own, or of a file that the user has named."""
    own = file_method(name)
    return own is None or own.sha256 in _named


def edited_file(own: FileMethod) -> Path | None:
    """The file of that name that the user has named in this process, where it has another text than the method's."""
    code = _code_of_that_name(own)
    return None if code is None or code.sha256 == own.sha256 else code.path


def _code_of_that_name(own: FileMethod) -> Code | None:
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


def read_code(path: str, *, what: Literal["method", "model"] = "method") -> Code:
    """The file and the modules beside it that it imports, with the hash over all of them. Nothing is executed.

    The hash of a file that imports nothing from its folder is that of its bytes, as `sha256sum` prints it.

    Args:
        path: as the user has written it.
        what: what the file is to hold, for messages.
    """
    place = expanded(path).resolve()
    text = _read(place, path, what)
    beside: dict[str, Path] = {}
    parts = _texts_beside(place, text, path, beside)
    own = hashlib.sha256(text).hexdigest()
    if not parts:
        return Code(place, text, {}, own)
    lines = [own, *(f"{name} {hashlib.sha256(content).hexdigest()}" for name, content in sorted(parts.items()))]
    return Code(place, text, beside, hashlib.sha256("\n".join(lines).encode()).hexdigest())


def _changed(own: FileMethod, code: Code) -> str:
    modules = " or a module beside it that it imports" * bool(code.beside)
    return (
        f"{code.path}{modules} has changed since the run or its settings were made (sha256 {own.sha256[:SHOWN]}... "
        f"then, {code.sha256[:SHOWN]}... now), and the run would be of two methods. Put back the text that it had, or "
        "train a new run with the file as it is, in another folder (--output) or after deleting this one"
    )


def _read(place: Path, given: str, what: Literal["method", "model"] = "method") -> bytes:
    if not place.is_file():  # pipes and devices neither
        missing = f"There is no file {place.name} in {place.parent}."
        sentences = [f"{what} {given!r} received.", missing, _nearest(place)]
        if not expanded(given).is_absolute():
            sentences.append("Paths are taken from the working directory, also where a YAML file elsewhere names them.")
        raise ConfigError(" ".join([*filter(None, sentences), f"See also: {_SEE_ALSO[what]}"]))
    try:
        if place.stat().st_size > LARGEST:
            raise ConfigError(f"{given} has more than {LARGEST:,} bytes; a {what} is in a file of Python")
        return place.read_bytes()
    except OSError as error:
        raise ConfigError(f"{given} cannot be read ({error.strerror})") from error


def _nearest(place: Path) -> str:
    """The Python files of a folder that are called nearly so, if there are any."""
    # By what stands before .py: the ending alone would make all of them alike.
    there = {entry.stem.lower(): entry.name for entry in sorted(place.parent.glob("*.py"))}
    if not there:
        return "There is no Python file in it."
    near = get_close_matches(place.stem.lower(), there, n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(repr(there[stem]) for stem in near)}?" if near else ""


def _texts_beside(place: Path, text: bytes, given: str, beside: dict[str, Path]) -> dict[str, bytes]:
    """The texts of all modules beside a file that it imports, or that those import, by their path in the folder."""
    folder, found, waiting = place.parent, dict[str, bytes](), [(text, given)]
    while waiting:
        content, name = waiting.pop()
        for module in _imported(content, name):
            if module in beside or (at := _module_in(folder, module)) in (None, place):
                continue
            beside[module] = at
            for file in sorted(at.rglob("*.py")) if at.is_dir() else [at]:
                key = file.relative_to(folder).as_posix()
                found[key] = _read(file, str(file))
                waiting.append((found[key], str(file)))
    return found


def _module_in(folder: Path, name: str) -> Path | None:
    """The module or package that Python would import from a folder by this name, in the order in which it looks."""
    package, module = folder / name, folder / f"{name}.py"
    if (package / "__init__.py").is_file():
        return package
    if module.is_file():
        return module
    # A folder without __init__.py is a package too, unless one of this name is anywhere else.
    return package if any(package.rglob("*.py")) and not _is_elsewhere(name) else None


def _is_elsewhere(name: str) -> bool:
    """Whether there is a module of this name that is more than a folder; nothing is imported."""
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except (ImportError, ValueError):  # of a module that was made by hand
        return True
    return spec is not None and spec.origin is not None


def _imported(text: bytes, given: str) -> list[str]:
    """Names of the top-level modules that a text imports."""
    import ast

    names = []
    for node in ast.walk(_parsed(text, given)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _functions(code: Code) -> list[str]:
    import ast

    tree = _parsed(code.text, str(code.path))
    return [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]


def _parsed(text: bytes, given: str) -> ast.Module:
    import ast

    try:
        return ast.parse(text, given)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConfigError(f"{given} cannot be imported: {type(error).__name__}{line}: {said}") from error

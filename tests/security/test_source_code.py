"""Ways to run code from a file, or to write outside a folder, that the source must not contain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "procrustean"

#: Calls that are never allowed, by the full name of what is called.
FORBIDDEN = {
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "makes code from text",
    "__import__": "imports what a text names",
    "os.system": "runs a shell",
    "os.popen": "runs a shell",
    "subprocess.getoutput": "runs a shell",
    "subprocess.getstatusoutput": "runs a shell",
    "yaml.unsafe_load": "makes any object",
    "yaml.full_load": "makes objects",
    "yaml.load_all": "makes any object",
    "marshal.load": "makes code",
    "marshal.loads": "makes code",
    "shelve.open": "is a pickle",
    "joblib.load": "is a pickle",
    "dill.load": "is a pickle",
    "cloudpickle.load": "is a pickle",
    "torch.hub.load": "runs code from the network",
    "tempfile.mktemp": "names a file that somebody else may make first",
    "ssl._create_unverified_context": "does not check who answers",
    "urllib.request.urlretrieve": "neither checks nor limits what it fetches",
}
#: Modules whose import alone is forbidden outside the files named, each with the reason it is safe there.
GUARDED = {
    "pickle": {
        "data/restricted_pickle.py": "reads nothing but numbers and text",
        "data/workers.py": "between the program and its own processes, over a pipe that nobody else holds",
        "nets/pretrained.py": "the name of an error",
    },
    "urllib.request": {"data/download.py": "https alone, with a checksum and a limit"},
    "socket": {},
    "requests": {},
    "dill": {},
    "shelve": {},
    "marshal": {},
    "ctypes": {},
}


def names(tree: ast.Module) -> dict[str, str]:
    """What the imports of a file call things: local name -> full name."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def full_name(node: ast.expr, known: dict[str, str]) -> str:
    """The dotted name of what is called; of a method of something else, the part that can be told."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{full_name(node.value, known)}.{node.attr}"
    return "?"


def keyword(call: ast.Call, name: str) -> object:
    """The value of an argument given by name, where it is written out; None if it is not there."""
    for argument in call.keywords:
        if argument.arg == name:
            return argument.value.value if isinstance(argument.value, ast.Constant) else ast.unparse(argument.value)
    return None


def faults(source: str, file: str = "new.py") -> Iterator[str]:
    """What is wrong with a file, as `line: reason`."""
    tree = ast.parse(source)
    known = names(tree)
    for node in ast.walk(tree):
        for module in imported(node):
            if module in GUARDED and file not in GUARDED[module]:
                yield f"{node.lineno}: imports {module}"
        if not isinstance(node, ast.Call):
            continue
        name = full_name(node.func, known)
        if name in FORBIDDEN:
            yield f"{node.lineno}: {name} {FORBIDDEN[name]}"
        if name == "yaml.load" or (name == "yaml.compose" and keyword(node, "Loader") != "yaml.SafeLoader"):
            yield f"{node.lineno}: {name} makes any object; use yaml.safe_load"
        if name == "torch.load" and keyword(node, "weights_only") is not True:
            yield f"{node.lineno}: torch.load without weights_only=True runs code"
        if keyword(node, "allow_pickle") not in (None, False):
            yield f"{node.lineno}: allow_pickle=True runs code"
        if keyword(node, "shell") not in (None, False):
            yield f"{node.lineno}: shell=True lets a name be a command"
        if keyword(node, "trust_remote_code") not in (None, False):
            yield f"{node.lineno}: trust_remote_code runs code from the network"
        if name.endswith((".extractall", ".extract")) and keyword(node, "filter") != "data":
            yield f"{node.lineno}: {name} without filter='data' writes anywhere"
        if name.startswith("pickle.") and name.endswith(("load", "loads")) and file != "data/workers.py":
            yield f"{node.lineno}: {name} runs code"


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


FILES = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py"))


def test_the_source_holds_no_way_to_run_code_from_a_file() -> None:
    found = [f"{file}:{fault}" for file in FILES for fault in faults((SOURCE / file).read_text(), file)]
    assert not found, "\n".join(found)
    assert len(FILES) > 100


@pytest.mark.parametrize(
    "line",
    [
        "eval(text)",
        "exec(text)",
        "import pickle",
        "from pickle import loads",
        "import os; os.system(text)",
        "from os import system; system(text)",
        "import yaml; yaml.load(text)",
        "import yaml; yaml.load(text, Loader=yaml.Loader)",
        "import yaml; yaml.compose(text, Loader=yaml.Loader)",
        "from yaml import unsafe_load as read; read(text)",
        "import torch; torch.load(path)",
        "import torch; torch.load(path, weights_only=False)",
        "import torch; torch.load(path, weights_only=flag)",
        "from torch import load; load(path)",
        "import numpy as np; np.load(path, allow_pickle=True)",
        "import numpy as np; np.load(path, allow_pickle=flag)",
        "import subprocess; subprocess.run(text, shell=True)",
        "import subprocess; subprocess.run(text, shell=flag)",
        "archive.extractall(folder)",
        "archive.extract(member, folder)",
        "import urllib.request",
        "from urllib import request",
        "model(trust_remote_code=True)",
    ],
)
def test_each_of_them_would_be_found(line: str) -> None:
    assert list(faults(line))


@pytest.mark.parametrize(
    "line",
    [
        "import yaml; yaml.safe_load(text)",
        "import torch; torch.load(path, weights_only=True)",
        "import numpy as np; np.load(path); np.load(path, allow_pickle=False)",
        "import subprocess; subprocess.run([text])",
        "archive.extractall(folder, filter='data')",
        "model.eval()",
        "re.compile(text)",
        "import torch; torch.compile(net)",
    ],
)
def test_what_is_harmless_is_allowed(line: str) -> None:
    assert not list(faults(line))

"""Ways to run code from a file, or to write outside a folder, that the source must not contain."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "procrustean"

#: What must not be used, by its full name, whether it is called, passed on or given another name.
FORBIDDEN = {
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "makes code from text",
    "__import__": "imports what a text names",
    "__builtins__": "is all of these",
    "importlib.util.spec_from_file_location": "runs a file",
    "importlib.machinery.SourceFileLoader": "runs a file",
    "os.system": "runs a shell",
    "os.popen": "runs a shell",
    "subprocess.getoutput": "runs a shell",
    "subprocess.getstatusoutput": "runs a shell",
    "yaml.unsafe_load": "makes any object",
    "yaml.unsafe_load_all": "makes any object",
    "yaml.full_load": "makes objects",
    "yaml.full_load_all": "makes objects",
    "yaml.load": "makes any object; use yaml.safe_load",
    "yaml.load_all": "makes any object",
    "yaml.Loader": "makes any object",
    "yaml.UnsafeLoader": "makes any object",
    "yaml.FullLoader": "makes objects",
    "pandas.read_pickle": "is a pickle",
    "torch.hub.load": "runs code from the network",
    "torch.jit.load": "runs what a file holds",
    "torch.serialization.load": "hides torch.load",
    "torch.package.PackageImporter": "runs code from a file",
    "tempfile.mktemp": "names a file that somebody else may make first",
    "ssl._create_unverified_context": "does not check who answers",
    "urllib.request.urlretrieve": "neither checks nor limits what it fetches",
}
#: What may be used in the files named alone, each with the reason it is safe there.
RESTRICTED = {
    "torch.export.load": {
        "deploy/export_formats.py": "reads back what this process has just written, in a folder of its own"
    },
    "importlib.import_module": {
        "data/sets/data_set_table.py": "names of this package",
        "cli/doctor.py": "names of a list in the file",
        "deploy/export_formats.py": "names of a list in the file",
        "methods/make.py": "names of this package",
        "base/optional_libraries.py": "names that stand in the code of whoever asks",
        "nets/net_table.py": "names of this package",
        "nets/own_net.py": "what a user has typed as the place of his own code, never what a file names",
        "report/figures/draw.py": "names of this package",
        "runs/loggers.py": "one of the three tools that --log takes",
    },
}
#: Modules whose import alone is forbidden outside the files named, each with the reason it is safe there.
GUARDED = {
    "pickle": {
        "data/restricted_pickle.py": "reads nothing but numbers and text",
        "nets/pretrained.py": "the name of an error",
    },
    "urllib.request": {"data/download.py": "https alone, with a checksum and a limit"},
    **{name: {} for name in ("socket", "requests", "ctypes", "builtins", "runpy", "code", "marshal", "shelve")},
    **{name: {} for name in ("_pickle", "cPickle", "pickle5", "cloudpickle", "dill")},
    "joblib": dict.fromkeys(
        ("data/workers.py", "runs/worker.py"), "its processes, between which and the program nobody else can write"
    ),
}
#: Calls that are safe with certain arguments only, so that whoever calls must be seen.
CHECKED = ("torch.load", "numpy.load", "yaml.compose")


def names(tree: ast.Module) -> dict[str, str]:
    """What the imports and assignments of a file call things: local name -> full name."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in found:
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, found[node.value.id])
    return found


def full_name(node: ast.AST, known: dict[str, str]) -> str:
    """The dotted name of what is used; of a member of something else, the part that can be told."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{full_name(node.value, known)}.{node.attr}"
    if isinstance(node, ast.Call) and full_name(node.func, known) == "getattr" and len(node.args) > 1:
        name = node.args[1]
        return f"{full_name(node.args[0], known)}.{name.value if isinstance(name, ast.Constant) else '?'}"
    return "?"


def keyword(call: ast.Call, name: str) -> object:
    """The value of an argument given by name, where it is written out; None if it is not there."""
    for argument in call.keywords:
        if argument.arg == name:
            return argument.value.value if isinstance(argument.value, ast.Constant) else ast.unparse(argument.value)
    return None


def unpacks(call: ast.Call) -> bool:
    """Whether arguments come from a list or a mapping, where they cannot be seen."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords)


def faults(source: str, file: str = "new.py") -> Iterator[str]:
    """What is wrong with a file, as `line: reason`."""
    tree = ast.parse(source)
    known = names(tree)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        for module in imported(node):
            if any(f"{module}.".startswith(f"{own}.") and file not in places for own, places in GUARDED.items()):
                yield f"{node.lineno}: imports {module}"
        if isinstance(node, ast.Name | ast.Attribute | ast.Call):
            name = full_name(node, known)
            if name in FORBIDDEN:
                yield f"{node.lineno}: {name} {FORBIDDEN[name]}"
            if name in CHECKED and id(node) not in called:
                yield f"{node.lineno}: {name} is passed on, so that its arguments cannot be seen"
            if name in RESTRICTED and file not in RESTRICTED[name] and not names_a_module(node, tree, name):
                yield f"{node.lineno}: {name} outside {', '.join(RESTRICTED[name])}"
        if isinstance(node, ast.Call):
            yield from (f"{node.lineno}: {fault}" for fault in faulty_call(node, full_name(node.func, known)))


def faulty_call(call: ast.Call, name: str) -> Iterator[str]:
    """What is wrong with the arguments of a call."""
    if name == "yaml.compose" and keyword(call, "Loader") != "yaml.SafeLoader":
        yield "yaml.compose makes any object; use yaml.SafeLoader"
    if name == "torch.load" and keyword(call, "weights_only") is not True:
        yield "torch.load without weights_only=True runs code"
    third = call.args[2] if len(call.args) > 2 else ast.Constant(False)
    if name == "numpy.load" and (unpacks(call) or not isinstance(third, ast.Constant) or third.value is not False):
        yield "numpy.load may run code unless allow_pickle is False"
    if keyword(call, "allow_pickle") not in (None, False):
        yield "allow_pickle=True runs code"
    if keyword(call, "shell") not in (None, False):
        yield "shell=True lets a name be a command"
    if keyword(call, "trust_remote_code") not in (None, False):
        yield "trust_remote_code runs code from the network"
    if name.endswith((".extractall", ".extract")) and keyword(call, "filter") != "data":
        yield f"{name} without filter='data' writes anywhere"


def names_a_module(node: ast.AST, tree: ast.Module, name: str) -> bool:
    """Whether this is `import_module` of a module that is written out."""
    if name != "importlib.import_module":
        return False
    calls = (call for call in ast.walk(tree) if isinstance(call, ast.Call) and call.func is node)
    return any(call.args and isinstance(call.args[0], ast.Constant) for call in calls)


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
        "run = eval",
        "map(exec, texts)",
        "import builtins; builtins.exec(text)",
        "from builtins import eval as number; number(text)",
        "__builtins__['eval'](text)",
        "import torch; torch.export.load(path)",
        "from torch.export import load; load(path)",
        "import torch; torch.jit.load(path)",
        "import torch; torch.serialization.load(path, weights_only=True)",
        "import torch; getattr(torch.jit, 'load')(path)",
        "import torch; read = torch.load",
        "import torch; t = torch; t.load(path)",
        "import torch; torch.load(path, **options)",
        "import pandas as pd; pd.read_pickle(path)",
        "import yaml; yaml.unsafe_load_all(text)",
        "import yaml; yaml.full_load_all(text)",
        "import yaml; list(map(yaml.load, texts))",
        "import runpy; runpy.run_path(path)",
        "from runpy import run_path",
        "import _pickle",
        "from _pickle import loads",
        "import cloudpickle; cloudpickle.loads(content)",
        "import dill; dill.loads(content)",
        "from joblib import load",
        "import numpy as np; np.load(path, None, True)",
        "import numpy as np; np.load(path, None, flag)",
        "import numpy as np; np.load(path, **options)",
        "import numpy as np; arrays = map(np.load, paths)",
        "from importlib import import_module; import_module(name)",
        "import importlib; importlib.import_module(name)",
        "from importlib import import_module; load = import_module",
        "import importlib.util; importlib.util.spec_from_file_location('name', path)",
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
        "import numpy as np; np.load(path, None, False)",
        "import numpy as np; np.load(path, mmap_mode='r', allow_pickle=False)",
        "from importlib import import_module; import_module('timm')",
        "import torch; net.load_state_dict(torch.load(path, weights_only=True))",
    ],
)
def test_what_is_harmless_is_allowed(line: str) -> None:
    assert not list(faults(line))


def test_what_is_allowed_somewhere_is_used_there() -> None:
    """A reason that nothing needs any more would allow what nobody has thought about."""
    allowed = {file for places in (*RESTRICTED.values(), *GUARDED.values()) for file in places}
    assert allowed <= set(FILES)
    for name, places in RESTRICTED.items():
        for file in places:
            assert name.rpartition(".")[2] in (SOURCE / file).read_text(), f"{file} does not use {name}"
    assert list(faults("import torch; torch.export.load(path)", "deploy/model_loading.py"))
    assert not list(faults("import torch; torch.export.load(path)", "deploy/export_formats.py"))

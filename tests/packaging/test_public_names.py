from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import procrustean

FOLDER = Path(procrustean.__file__).parent
ROOMS = sorted(path.parent.name for path in FOLDER.glob("*/__init__.pyi"))


def in_fresh_interpreter(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "code", ["import procrustean", "import procrustean; dir(procrustean); procrustean.__version__"]
)
def test_import_loads_nothing_heavy(code: str) -> None:
    heavy = "{'torch', 'numpy', 'rich', 'matplotlib', 'sklearn', 'PIL', 'yaml', 'tyro'}"
    assert in_fresh_interpreter(f"{code}; import sys; print({heavy} & set(sys.modules))").strip() == "set()"


@pytest.mark.parametrize("name", procrustean.__all__)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(procrustean, name)
    assert value is getattr(procrustean, name)
    assert value is not None
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__name__ == name
        assert value.__doc__


def test_names_are_importable_in_the_usual_forms() -> None:
    code = "from procrustean import MFW, data; import procrustean; print(procrustean.MFW is MFW)"
    assert in_fresh_interpreter(code).strip() == "True"


def test_dir_lists_the_public_names() -> None:
    assert set(procrustean.__all__) <= set(dir(procrustean))


@pytest.mark.parametrize("name", ["data", "base", "methods"])
def test_submodules_are_attributes(name: str) -> None:
    code = f"import procrustean; print(procrustean.{name}.__name__)"
    assert in_fresh_interpreter(code).strip() == f"procrustean.{name}"


def test_no_public_name_of_a_room_is_also_a_submodule() -> None:
    """Importing the submodule would replace the public name, which is imported when it is first used."""
    for room in ROOMS:
        names = set(importlib.import_module(f"procrustean.{room}").__all__)
        assert not names & {path.stem for path in (FOLDER / room).iterdir()}


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_of_a_room_resolves(room: str) -> None:
    module = importlib.import_module(f"procrustean.{room}")
    assert all(getattr(module, name) is not None for name in module.__all__)

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import procrustean

FOLDER = Path(procrustean.__file__).parent


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
    code = "from procrustean import MFW, errors; import procrustean; print(procrustean.MFW is MFW)"
    assert in_fresh_interpreter(code).strip() == "True"


def test_dir_lists_the_public_names() -> None:
    assert set(procrustean.__all__) <= set(dir(procrustean))


@pytest.mark.parametrize("name", ["data", "errors", "methods"])
def test_submodules_are_attributes(name: str) -> None:
    code = f"import procrustean; print(procrustean.{name}.__name__)"
    assert in_fresh_interpreter(code).strip() == f"procrustean.{name}"


def test_an_unknown_name_is_refused_with_a_near_one() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'evalute'.*'evaluate'"):
        _ = procrustean.evalute  # type: ignore[attr-defined]
    assert not hasattr(procrustean, "_private")


def test_an_import_error_inside_a_submodule_is_not_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "broken_part.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.setattr(procrustean, "__path__", [*procrustean.__path__, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_there"):
        _ = procrustean.broken_part  # type: ignore[attr-defined]


def test_type_checkers_see_the_same_names_in_the_same_places() -> None:
    tree = ast.parse((FOLDER / "__init__.py").read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if node.module != "procrustean"
    }
    assert seen == procrustean._HOMES
    assert set(procrustean.__all__) == {*seen, "data", "diagnose", "__version__"}


def test_no_public_name_is_also_a_submodule() -> None:
    modules = {path.stem for path in FOLDER.iterdir()}
    assert not modules & set(procrustean._HOMES)

"""Names of methods in files: what identifies their code."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from procrustean.base import ConfigError, read_code
from procrustean.records import RunSpec


def config(method: str, **settings: object) -> RunSpec:
    return RunSpec("digits", "step", 20, method=method, **settings)  # type: ignore[arg-type]


def test_hashes_of_the_librarys_own_methods_are_what_they_were() -> None:
    assert config("erm").slug == "digits-step20-erm-seed0-a74fc941107c"
    assert config("mfw", drw=True, options={"alpha": 2}).slug == "digits-step20-mfw-drw-seed0-2c5cfef6ac10"


def test_settings_name_the_code(work: Path) -> None:
    (work / "plain.py").write_text("def f(problem): ...\n")
    digest = hashlib.sha256((work / "plain.py").read_bytes()).hexdigest()
    made = config("plain.py:f")
    assert made.method == f"plain.py:f@{digest}"
    assert RunSpec.from_json(made.to_json()) == made
    assert made.slug == f"digits-step20-f-seed0-{made.hash}"
    assert not set("/:@\\") & set(config("./mine.py:tempered", drw=True).slug)


def test_the_same_file_elsewhere_is_the_same_method(work: Path) -> None:
    (work / "lab").mkdir()
    for name in ("mine.py", "shared_numbers.py"):
        shutil.copy(work / name, work / "lab" / name)
    shutil.copy(work / "mine.py", work / "other_name.py")
    names = ("mine.py", "./mine.py", "lab/mine.py", str(work / "lab" / "mine.py"), "other_name.py")
    assert len({config(f"{name}:tempered").slug for name in names}) == 1
    assert config("mine.py:tempered").hash != config("mine.py:soft_mixup").hash


@pytest.mark.parametrize("file", ["mine.py", "shared_numbers.py"])
def test_another_text_is_another_method(file: str, work: Path) -> None:
    before = config("mine.py:tempered")
    (work / file).write_text((work / file).read_text() + "# edited\n")
    assert config("mine.py:tempered").hash != before.hash
    (work / "beside_and_not_imported.py").write_text("")
    assert read_code("mine.py").beside == {"shared_numbers": work / "shared_numbers.py"}


def test_what_modules_beside_it_import_counts_too(work: Path) -> None:
    (work / "shared_numbers.py").write_text("import package.part\nTEMPERATURE = 2.0\n")
    (work / "package").mkdir()
    for name in ("__init__.py", "part.py"):
        (work / "package" / name).write_text("")
    before = read_code("mine.py")
    assert set(before.beside) == {"shared_numbers", "package"}
    (work / "package" / "part.py").write_text("NUMBER = 1\n")
    assert read_code("mine.py").sha256 != before.sha256


def test_a_folder_of_modules_is_a_package_without_saying_so(work: Path) -> None:
    (work / "shared_numbers.py").write_text("import folder.part, torch, json\nTEMPERATURE = 2.0\n")
    for folder in ("folder", "torch", "json"):  # of which Python has others, that are taken instead
        (work / folder).mkdir()
        (work / folder / "part.py").write_text("")
    before = read_code("mine.py")
    assert set(before.beside) == {"shared_numbers", "folder"}
    (work / "folder" / "part.py").write_text("NUMBER = 1\n")
    assert read_code("mine.py").sha256 != before.sha256


def test_a_name_is_not_executed_to_be_read(work: Path) -> None:
    (work / "loud.py").write_text("open('executed', 'w')\ndef f(problem): ...\n")
    assert config("loud.py:f").slug
    assert not (work / "executed").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "mine.py",
            r"a file without the name of what to use in it; write mine.py:tempered\. It has: tempered, soft_mix",
        ),
        ("mime.py:f", "there is no file {work}/mime.py. Relative paths start at the working directory"),
        ("nowhere/mine.py:f", "there is no file {work}/nowhere/mine.py. Relative paths start at the working directory"),
        ("broken.py:f", "broken.py cannot be imported: SyntaxError, line 2"),
        ("null.py:f", "null.py cannot be imported: "),
    ],
)
def test_what_is_no_file_of_methods_is_refused(name: str, message: str, work: Path) -> None:
    (work / "broken.py").write_text("x = 1\ndef f(:\n")
    (work / "null.py").write_bytes(b"\0")
    with pytest.raises(ConfigError, match=message.replace("{work}", str(work))):
        config(name)


def test_a_function_is_no_name(work: Path) -> None:
    def mine(problem: object) -> None: ...

    with pytest.raises(ConfigError, match="the name of a method, which a record can keep; of one of your own"):
        RunSpec.from_json({"source": "digits", "method": mine})


def test_naming_a_file_does_not_load_torch(work: Path) -> None:
    code = "import sys; from procrustean.records import RunSpec; RunSpec('digits', method='mine.py:tempered'); "
    subprocess.run([sys.executable, "-c", code + "assert 'torch' not in sys.modules"], check=True, cwd=work)

"""The wheel works where there is no checkout and no Makefile."""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import procrustean

PROJECT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}
    result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.fail(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}", pytrace=False)
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, PROJECT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that holds the wheel and borrows only the dependencies of the current one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel)
    # Python does not follow the .pth files of a folder that is itself named in one, so the editable install
    # of the checkout stays out of reach.
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    source = PROJECT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in (source / "procrustean").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    assert "procrustean/py.typed" in inside
    assert inside == expected


def test_the_wheel_names_its_licence_command_and_requirements(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = f"procrustean-{procrustean.__version__}.dist-info"
    assert "Apache License" in archive.read(f"{info}/licenses/LICENSE").decode()
    assert "procrustean = procrustean.cli:main" in archive.read(f"{info}/entry_points.txt").decode()
    metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    required = {
        line.split(";")[0].split(">")[0] for line in metadata.get_all("Requires-Dist", []) if "extra" not in line
    }
    assert {"torch", "numpy", "pillow", "safetensors"} <= required


@pytest.mark.slow
def test_the_installed_wheel_answers_outside_the_checkout(environment: Path, tmp_path: Path) -> None:
    python = environment / "bin" / "python"
    where = run(python, "-c", "import procrustean; print(procrustean.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(environment)
    by_command = run(environment / "bin" / "procrustean", "--help", cwd=tmp_path)
    by_module = run(python, "-m", "procrustean", "--help", cwd=tmp_path)
    assert "train" in by_command
    assert "train" in by_module


@pytest.mark.slow
def test_the_installed_wheel_weakens_features(environment: Path, tmp_path: Path) -> None:
    code = "import procrustean; print(procrustean.MFW([100, 1]).strength.tolist())"
    strength = run(environment / "bin" / "python", "-c", code, cwd=tmp_path)
    major, minor = json.loads(strength)
    assert major > minor >= 0


def test_the_changelog_and_the_citation_know_the_version() -> None:
    assert f"## [{procrustean.__version__}]" in (PROJECT / "CHANGELOG.md").read_text()
    assert f"version: {procrustean.__version__}\n" in (PROJECT / "CITATION.cff").read_text()

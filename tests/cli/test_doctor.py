from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from procrustean.base import optional_libraries as extras
from procrustean.cli.doctor import examine, machine, packages
from procrustean.cli.doctor.finding import Finding
from procrustean.cli.doctor.gpu import Graphics, judge
from procrustean.cli.doctor_command import Doctor


@pytest.mark.parametrize(
    ("seen", "level", "text"),
    [
        (Graphics("570.1", "H200", "2.11", "12.8", True), "fine", "H200, driver 570.1, torch built for CUDA 12.8"),
        (Graphics(None, "", "2.11+cpu", None, False), "note", "training runs on the CPU"),
        (Graphics(None, "", "2.11", "12.8", False), "note", "no NVIDIA driver found"),
        (
            Graphics("570.1", "H200", "2.11+cpu", None, False),
            "problem",
            "was built without CUDA. Install a build with it",
        ),
        (Graphics("470.1", "T4", "2.13", "13.0", False), "problem", "the driver is older than the CUDA of the build"),
        (
            Graphics("570.1", "T4", "2.13", "13.0", False, "no kernel image"),
            "problem",
            "cannot compute on it (no kernel image)",
        ),
        *(
            (Graphics("570.1", "H200", "2.13", "13.0", False, visible=value), "note", f"{value!r} hides it: unset it")
            for value in ("", "-1", "none", "1", " ,0")
        ),
        *(
            (Graphics("470.1", "T4", "2.13", "13.0", False, visible=value, cards=2), "problem", "the driver is older")
            for value in ("0", "1,0", "GPU-8932f937")
        ),
    ],
)
def test_gpu_driver_and_build(seen: Graphics, level: str, text: str) -> None:
    (found,) = judge(seen)
    assert found.level == level
    assert text in found.text


@pytest.mark.parametrize(
    ("threads", "cores", "environment", "level", "text"),
    [
        (4, 4, {}, "fine", "4, as many as"),
        (1, 4, {"OMP_NUM_THREADS": "1"}, "note", "1 of 4 cores are used, because of OMP_NUM_THREADS=1"),
        (64, 2, {}, "problem", "export OMP_NUM_THREADS=2"),
    ],
)
def test_threads(threads: int, cores: int, environment: dict[str, str], level: str, text: str) -> None:
    (found,) = machine.check_threads(threads, cores, environment)
    assert found.level == level
    assert text in found.text


def test_a_busy_machine_is_noticed() -> None:
    assert machine.check_load(None, 2, 2) == machine.check_load(1.2, 2, 2) == []
    (found,) = machine.check_load(3.04, 2, 2)
    assert found.level == "note"
    assert "3.0 programs wanted to compute on 2 cores" in found.text
    assert "2 threads, which wait for one another, are then often many times slower than one" in found.text
    assert found.text.endswith("OMP_NUM_THREADS=1 procrustean resume RUN")
    (found,) = machine.check_load(3.04, 2, 1)
    assert "OMP_NUM_THREADS" not in found.text


def test_memory_disk_and_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.check_memory(None) == []
    assert machine.check_memory(2**29)[0].level == "problem"
    assert machine.check_memory(2**35)[0].text == "32.0 GiB free"
    assert machine.check_disk(tmp_path)[0].topic == "disk"
    monkeypatch.setattr(machine, "LITTLE_DISK", 2**80)
    assert machine.check_disk(tmp_path)[0].level == "problem"
    assert machine.check_data([tmp_path / "none"])[0].level == "note"
    (tmp_path / "cifar-10-batches-py").mkdir()
    assert "cifar-10-batches-py" in machine.check_data([tmp_path])[0].text
    (found,) = machine.check_data([tmp_path, tmp_path / ("x" * 300)])  # the system refuses so long a name
    assert found.level == "problem"
    assert "cannot be looked at (File name too long)" in found.text


def test_every_extra_for_users_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {k: v for k, v in project["optional-dependencies"].items() if k not in ("test", "dev")}
    named = {(re.split("[<>=!;]", package)[0], extra) for extra, packages_ in extras.items() for package in packages_}
    assert {(name, extra) for name, (_, extra) in packages.OPTIONAL.items()} == named


@pytest.mark.parametrize(
    ("levels", "code", "last"),
    [
        (["fine"], 0, "all is well"),
        (["fine", "note"], 0, "all is well, 1 note"),
        (["note", "note"], 0, "all is well, 2 notes"),
        (["note", "problem"], 1, "1 to mend, 1 note, see above"),
    ],
)
def test_the_last_line(
    levels: list[str], code: int, last: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(examine, "examine", lambda data_dir: [Finding(level, "a", "b") for level in levels])
    assert Doctor().run() == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_optional_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "timm":
            raise PackageNotFoundError(name)
        return "1.2"

    def load(name: str) -> None:
        misfit = RuntimeError("operator torchvision::nms does not exist\nmore")
        if name == "torchvision":
            raise misfit
        if name == "transformers.trainer":  # the package itself loads its parts when they are used
            raise ModuleNotFoundError("Could not import module 'Trainer'.") from misfit
        if name == "lightning":
            raise ImportError("cannot import name 'v2' from 'torchvision.transforms'")

    for module in (packages, extras):
        monkeypatch.setattr(module, "version", version)
    found = {finding.topic: finding for finding in packages.check_optional(load)}
    assert "pip install -c constraints.txt -e '.[nets]'" in found["timm"].text
    misfit = found["torchvision"]
    assert misfit.level == "problem"
    assert "was not built for torch 1.2 (operator torchvision::nms does not exist)" in misfit.text
    assert "pip install --force-reinstall torch==1.2 torchvision --index-url https://download." in misfit.text
    assert found["transformers"].level == "note"
    assert "imports torchvision, which does not load" in found["transformers"].text
    assert "the installed version of torchvision does not fit; install those" in found["lightning"].text
    assert found["pyarrow"].level == "fine"
    assert packages.check_python()[0].level == "fine"

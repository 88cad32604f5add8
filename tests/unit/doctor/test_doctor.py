from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from procrustean.doctor import machine, packages
from procrustean.doctor.gpu import Graphics, judge


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
    assert machine.check_load(None, 2) == machine.check_load(1.2, 2) == []
    (found,) = machine.check_load(3.04, 2)
    assert found.level == "note"
    assert "3.0 programs wanted to compute on 2 cores" in found.text


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
    assert machine.usable_cores() >= 1


def test_optional_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "timm":
            raise PackageNotFoundError(name)
        return "1.2"

    def load(name: str) -> None:
        if name == "torchvision":
            raise RuntimeError("operator torchvision::nms does not exist\nmore")

    monkeypatch.setattr(packages, "version", version)
    found = {finding.topic: finding for finding in packages.check_optional(load)}
    assert "pip install -c constraints.txt '.[nets]'" in found["timm"].text
    assert "torchvision does not fit torch 1.2 (operator torchvision::nms does not exist)" in found["torchvision"].text
    assert found["pyarrow"].level == "fine"
    assert packages.check_python()[0].level == "fine"

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

from procrustean.base import optional_libraries
from procrustean.cli import doctor


@pytest.mark.parametrize(
    ("driver", "cuda", "visible", "said"),
    [
        (None, None, None, ""),
        (None, "12.8", None, ""),
        ("570.1", None, None, "it was built without CUDA; see https://pytorch.org/get-started/locally"),
        ("570.1", "12.8", "-1", "CUDA_VISIBLE_DEVICES='-1' may hide it"),
        ("470.1", "13.0", None, "driver 470.1 may be older than the CUDA 13.0"),
    ],
)
def test_driver_and_build_of_torch(
    driver: str | None, cuda: str | None, visible: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = doctor.gpu_fault(driver)
    assert said in found
    assert bool(said) == bool(found)


def test_a_gpu_that_is_found_and_does_not_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise RuntimeError("no kernel image\nmore")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "zeros", fail)
    assert "cannot compute on the GPU: no kernel image;" in doctor.gpu_fault("570.1")


def test_what_a_training_would_use() -> None:
    training, threads = doctor.training("cpu")
    assert training.startswith("Training: CPU (asked for), ")
    assert "engine eager: CUDA graphs need a GPU" in training
    assert threads.startswith(f"Threads: {torch.get_num_threads()} of torch, ")


def test_folders_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCRUSTEAN_DATA", str(tmp_path / "none"))
    (tmp_path / "cifar-10-batches-py").mkdir()
    *_, first, second, _ = doctor.places(tmp_path)
    assert first == f"Data: {tmp_path} holds cifar-10-batches-py"
    assert second == f"Data: {tmp_path / 'none'} does not exist yet"


def test_every_extra_for_users_is_looked_at() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {k: v for k, v in project["optional-dependencies"].items() if k not in ("test", "dev")}
    named = {
        (re.split("[<>=!;]", package)[0].replace("-", "_"), extra)
        for extra, packages in extras.items()
        for package in packages
    }
    assert {(module.partition(".")[0], extra) for module, extra in doctor.OPTIONAL.items()} == named


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

    for module in (doctor, optional_libraries):
        monkeypatch.setattr(module, "version", version)
    versions, (misfit, wrong) = doctor.packages(load)
    assert "pyarrow: 1.2" in versions
    (timm,) = [line for line in versions if line.startswith("timm: ")]
    assert "pip install -c constraints.txt -e '.[nets]'" in timm
    assert misfit.startswith("torchvision, transformers cannot be imported (operator torchvision::nms does not exist)")
    assert "pip install --force-reinstall torch==1.2 torchvision --index-url https://download." in misfit
    assert "lightning cannot be imported (cannot import name 'v2'" in wrong

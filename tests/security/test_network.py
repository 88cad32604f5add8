"""Nothing reaches for the network unless a user names a data set that has to be fetched."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean.base import DataError
from procrustean.cli import main
from procrustean.data import load_source
from procrustean.data.sets import cifar

FIXTURE = Path(__file__).parents[1] / "fixtures" / "format-1"


@pytest.fixture
def attempts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Attempts to reach another machine, all of which fail."""
    made: list[str] = []

    def refuse(*arguments: object, **more: object) -> None:
        made.append(str(arguments))
        raise OSError(101, "Network is unreachable")

    for name in ("connect", "connect_ex", "sendto", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("getaddrinfo", "gethostbyname", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(cifar.shutil, "which", lambda name: made.append(name))
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.delenv("PROCRUSTEAN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return made


TINY = "--net small --epochs 1 --batch-size 8 --hold-out 1 --device cpu --quiet"
COMMANDS = [
    "train images.npz --net small --epochs 1 --device cpu --hold-out 1 --run-dir run",
    "train digits --imbalance step --rho 20 --epochs 1 --device cpu --method erm --run-dir digits",
    "evaluate run",
    "compare run digits --format csv",
    "list methods mfw",
    "list nets",
    "list recipes",
    "list sources",
    "data describe digits --imbalance long_tailed --rho 10",
    "train cifar10 --imbalance step --rho 100 --dry-run",
    "train imagenet --net timm:resnet18 --pretrained published --dry-run",
    "fleet grid.yaml --output runs --quiet",
    "inspect pictures --device cpu",
    "train list.parquet --method erm --net small --epochs 1 --device cpu --run-dir parquet",
    "train pets --method erm --net small --epochs 1 --device cpu --run-dir pets-run",
    "data describe pets",
    f"train images.npz --method auto {TINY} --minutes 1 --run-dir compared",
    f"tune images.npz --method focal --over gamma=1,2 {TINY} --output tuned",
    "predict compared pictures --device cpu --prior balanced",
    "thresholds run --recall 0.5",
    "export run --output exported",
    "export compared --format torch --output exported-torch",
    "export run --format onnx --output exported-onnx",
    "predict exported pictures --output predictions.csv",
    "diagnose run --output diagnosis",
    "report run digits compared --output page.html",
]


def write_sources(folder: Path) -> None:
    """Tiny data in every form that is read from a disk."""
    datasets, parquet = pytest.importorskip("datasets"), pytest.importorskip("pyarrow.parquet")
    random = np.random.RandomState(0)
    images, labels = random.randint(0, 256, (24, 8, 8)).astype(np.uint8), np.arange(24) % 3
    np.savez(folder / "images.npz", train_images=images, train_labels=labels)
    paths = [Path("pictures", str(label), f"{number}.png") for number, label in enumerate(labels)]
    for path, image in zip(paths, images, strict=True):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / path)
    columns = {"path": [str(path) for path in paths], "label": [str(label) for label in labels]}
    parquet.write_table(datasets.Dataset.from_dict(columns).data.table, folder / "list.parquet")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])})
    content = {"image": [Image.fromarray(image) for image in images], "label": labels.tolist()}
    datasets.Dataset.from_dict(content, features=features).save_to_disk(str(folder / "pets"))


def test_commands_stay_on_this_machine(attempts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sources(tmp_path)
    (tmp_path / "grid.yaml").write_text(
        "base: {source: images.npz, net: small, epochs: 1, device: cpu}\ngrid: {seed: [0, 1]}\n"
    )
    for command in COMMANDS:
        code = main(command.split())
        answer = capsys.readouterr()
        assert code == 0 or "imagenet" in command, f"{command}: {answer.err}"
        assert attempts == [], command


def test_a_data_set_that_has_to_be_fetched_is_only_where_it_is_asked_for(attempts: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="was not found"):
        load_source("cifar10", data_dir=tmp_path, download=False)
    assert attempts == []
    with pytest.raises(DataError, match="could not be downloaded"), pytest.warns(UserWarning, match="downloading it"):
        load_source("cifar10", data_dir=tmp_path)
    assert any("www.cs.toronto.edu" in attempt for attempt in attempts)
    assert "npm" in attempts

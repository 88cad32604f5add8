"""The program in this process, in an empty folder, with tiny data beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Call = Callable[..., Any]


@pytest.fixture
def work(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is the current one; no data set of the user is found from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("PROCRUSTEAN_DATA", raising=False)
    return tmp_path


@pytest.fixture
def call(work: Path, program: Call) -> Call:
    """The program in the empty folder."""
    return program


@pytest.fixture
def npz(work: Path, stripes: Callable[[Path], Path]) -> Path:
    """The file by its name in the folder."""
    return Path(stripes(work).name)


@pytest.fixture
def folder(work: Path) -> Path:
    """A folder of images: two classes of ten."""
    random = np.random.RandomState(0)
    for name in ("cat", "dog"):
        (work / "photos" / name).mkdir(parents=True)
        for number in range(10):
            image = Image.fromarray(random.randint(0, 255, (8, 8, 3)).astype(np.uint8))
            image.save(work / "photos" / name / f"{number}.png")
    return Path("photos")


@pytest.fixture(scope="session")
def files_of() -> Callable[[Path], dict[str, bytes]]:
    """Every file below a folder, by name."""
    return lambda folder: {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

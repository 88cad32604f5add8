"""On the way of a training nothing is made twice: images listed and looked at, imbalance, network."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from procrustean import fit
from procrustean.data import image_lists, imbalance, sources
from procrustean.methods import make
from procrustean.nets import build


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each of these is called, from wherever."""
    calls: Counter[str] = Counter()

    def count(name: str, function: Any) -> None:
        def counted(*arguments: Any, **more: Any) -> Any:
            calls[name] += 1
            return function(*arguments, **more)

        for module in [module for key, module in sys.modules.items() if key.startswith("procrustean.")]:
            if vars(module).get(name) is function:
                monkeypatch.setattr(module, name, counted)

    for name, module in (
        ("list_source", sources),
        ("headers", image_lists),
        ("decode_into", image_lists),
        ("build", imbalance),
        ("build_net", build),
        ("make_method", make),
    ):
        count(name, getattr(module, name))
    return calls


@pytest.mark.parametrize("method", ["advised", "mfw"])
def test_training_on_a_folder(method: str, made: Counter[str], colours: Path, tmp_path: Path) -> None:
    fit(str(colours), method=method, epochs=6, device="cpu", run_dir=str(tmp_path / "run"))
    assert made == {"list_source": 1, "headers": 1, "decode_into": 1, "build": 1, "build_net": 1, "make_method": 1}

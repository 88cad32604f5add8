"""`procrustean list layers` for the models of other libraries."""

from __future__ import annotations

import sys

import pytest

from procrustean.cli import main


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("torchvision:resnet18", "layer1   64 x 56 x 56    Sequential          <- group2, second group"),
        ("timm:test_vit", "blocks.1"),
    ],
)
def test_known_models(model: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "layers", model]) == 0
    (marked,) = [line for line in capsys.readouterr().out.splitlines() if "second group" in line and "<-" in line]
    assert marked.startswith(shown)


@pytest.mark.parametrize("model", ["torchvision:qqqq", "timm:qqqq", "collections.abc:qqqq", "torch:qqqq"])
def test_a_catalogue_is_not_printed_whole(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "layers", model]) == 2
    said = capsys.readouterr().err
    assert "has no " in said
    assert len(said) < 600
    assert "__" not in said


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_errors(library: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["list", "layers", f"{library}:resnet19"]) == 2
    assert "'resnet1" in capsys.readouterr().err.partition("Did you mean ")[2]
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    assert main(["list", "layers", f"{library}:resnet18"]) == 2
    assert "pip install -c constraints.txt -e '.[nets]'" in capsys.readouterr().err

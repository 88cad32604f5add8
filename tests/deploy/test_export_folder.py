"""Kills and full disks in the middle of an export: the folder is there as a whole or not at all."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean import export, load_model
from procrustean.base import RunError
from procrustean.deploy import export_folder as exporting
from procrustean.deploy import export_formats as formats

Call = Callable[..., Any]
FULL = OSError(28, "No space left on device")


def test_a_killed_export_leaves_nothing_at_its_place(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def card(*arguments: Any, **more: Any) -> str:
        """A moment at which a kill may come."""
        seen.extend(path.name for path in tmp_path.iterdir())
        return ""

    monkeypatch.setattr(exporting, "model_card", card)
    export(run, output=tmp_path / "out")
    assert seen == [f".out.{os.getpid()}.tmp"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert load_model(tmp_path / "out", device="cpu").classes == ("red", "green", "blue")


def test_a_full_disk_at_any_moment_leaves_nothing_behind(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writing(refuse: int | None, output: Path) -> int:
        """How often a file was opened to be written or synced; the n-th time is refused."""
        requests = 0

        def asked() -> None:
            nonlocal requests
            requests += 1
            if requests == refuse:
                raise FULL

        open_file, fsync = io.open, os.fsync

        def opening(file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
            if mode[0] == "w" and tmp_path in Path(file).parents:
                asked()
            return open_file(file, mode, *arguments, **more)

        with monkeypatch.context() as patched:
            patched.setattr(io, "open", opening)
            patched.setattr("builtins.open", opening)
            patched.setattr(os, "fsync", lambda handle: (asked(), fsync(handle)))
            export(run, output=output)
        return requests

    requests = writing(None, tmp_path / "whole")
    assert requests > 10  # five files, each written and synced, and their folder
    (tmp_path / "out").mkdir()
    for refuse in range(1, requests + 1):
        with pytest.raises(RunError, match=r"cannot write .*out \(No space left on device\); nothing is left there"):
            writing(refuse, tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir() if any(path.iterdir())] == ["whole"]
    assert writing(None, tmp_path / "out") == requests


@pytest.mark.parametrize("form", ["safetensors", "torch", "onnx"])
def test_a_file_that_does_not_fit(form: str, run: Path, tmp_path: Path, call: Call) -> None:
    resource = pytest.importorskip("resource")
    pytest.importorskip("onnxscript")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, before[1]))  # the system refuses to write more
    try:
        answer = call("export", run, "--format", form, "--output", "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert answer.code == 2
    assert answer.err.endswith(
        "procrustean: cannot write out (File too large); nothing is left there. Make room, or choose another --output\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_is_refused_leaves_nothing_behind(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "TOLERANCE", -1.0)
    with pytest.raises(RunError, match="cannot be trusted"):
        export(run, output=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_only_an_empty_folder_is_replaced(run: Path, tmp_path: Path, call: Call) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    (tmp_path / "file").touch()
    assert call("export", run, "--output", "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "empty/model.json").exists()
    for name in ("empty", "file"):
        assert "is not an empty folder" in call("export", run, "--output", name).err
    (tmp_path / "current").mkdir()
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path / "current")
        assert "is the current folder" in call("export", run, "--output", ".").err
    assert list((tmp_path / "current").iterdir()) == []

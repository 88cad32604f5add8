"""The page of a run that goes on."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from procrustean.report.watch import Watched, make_server

if TYPE_CHECKING:
    from .conftest import Browser


@pytest.fixture
def unfinished(runs: list[Path], tmp_path: Path) -> Path:
    """A real run as it was after its second epoch."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(runs[0] / "config.json", folder)
    lines = (runs[0] / "epochs.jsonl").read_text().splitlines(keepends=True)
    (folder / "epochs.jsonl").write_text("".join(lines[:2]) + lines[2][:40])
    return folder


@pytest.fixture
def address(unfinished: Path) -> Iterator[str]:
    with make_server(Watched([unfinished]), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_the_page_follows_the_run_and_keeps_what_was_picked(
    browser: Browser, address: str, unfinished: Path, runs: list[Path]
) -> None:
    browser.open(address)
    assert browser.one(".ongoing").text.replace("\n", " ") == "ERM (seed 0, unfinished) epoch 2 of 4"
    browser.click("#class-3")
    browser.click("#runs summary")
    (unfinished / "epochs.jsonl").write_text((runs[0] / "epochs.jsonl").read_text())
    browser.until(lambda: "epoch 4 of 4" in browser.one(".ongoing").text)
    assert browser.one("#class-3").get_attribute("aria-pressed") == "false"
    assert browser.one("#runs").get_attribute("open") is not None
    assert len(browser.all("#class-curves .line")) == 9
    assert "known when the run ends" in browser.one("#confusion").text

    shutil.copy(runs[0] / "result.json", unfinished)
    browser.until(lambda: not browser.all(".ongoing"))
    assert browser.one("h1").text == "ERM on digits"
    assert browser.all("svg.matrix")
    assert browser.one("#class-3").get_attribute("aria-pressed") == "false"
    assert {request.removeprefix(address) for request in browser.requests()} <= {"", "data.json", "data:,"}
    assert browser.console() == []


def test_the_page_says_when_it_can_no_longer_be_kept_current(browser: Browser, address: str, unfinished: Path) -> None:
    browser.open(address)
    content = json.loads((unfinished / "config.json").read_text())
    (unfinished / "config.json").write_text(json.dumps({"format": content["format"]}))
    browser.until(lambda: "Cannot be brought up to date" in browser.one(".live").text)
    assert len(browser.all("main section")) > 3

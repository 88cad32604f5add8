"""Names come from the data of strangers; on the page they are text and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from procrustean.report import write_report

if TYPE_CHECKING:
    from .conftest import Browser

HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    '"><svg onload="window.hacked = 3">',
    "<!--<script>",
    "javascript:window.hacked=4",
    "{{script}} ${alert(1)} `",
    "a&lt;b&amp;\u2028\u2029\x00",
    "<style>* { display: none }</style>",
    "]]><base href='https://example.com/'>",
    "'-window.hacked-'",
]


@pytest.fixture
def hostile(runs: list[Path], tmp_path: Path) -> Path:
    """A report of real runs in which every text is an attack."""
    files = []
    for number, run in enumerate(runs):
        record: dict[str, Any] = json.loads((run / "result.json").read_text())
        record["data"]["classes"] = HOSTILE
        record["data"]["source"] = HOSTILE[0]
        record["label"] = HOSTILE[1 if number < 2 else 0]
        record["method"]["options"] = {HOSTILE[1]: HOSTILE[0]}
        record["environment"]["machine"] = HOSTILE[2]
        record["command"] = HOSTILE[0]
        record["verdict"] = HOSTILE
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(record))
        files.append(file)
    path = tmp_path / "report.html"
    write_report(files, path)
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_names_are_shown_as_text_and_run_nothing(browser: Browser, hostile: Path, width: int) -> None:
    browser.open(hostile.as_uri(), width=width)
    shown = [chip.text.rsplit("\n", 1)[0] for chip in browser.all(".picker .chip-text")]
    assert [name.replace("\n", " ") for name in shown[:3]] == HOSTILE[:3]
    for box in browser.all("details"):
        browser.run("arguments[0].open = true", box)
    browser.hover("#class-curves svg.chart", 0.5, 0.5)
    browser.hover("#confusion svg.matrix", 0.6, 0.4)
    browser.click("#layout-1")
    assert browser.run("return window.hacked") is None
    assert len(browser.all("script")) == 2
    assert len(browser.all("style")) == 1
    assert browser.all("main img, main style, base, main [onload], main [onerror]") == []
    assert browser.one("h1").text.startswith("<img src=x onerror='window.hacked = 2'>")
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert {address.split(":")[0] for address in browser.requests()} <= {"file", "data"}
    assert browser.console() == []


def test_the_policy_stops_what_would_get_into_the_page(browser: Browser, report: Path, tmp_path: Path) -> None:
    page = report.read_text().replace(
        '<main id="report">',
        "<script>window.hacked = 1</script><img src='https://example.com/x.png'>"
        '<button id="bad" onclick="window.hacked = 2">x</button><main id="report">',
    )
    spoilt = tmp_path / "spoilt.html"
    spoilt.write_text(page)
    browser.open(spoilt.as_uri())
    browser.run("document.getElementById('bad').click(); fetch('https://example.com/').catch(() => {})")
    assert browser.run("return window.hacked") is None
    assert len(browser.all("main section")) == 6
    assert any("Content Security Policy" in message for message in browser.console())
    assert not any("example.com" in address for address in browser.requests(even_blocked=False))

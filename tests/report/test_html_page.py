from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from procrustean.base import RunError
from procrustean.records.run_record import Result
from procrustean.report.html_page import (
    MADE_BY,
    SCRIPTS,
    embedded_json,
    html_page,
    page_policy,
    write_page,
    write_report,
)
from procrustean.report.page_data import page_data

Make = Callable[..., Result]
Save = Callable[..., Path]
HOSTILE = "</script><script>alert(1)</script><!--<script>&amp;"


class Outline(HTMLParser):
    """Tags with their attributes, and the texts of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def outline(page: str) -> list[tuple[str, dict[str, str | None]]]:
    return Outline(page).tags


def test_the_page_refers_to_nothing_outside(result: Make) -> None:
    page = html_page(page_data([result()]))
    for tag, attributes in outline(page):
        for name in ("src", "href", "action", "data", "srcset"):
            address = attributes.get(name)
            assert address is None or address.startswith(("#", "data:")), (tag, name)
    assert "{{" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"@import|url\(", page)


def test_hostile_names_stay_data(result: Make) -> None:
    run = result(label=HOSTILE, classes=[HOSTILE + str(i) for i in range(10)], source=HOSTILE)
    page = html_page(page_data([run]))
    assert [tag for tag, _ in outline(page)].count("script") == 2
    assert HOSTILE not in page
    assert "<title>&lt;/script&gt;" in page
    found = re.search(r'id="data">(.*?)</script>', page)
    assert found is not None
    assert json.loads(found[1])["settings"][0]["classes"][3] == HOSTILE + "3"


def test_a_folder_whose_name_is_no_utf_8_has_a_report(result: Make, tmp_path: Path) -> None:
    write_page(html_page(page_data([result(label="ERM", source="bl\udce4tter")])), tmp_path / "report.html")
    assert "<title>ERM on bl tter</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_placeholders_in_names_are_not_filled(result: Make) -> None:
    page = html_page(page_data([result(label="{{script}}")]))
    assert "<title>{{script}} on digits</title>" in page


def test_the_policy_allows_this_script_and_no_network(result: Make) -> None:
    policy = page_policy()
    assert policy.startswith("default-src 'none'")
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    metas = [attributes for tag, attributes in outline(html_page(page_data([result()]))) if tag == "meta"]
    assert policy in [meta.get("content") for meta in metas]


def test_every_script_of_the_package_is_in_the_page() -> None:
    folder = files("procrustean.report").joinpath("page")
    assert sorted(file.name for file in folder.iterdir()) == sorted([*SCRIPTS, "page.css", "page.html"])


def test_the_scripts_write_no_markup() -> None:
    folder = files("procrustean.report").joinpath("page")
    for name in SCRIPTS:
        text = folder.joinpath(name).read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", text), name


@pytest.mark.parametrize("text", ["</script>", "<!--", "a & b", "\u2028", '"', "\\"])
def test_embedded_json_reads_back_and_holds_no_markup(text: str) -> None:
    embedded = embedded_json({"name": text})
    assert json.loads(embedded) == {"name": text}
    assert not set("<>&") & set(embedded)
    assert embedded.isascii()


def test_numbers_that_json_does_not_know_are_refused() -> None:
    with pytest.raises(ValueError):
        embedded_json({"value": float("nan")})


def test_a_report_is_written_and_overwritten_but_nothing_else_is(saved: Save, tmp_path: Path) -> None:
    run, output = saved(), tmp_path / "new" / "report.html"
    write_report([run], output, examples=0)
    first = output.read_text()
    assert first.startswith("<!doctype html>")
    write_report([run], output, examples=0)
    precious = tmp_path / "precious.html"
    precious.write_text("<html>mine</html>")
    with pytest.raises(RunError, match=r"precious.html exists and is not a report"):
        write_report([run], precious, examples=0)
    assert precious.read_text() == "<html>mine</html>"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        write_page("<html>", tmp_path / "file" / "report.html")
    with pytest.raises(RunError, match="cannot write"):
        write_page("<html>", tmp_path)


def test_a_disk_that_is_full_leaves_the_report_that_was_there(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    write_page(f"{MADE_BY}1", output)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 10, before[1]))  # the system refuses to write more
    try:
        with pytest.raises(RunError, match="choose another --output"):
            write_page(MADE_BY + "x" * (16 << 10), output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert output.read_text() == f"{MADE_BY}1"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_without_a_network_beside_the_result_the_page_says_so(saved: Save, tmp_path: Path) -> None:
    write_report([saved()], tmp_path / "report.html")
    found = re.search(r'id="data">(.*?)</script>', (tmp_path / "report.html").read_text())
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    assert "network is not beside the result" in data["settings"][0]["methods"][0]["examples"]["reason"]


def test_neither_torch_nor_matplotlib_is_needed(saved: Save, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from procrustean.report import write_report\n"
        "write_report([sys.argv[1]], sys.argv[2])\n"
        "print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(saved()), str(tmp_path / "report.html")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == ["False", "False"]

"""The report as one HTML file that needs nothing else: style, script, data and pictures are inside it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from procrustean.base.errors import RunError
from procrustean.base.escaping import one_line
from procrustean.base.files import write_atomically
from procrustean.base.version import __version__
from procrustean.records.class_curves import with_diagnosis
from procrustean.records.groups import without_copies
from procrustean.records.run_record import load_result
from procrustean.report.mistakes import ExampleFinder
from procrustean.report.page_data import page_data

#: In the order in which they are put together: each uses only what stands before it.
SCRIPTS = (
    "elements.js",
    "numbers.js",
    "colours.js",
    "tip.js",
    "chart_parts.js",
    "line_chart.js",
    "selection_plot.js",
    "confusion.js",
    "tables.js",
    "class_picker.js",
    "frame.js",
    "sections.js",
    "curve_sections.js",
    "main.js",
)
MADE_BY = '<meta name="generator" content="procrustean '


def html_page(data: Mapping[str, Any]) -> str:
    """The page that shows what `page_data` gives."""
    parts = {
        "policy": html.escape(page_policy()),
        "version": html.escape(__version__),
        "title": html.escape(one_line(str(data["title"]))),  # a name that is no UTF-8 could not be written
        "style": _packaged("page.css"),
        "script": _script(),
        "data": embedded_json(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _packaged("page.html"))


def page_policy() -> str:
    """What a browser lets the page do: run its own script and style, and nothing else.

    Only this very script may run, so even markup that got into the page could do nothing.
    """
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(_script())}'",
            f"style-src '{_hash(_packaged('page.css'))}'",
            "img-src data:",
            "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def write_report(
    runs: Sequence[str | Path],
    output: str | Path,
    *,
    examples: int = 5,
    data_dir: Path | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Write the report of finished runs.

    Args:
        runs: run directories or result files.
        output: HTML file to write; an existing file is only overwritten if it is a report.
        examples: example images for each of the worst confusions, where network and test images are found.
        data_dir: where data sets are found; default as in training.
        say: called with one line of progress at a time.
    """
    results = [with_diagnosis(result) for result in without_copies(map(load_result, runs), say)]
    finder = ExampleFinder(examples, data_dir=data_dir, say=say) if examples else None
    write_page(html_page(page_data(results, finder=finder)), Path(output))


def write_page(page: str, output: Path) -> None:
    """Write the page, as a whole or not at all; a file that is not a report is never overwritten."""
    advice = "choose another --output"
    try:
        if output.exists() and MADE_BY not in output.read_text(encoding="utf-8", errors="replace")[:4000]:
            raise RunError(f"{output} exists and is not a report; {advice}")
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write {output} ({error.strerror or error}); {advice}") from error
    write_atomically(output, page.encode(), advice)


def embedded_json(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the script element it stands in, whatever the names in it.

    >>> embedded_json({"class": "</script>"})
    '{"class":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(_packaged(name) for name in SCRIPTS) + "})();\n"


@cache
def _packaged(name: str) -> str:
    return files("procrustean.report").joinpath("page", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")

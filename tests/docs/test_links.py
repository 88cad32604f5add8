"""Every link of the pages leads to a file, and its anchor to a heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*PROJECT.glob("*.md"), *PROJECT.glob("docs/*.md"), *PROJECT.glob("results/*.md"), *PROJECT.glob("examples/*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)", re.DOTALL)
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
NAMED = re.compile(r'<a id="([^"]+)"></a>')


def without_code(text: str) -> str:
    """The page without its blocks of code, in which brackets and hashes mean other things."""
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchor(heading: str) -> str:
    """What a heading is linked to by: its words in small letters, joined by hyphens.

    >>> anchor("The paper's claims, in `code` and [a link](x.md)")
    'the-papers-claims-in-code-and-a-link'
    """
    words = LINK.sub(lambda link: link.group(0)[1:].partition("]")[0], heading).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    text = without_code(page.read_text())
    found: set[str] = set(NAMED.findall(text))
    for heading in HEADING.findall(text):
        name = anchor(heading)
        repeats = [f"{name}-{number}" for number in range(1, 20)]
        found.add(next(new for new in [name, *repeats] if new not in found))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in LINK.findall(without_code(page.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, place = target.partition("#")
        there = page if not file else page.parent / file
        if not there.exists() or (place and place not in anchors(there)):
            broken.append(target)
    assert broken == []


def test_there_is_something_to_check() -> None:
    assert len(PAGES) > 10
    assert sum(len(LINK.findall(page.read_text())) for page in PAGES) > 200

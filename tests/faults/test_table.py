"""The page on reliability shows the figures that were measured, and nothing was lost in them."""

from __future__ import annotations

import json

from table import BEGIN, END, FIGURES, PAGE, table, with_table


def test_the_page_shows_the_figures_that_were_measured() -> None:
    record = json.loads(FIGURES.read_text())
    page = PAGE.read_text()
    assert page.count(BEGIN) == 1
    assert with_table(page, record) == page, "run: python tests/faults/table.py"


def test_nothing_was_lost() -> None:
    record = json.loads(FIGURES.read_text())
    assert {part["name"].split()[0] for part in record["parts"]} >= {"kills", "signals", "damaged", "full", "files"}
    for part in record["parts"]:
        assert part["lost"] == 0
        assert part["injected"] == part["survived"] + part["refused"] > 0


def test_a_loss_would_show() -> None:
    part = {"name": "kills", "injected": 3, "survived": 1, "refused": 1, "lost": 1, "seconds": 60.0}
    shown = table({"parts": [part], "seconds": 61.0, "environment": dict.fromkeys(("machine", "python", "torch"), "x")})
    assert "| kills | 3 | 1 | 1 | 1 | 1.0 |" in shown
    assert "| **all** | 3 | 1 | 1 | 1 | 1.0 |" in shown
    page = with_table(
        f"above\n{BEGIN}\nold\n{END}\nbelow\n",
        {"parts": [], "seconds": 0, "environment": {"machine": "a", "python": "b", "torch": "c"}},
    )
    assert page.startswith("above\n")
    assert page.endswith("\nbelow\n")
    assert "old" not in page

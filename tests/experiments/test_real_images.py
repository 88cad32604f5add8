"""The page of the study on photographs has the numbers of its record."""

from __future__ import annotations

import json
from pathlib import Path

from .scripts import script

PROJECT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_tables_of_the_record() -> None:
    study = script("real_images")
    rows = json.loads((PROJECT / "results/real-images.json").read_text())["rows"]
    page = (PROJECT / "docs/photographs.md").read_text()
    for size in sorted({row["images"] for row in rows}, key=str):
        assert study.table(rows, size) in page

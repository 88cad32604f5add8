"""Puts the figures of the campaign into the table of docs/reliability.md. `make faults` runs it after the campaign."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from procrustean.paper import placed

PROJECT = Path(__file__).resolve().parents[2]
FIGURES, PAGE = PROJECT / "results" / "faults.json", PROJECT / "docs" / "reliability.md"
BEGIN, END = "<!-- figures of results/faults.json: begin -->", "<!-- end -->"


def table(record: dict[str, Any]) -> str:
    """The figures in markdown, with the machine below them."""
    lines = ["| faults | injected | survived | refused | lost | minutes |", "|---|---:|---:|---:|---:|---:|"]
    parts = record["parts"]
    for part in parts:
        lines.append(_row(part["name"], part, part["seconds"]))
    total = {key: sum(part[key] for part in parts) for key in ("injected", "survived", "refused", "lost")}
    lines.append(_row("**all**", total, record["seconds"]))
    environment = record["environment"]
    lines += ["", f"{environment['machine']}, Python {environment['python']}, torch {environment['torch']}.", ""]
    for part in parts:
        if part.get("details") and len(part["details"]) < 10:
            lines.append(f"- {part['name']}: " + ", ".join(f"{n} {what}" for what, n in part["details"].items()) + ".")
        if part.get("measured"):
            measured = ", ".join(f"{what} {value}" for what, value in part["measured"].items())
            lines.append(f"- {part['name']}: {measured}.")
    return "\n".join(lines)


def _row(name: str, counts: dict[str, Any], seconds: float) -> str:
    numbers = " | ".join(f"{counts[key]:,}" for key in ("injected", "survived", "refused", "lost"))
    return f"| {name} | {numbers} | {seconds / 60:.1f} |"


def with_table(page: str, record: dict[str, Any]) -> str:
    """The page with the table between its marks."""
    return placed(page, BEGIN, END, f"\n\n{table(record)}\n\n")


def main() -> int:
    PAGE.write_text(with_table(PAGE.read_text(), json.loads(FIGURES.read_text())))
    return 0


if __name__ == "__main__":
    sys.exit(main())

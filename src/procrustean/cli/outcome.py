"""Show runs as tables, in the terminal or in a format for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ..errors import RunError

Format = Literal["table", "markdown", "csv", "latex"]


def show(runs: Sequence[Path], *, form: Format = "table", by_class: bool = False, output: Path | None = None) -> None:
    """Write the comparison of runs to the terminal or a file."""
    from ..console import write_result
    from ..report.formats import to_csv, to_latex, to_markdown
    from ..report.results import group_results, load_result
    from ..report.tables import comparison, per_class

    groups = group_results(load_result(run) for run in runs)
    table = per_class(groups) if by_class else comparison(groups)
    if form == "table" and output is None:
        write_result(table)
        return
    text = {"table": to_markdown, "markdown": to_markdown, "csv": to_csv, "latex": to_latex}[form](table)
    if output is None:
        write_result(text.rstrip("\n"))
        return
    try:
        output.write_text(text)
    except OSError as error:
        raise RunError(f"cannot write {output} ({error.strerror})") from error

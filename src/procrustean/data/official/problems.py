"""Everything that is wrong with a data set, counted and told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from procrustean.data.official.listing import KINDS, Listing, Problem
from procrustean.data.official.published_counts import Known

SHOWN = 5


def count_problems(listing: Listing, known: Known) -> Iterator[Problem]:
    """Where the images that a layout names are not as many as the published ones."""
    for split, expected in known.per_class.items():
        found = listing.listed[split]
        if len(found) != len(expected):
            yield Problem("count", split, f"{len(found)} classes, {len(expected)} expected")
            continue
        for label, (number, wanted) in enumerate(zip(found.tolist(), expected, strict=True)):
            if number != wanted:
                yield Problem("count", f"{split}, class {listing.classes[label]}", f"{number} images, not {wanted}")
    for split, total in known.totals.items():
        number = int(listing.listed[split].sum())
        if number != total:
            yield Problem("count", split, f"{number:,} images, {total:,} expected")


def told(problems: Sequence[Problem], shown: int = SHOWN) -> list[str]:
    """Some lines for people: each kind with its number and its first cases."""
    lines = []
    for kind in KINDS:
        cases = [problem for problem in problems if problem.kind == kind]
        if not cases:
            continue
        lines.append(f"{kind}: {len(cases):,}")
        lines += [f"  {_case(problem)}" for problem in cases[:shown]]
        if len(cases) > shown:
            lines.append(f"  and {len(cases) - shown:,} more")
    return lines


def write_list(problems: Sequence[Problem], path: Path) -> None:
    """All problems, one a line; what is no text in the name of a file is written as its bytes, \\udcff for ff."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{problem.kind}: {_case(problem)}\n" for problem in problems)
    path.write_text(lines, encoding="utf-8", errors="backslashreplace")


def _case(problem: Problem) -> str:
    return f"{problem.where} ({problem.text})" if problem.text else problem.where

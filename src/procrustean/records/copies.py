"""Copies of one result: the folder of a run, and what was kept of it elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from procrustean.records.finding_runs import CONFIG_FILE
from procrustean.records.identity import comparable, setting_of
from procrustean.records.run_record import Result

#: The parts of a record that were measured. Others, such as the command that is added to a copy, may differ.
MEASURED = ("selections", "curves", "probes")


def without_copies(results: Iterable[Result], say: Callable[[str], None]) -> list[Result]:
    """Each run once, where several files say the same about it; records of one run that differ are all left.

    Of equal ones that of a run directory is taken, where networks and what was diagnosed are found.

    Args:
        results: loaded from files.
        say: told in one line how many copies were passed over.
    """
    kept: dict[str, Result] = {}
    passed_over = []
    for result in results:
        content = comparable(
            [setting_of(result), result.repeat, {name: getattr(result.record, name) for name in MEASURED}],
        )
        known = kept.setdefault(content, result)
        if known.path == result.path:
            continue
        if _in_run_directory(result) and not _in_run_directory(known):
            kept[content], result = result, known
        passed_over.append(result)
    if passed_over:
        copies = "1 copy" if len(passed_over) == 1 else f"{len(passed_over)} copies"
        say(f"passed over {copies} of results that are here twice and say the same, for example {passed_over[0].path}")
    return list(kept.values())


def _in_run_directory(result: Result) -> bool:
    return result.path is not None and (result.path.parent / CONFIG_FILE).exists()

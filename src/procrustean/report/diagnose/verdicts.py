"""What the curves of runs say in words beside those of others: of a run, and of its repeats together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from procrustean.base.table_formats import Statistic, measured_cell
from procrustean.records.class_curves import Curves, common_epochs, curves_of, mean_curves
from procrustean.records.groups import Group, group_results
from procrustean.records.identity import comparable, setting_of
from procrustean.records.run_record import Result
from procrustean.report.diagnose.findings import ENOUGH, Finding, verdict

#: Groups and what they are called.
Rivals = Sequence[tuple[str, Group]]
#: The first finding of each of these is shown, what else there is can be unfolded. That a run goes on, or was measured
#: too seldom, comes before how its classes fared.
WEIGHTIEST = ({"measured", "progress"}, {"fit"}, {"suggestion"})


def repeats_of(results: Sequence[Result]) -> list[Group]:
    """The groups of several runs among them that can be judged together.

    Args:
        results: finished runs with what was measured of them; of those with the same settings and seeds the first
            counts.
    """
    once: dict[tuple[str, object], Result] = {}
    for result in results:
        once.setdefault((comparable(setting_of(result)), result.repeat), result)
    groups = group_results(once.values())
    return [
        group
        for group in groups
        if len(group.results) > 1 and judged_together([curves_of(result) for result in group.results])
    ]


def judged_together(runs: Sequence[Curves]) -> bool:
    """Whether the mean of several runs tells as much as they do.

    It has only the epochs that all of them have measured. Where these are few, and not all that there are, a verdict on
    the mean would say that too little was measured of runs that were measured well.
    """
    common = common_epochs(runs)
    return len(common) >= ENOUGH or all(curves.at == common for curves in runs)


def verdicts_of(group: Group, rivals: Rivals) -> list[dict[str, Any]]:
    """The weightiest sentences about the mean of a group's runs and about each of those that have them, and the others.

    Args:
        group: the runs.
        rivals: the groups on the same data that are on the page, and what they are called there.
    """
    told: list[tuple[tuple[int, ...], list[str], list[str]]]
    told = [((result.repeat[0],), *_sentences(result, group, rivals)) for result in group.results]
    if (together := _together(group, rivals)) is not None:
        told.insert(0, (group.seeds, *together))
    return [{"seeds": list(seeds), "sentences": first, "more": more} for seeds, first, more in told if first]


def _together(group: Group, rivals: Rivals) -> tuple[list[str], list[str]] | None:
    """What is said of the mean of runs that were all measured, at the same epochs: of a single one it may be chance."""
    if len(group.results) < 2 or any(result.record.probes is None for result in group.results):
        return None
    from procrustean.records.class_curves import curves_of
    from procrustean.report.diagnose.verdicts import judged_together

    runs = [curves_of(result) for result in group.results]
    return _by_weight(mean_curves(runs), group, rivals) if judged_together(runs) else None


def _sentences(result: Result, group: Group, rivals: Rivals) -> tuple[list[str], list[str]]:
    """The weightiest and the others, from what was measured."""
    if result.record.probes is None:
        return [], []
    return _by_weight(curves_of(result), group, rivals)


def _by_weight(curves: Curves, group: Group, rivals: Rivals) -> tuple[list[str], list[str]]:
    findings = verdict(curves)
    first = [next((f for f in findings if f.topic in topics), None) for topics in WEIGHTIEST]
    parts = [f for f in findings if f in first], [f for f in findings if f not in first]
    weightiest, others = ([_text(finding, group, rivals) for finding in part] for part in parts)
    return weightiest, others


def _text(finding: Finding, group: Group, rivals: Rivals) -> str:
    """A finding in words; one that recommends what is on the page says how that has done there."""
    own = group.statistic("headline")
    wanted: tuple[str, bool] | None = finding.numbers.get("tries")
    tried = [
        (label, rival, statistic)
        for label, rival in rivals
        if wanted is not None and rival is not group and _is(rival, *wanted)
        if (statistic := rival.statistic("headline")) is not None
    ]
    if not tried or own is None:
        return finding.text
    results = ", ".join(f"{label} {_shown(statistic, rival)}" for label, rival, statistic in tried)
    compared = f"{results} against {_shown(own, group)}."
    if any(_points(statistic) > _points(own) for _, _, statistic in tried):
        return f"{finding.text} On this page: {compared}"
    return f"{finding.numbers['why']} What would be advised against it is on this page, and no better: {compared}"


def _is(group: Group, method: str, drw: bool) -> bool:
    """Whether a group is of a method, with deferred re-weighting if that belongs to it."""
    trained = group.results[0].record.method
    deferred = group.config.drw or trained.options.get("drw")
    return bool(trained.name == method and (deferred or not drw))


def _points(statistic: Statistic) -> float:
    """In percent as tables show it."""
    return round(100 * statistic.mean, 1)


def _shown(statistic: Statistic, group: Group) -> str:
    return measured_cell(statistic, runs=len(group.results)).text

"""What the measurements of a run say about its classes, one sentence each with its numbers, and what to try next."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from procrustean.base.table_formats import Statistic, measured_cell
from procrustean.records.class_curves import Curves, Rows, common_epochs, curves_of, mean_curves
from procrustean.records.class_curves import Finding as Finding
from procrustean.records.groups import Group, group_results
from procrustean.records.identity import comparable, setting_of
from procrustean.records.run_record import Result
from procrustean.report.curves import epochs_text
from procrustean.runs.method_advice import advised

#: Measured epochs from which on it can be told when something happened.
ENOUGH = 5
#: A class is behind while its training accuracy is this far below that of the major classes.
BEHIND = 0.2
#: The minor classes together lag if their mean is this far below that of the major ones; single classes prove nothing.
LAG = 0.1
#: Shares and ratios from which something is worth a suggestion.
LATE, DRIFT, FITTED, OVER_FITTED = 0.25, 1.5, 0.9, 0.1
#: Classes that are named in a sentence.
NAMED = 5

Mask = npt.NDArray[np.bool_]
#: The numbers of findings, by topic.
Found = Mapping[str, Mapping[str, Any]]
#: Groups and what they are called.
Rivals = Sequence[tuple[str, Group]]
#: The first finding of each of these is shown on a page, what else there is can be unfolded. That a run goes on, or was
#: measured too seldom, comes before how its classes fared.
WEIGHTIEST = ({"measured", "progress"}, {"fit"}, {"suggestion"})


def verdict(curves: Curves) -> list[Finding]:
    """What the curves show, one finding per topic, of gradients one per layer, then what they suggest."""
    major, minor = curves.groups
    if not minor.any():
        text = f"All {len(curves.counts)} classes have about {curves.counts[0]} images: nothing is minor here."
        return [Finding("progress", text, {"minor_classes": 0})]
    found = [
        _progress(curves, major, minor),
        _ratio(curves),
        *(_gradients(curves, layer, major, minor) for layer in dict.fromkeys(curves.layers)),
        _deviation(curves, major, minor),
        _fit(curves, major, minor),
    ]
    if not curves.ended:
        return [_measured(curves), *found]
    measured = [_measured(curves)] if _few_measured(curves) else []
    return [*measured, *found, *_suggestions(curves, {finding.topic: finding.numbers for finding in found})]


def group_mean(rows: Rows, group: Mask) -> npt.NDArray[np.float64]:
    """Mean over the classes of a group at every epoch, without those that are undefined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is nan, as it should be
        mean: npt.NDArray[np.float64] = np.nanmean(rows[:, group], axis=1)
    return mean


def _few_measured(curves: Curves) -> bool:
    return len(curves.at) < ENOUGH


def _measured(curves: Curves) -> Finding:
    """That the measurements do not tell the whole story."""
    if not curves.ended:
        text = f"The run has not ended: measured up to epoch {curves.at[-1]} of {curves.epochs}, so this is no verdict."
    else:
        text = (
            f"Measured epochs: {len(curves.at)} of {curves.epochs}, too few to tell when classes fall behind or catch "
            f"up: train with --probe-every {max(1, curves.epochs // 10)}."
        )
    return Finding("measured", text, {"epochs": list(curves.at)})


def _progress(curves: Curves, major: Mask, minor: Mask) -> Finding:
    ahead, small = group_mean(curves.train_recall, major), group_mean(curves.train_recall, minor)
    behind = (ahead[:, None] - curves.train_recall > BEHIND) & minor
    ever, at_last = behind.any(0), behind[-1]
    widest = int(np.nanargmax(ahead - small))
    caught = {
        curves.classes[c]: curves.at[int(np.flatnonzero(behind[:, c])[-1]) + 1] for c in np.flatnonzero(ever & ~at_last)
    }
    still = [curves.classes[c] for c in np.flatnonzero(at_last)]
    numbers: dict[str, Any] = {
        "minor_classes": int(minor.sum()),
        "under_fitted": int(ever.sum()),
        "widest_gap_epoch": curves.at[widest],
        "major_then": float(ahead[widest]),
        "minor_then": float(small[widest]),
        "major_last": float(ahead[-1]),
        "caught_up": caught,
        "still_behind": still,
    }
    named = f" ({', '.join(map(repr, still[:NAMED]))}{', ...' * (len(still) > NAMED)})" * bool(still)
    text = (
        f"Training accuracy: of {minor.sum()} minor classes {ever.sum()} under-fitted at some time (more than "
        f"{100 * BEHIND:.0f} points below the major ones), {len(still)} after epoch {curves.at[-1]}{named}. The gap is "
        f"widest after epoch {curves.at[widest]}: {_percent(small[widest])} against {_percent(ahead[widest])}."
    )
    if caught:
        text += f" The last to catch up have done so by epoch {max(caught.values())} of {curves.epochs}."
    return Finding("progress", text, numbers)


def _ratio(curves: Curves) -> Finding:
    largest, smallest = curves.extremes
    first, last = curves.classification_ratio[0], curves.classification_ratio[-1]
    numbers = {
        "epoch": curves.at[0],
        "largest_then": float(first[largest]),
        "smallest_then": float(first[smallest]),
        "largest_last": float(last[largest]),
        "smallest_last": float(last[smallest]),
    }
    classes = ", ".join(
        f"{curves.classes[c]!r} ({curves.counts[c]} images) {_ends(curves.classification_ratio[:, c], _percent)}"
        for c in (largest, smallest)
    )
    return Finding("ratio", f"Classification ratio (100 % is balanced) {_when(curves)}: {classes}.", numbers)


def _when(curves: Curves) -> str:
    """The first and the last measured epoch in words."""
    return f"after epoch{'s' * (len(curves.at) > 1)} {_ends(np.array(curves.at), str)}"


def _ends(values: npt.NDArray[Any], shown: Any) -> str:
    """The first and the last of the values; of a single one that one."""
    return " and ".join(map(shown, values[[0, -1]] if len(values) > 1 else values))


def _gradients(whole: Curves, layer: str, major: Mask, minor: Mask) -> Finding:
    """How hard classes are pulled at a layer, in the epochs measured there: lengths at two layers do not compare."""
    curves = whole.at_layer(layer)

    def ratio(rows: Rows) -> npt.NDArray[np.float64]:
        large, small = group_mean(rows, major), group_mean(rows, minor)
        return small / np.maximum(large, np.finfo(np.float64).tiny)

    trained = curves.gradient_norm_trained
    ratios = ratio(trained)
    peak = int(np.nanargmax(group_mean(trained, minor)))
    numbers: dict[str, Any] = {
        "layer": layer,
        "epochs": list(curves.at),
        "epoch": curves.at[peak],
        "major_then": float(group_mean(trained, major)[peak]),
        "minor_then": float(group_mean(trained, minor)[peak]),
        "ratio_then": float(ratios[peak]),
        "ratio_last": float(ratios[-1]),
        "unmixed_ratio_then": float(ratio(curves.gradient_norm)[peak]),
    }
    text = (
        f"Length of the loss gradient at {layer} ({epochs_text(curves.at)}), longest after epoch {curves.at[peak]}: "
        f"minor classes {numbers['minor_then']:.3g}, major ones {numbers['major_then']:.3g}, a ratio of "
        f"{ratios[peak]:.1f}; after epoch {curves.at[-1]} it is {ratios[-1]:.1f}."
    )
    if curves.mixes[peak]:
        text += f" Without the mixing the same weights would give {numbers['unmixed_ratio_then']:.1f}."
    return Finding("gradients", text, numbers)


def _deviation(curves: Curves, major: Mask, minor: Mask) -> Finding:
    large, small = (group_mean(curves.feature_deviation, group) for group in (major, minor))
    ratio = float(small[-1] / max(large[-1], np.finfo(np.float64).tiny))
    numbers = {
        "epoch": curves.at[0],
        "major_first": float(large[0]),
        "minor_first": float(small[0]),
        "major_last": float(large[-1]),
        "minor_last": float(small[-1]),
        "ratio": ratio,
    }
    if np.isnan(ratio):
        group = "minor" if np.isnan(small[-1]) else "major"
        text = f"How far features drift cannot be compared: there are no test images of the {group} classes."
    else:
        text = (
            f"Distance between training and test features (of unit length) {_when(curves)}: minor classes "
            f"{_ends(small, '{:.2f}'.format)}, major ones {_ends(large, '{:.2f}'.format)}: {ratio:.1f} times as far."
        )
    return Finding("deviation", text, numbers)


def _fit(curves: Curves, major: Mask, minor: Mask) -> Finding:
    numbers = {
        f"{name}_{split}": float(group_mean(rows, group)[-1])
        for name, group in (("major", major), ("minor", minor))
        for split, rows in (("train", curves.train_recall), ("test", curves.test_recall))
    }
    text = (
        f"After epoch {curves.at[-1]} the minor classes have {_percent(numbers['minor_train'])} training and "
        f"{_percent(numbers['minor_test'])} test accuracy, the major ones {_percent(numbers['major_train'])} and "
        f"{_percent(numbers['major_test'])}."
    )
    return Finding("fit", text, numbers)


def _percent(value: float) -> str:
    return "an unknown" if np.isnan(value) else f"{100 * value:.1f} %"


def _suggestions(curves: Curves, found: Found) -> list[Finding]:
    """More epochs, the method that is advised for such counts, or another alpha; each is a guess, not a promise.

    That something is wrong follows from the paper's argument: classes that are fitted late are then pushed too far
    (feature deviation). Which method to try against it is what did best where classes were like these.
    """
    fitted, drift = found["fit"]["major_train"], found["deviation"]["ratio"]
    alpha, made = curves.options.get("alpha"), []
    now = f"alpha (now {'the default' if alpha is None else f'{alpha:g}'})"
    if fitted < FITTED:
        change = f", or a smaller {now}" if curves.method == "mfw" else ""
        text = f"Even the major classes end at {_percent(fitted)} training accuracy: try more epochs than "
        made.append(Finding("suggestion", f"{text}{curves.epochs}{change}."))
    if reasons := _reasons(curves, found):
        made.append(_another_method(curves, " ".join(reasons)))
    if curves.method == "mfw" and drift > DRIFT and fitted >= FITTED:
        text = f"The features still drift: try a larger {now}, chosen on held-out images (--hold-out 3)."
        made.append(Finding("suggestion", text))
    nothing = "Nothing stands out that more epochs, another method or alpha would be expected to mend."
    return made or [Finding("suggestion", nothing)]


def _reasons(curves: Curves, found: Found) -> list[str]:
    """How the minor classes are trained otherwise than the major ones, in sentences."""
    progress, fit, drift = found["progress"], found["fit"], found["deviation"]["ratio"]
    late = max(progress["caught_up"].values(), default=0) / curves.epochs
    lost, major_lost = (fit[f"{group}_train"] - fit[f"{group}_test"] for group in ("minor", "major"))
    lagging = fit["major_train"] - fit["minor_train"] > LAG
    lagged = progress["major_then"] - progress["minor_then"] > LAG
    reasons = []
    if progress["still_behind"] and lagging:
        reasons.append("Minor classes have not caught up by the end.")
    elif not progress["still_behind"] and late > LATE and lagged and not _few_measured(curves):
        reasons.append(f"The minor classes need {100 * late:.0f} % of the training to catch up.")
    if drift > DRIFT:
        reasons.append(f"Test features of the minor classes drift {drift:.1f} times as far as those of the major ones.")
    if lost > major_lost + OVER_FITTED:
        whose = f"the minor classes lose {100 * lost:.0f} points, the major ones {100 * major_lost:.0f}"
        reasons.append(f"From training to test images {whose}.")
    return reasons


def _another_method(curves: Curves, why: str) -> Finding:
    """What the measurements advise for these counts; that it is that already, where it is."""
    advice = advised(curves.counts)
    choice = advice.choice
    named = f"{choice.method}{' --drw' * choice.drw}"
    if (choice.method, choice.drw) == (curves.method, bool(curves.options.get("drw"))):
        return Finding("suggestion", f"{why} The method is the one advised for these counts: {named}, {advice.why}.")
    return Finding("suggestion", f"{why} Try --method {named}, {advice.why}.", {"tries": [choice.method, choice.drw]})


def repeats_of(results: Sequence[Result]) -> list[Group]:
    """The groups of several runs that can be judged together; of runs with the same settings and seeds one counts."""
    once: dict[tuple[str, object], Result] = {}
    for result in results:
        once.setdefault((comparable(setting_of(result)), result.repeat), result)
    groups = group_results(once.values())
    return [group for group in groups if len(group.results) > 1 and _mean_of(group) is not None]


def _mean_of(group: Group) -> Curves | None:
    """The mean of the runs of a group; None where it does not tell as much as they do.

    It has only the epochs that all of them have measured. Where these are few, and not all that there are, a verdict on
    the mean would say that too little was measured of runs that were measured well.
    """
    runs = [curves_of(result) for result in group.results]
    common = common_epochs(runs)
    enough = len(common) >= ENOUGH or all(curves.at == common for curves in runs)
    return mean_curves(runs) if enough else None


def verdicts_of(group: Group, rivals: Rivals) -> list[dict[str, Any]]:
    """The weightiest sentences, and the others, about the mean of a group's runs and about each of them."""
    measured = [result for result in group.results if result.record.probes is not None]
    told = [([result.repeat[0]], curves_of(result)) for result in measured]
    # What is said of a single run may be chance, so the mean stands first, of runs that were all measured.
    if len(told) == len(group.results) > 1 and (mean := _mean_of(group)) is not None:
        told.insert(0, (list(group.seeds), mean))
    return [{"seeds": seeds, **_by_weight(curves, group, rivals)} for seeds, curves in told]


def _by_weight(curves: Curves, group: Group, rivals: Rivals) -> dict[str, list[str]]:
    findings = verdict(curves)
    first = [next((f for f in findings if f.topic in topics), None) for topics in WEIGHTIEST]
    return {
        "sentences": [_text(finding, group, rivals) for finding in findings if finding in first],
        "more": [_text(finding, group, rivals) for finding in findings if finding not in first],
    }


def _text(finding: Finding, group: Group, rivals: Rivals) -> str:
    """A finding in words; one that recommends what is on the page says how that has done there."""
    own = group.statistic("headline")
    tried = [
        f"{label} {_shown(statistic, rival)}"
        for label, rival in rivals
        if rival is not group and _is(rival, finding.numbers.get("tries"))
        if (statistic := rival.statistic("headline")) is not None
    ]
    if not tried or own is None:
        return finding.text
    return f"{finding.text} On this page: {', '.join(tried)} against {_shown(own, group)}."


def _is(group: Group, tries: Sequence[Any] | None) -> bool:
    """Whether a group is of a suggested method, with deferred re-weighting if that belongs to it."""
    if tries is None:
        return False
    method, drw = tries
    trained = group.results[0].record.method
    return bool(trained.name == method and (group.config.drw or trained.options.get("drw") or not drw))


def _shown(statistic: Statistic, group: Group) -> str:
    return measured_cell(statistic, runs=len(group.results)).text

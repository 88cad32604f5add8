"""What to try next, from what was found. Each suggestion gives its reason in numbers; it is a guess, not a promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .curves import Curves

#: A class is under-fitted while its training accuracy is this far below that of the major classes.
BEHIND = 0.2
#: The minor classes together lag if their mean is this far below that of the major ones; single classes prove nothing.
LAG = 0.1
#: Shares and ratios from which something is worth a suggestion.
LATE, DRIFT, UNFITTED, GAP, OVER_FITTED = 0.25, 1.5, 0.9, 0.25, 0.1


def suggestions(curves: Curves, found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What the findings, by topic, suggest; one sentence each.

    The rules are those of the paper's argument: classes that are fitted late are then pushed too far (feature
    deviation), and weakening the features of the major classes evens both out.
    """
    if not curves.ended:
        return ["Let it train to its end before anything is changed: `procrustean resume` goes on with a run."]
    progress, deviation, fit = found["progress"], found["deviation"], found["fit"]
    weakening, deferrable = curves.method == "mfw", _deferrable(curves)
    drift = deviation["ratio"]
    unfitted_major = fit["major_train"] < UNFITTED
    lagging = fit["major_train"] - fit["minor_train"] > LAG
    texts = []
    if progress["still_behind"] and not unfitted_major:
        texts.append(_behind(curves, progress["still_behind"], fit, lagging=lagging))
    if unfitted_major:
        change = f", or a smaller alpha (now {_alpha(curves)})" if weakening else ""
        texts.append(
            f"Even the major classes end at {100 * fit['major_train']:.1f} % training accuracy: try more epochs than "
            f"{curves.epochs}{change}."
        )
    reasons = []
    if lagging and progress["still_behind"]:
        reasons.append("minor classes have not caught up by the end")
    elif (late := _late(progress)) is not None:
        reasons.append(f"the minor classes need {100 * late:.0f} % of the training to catch up")
    if drift > DRIFT:
        reasons.append(f"their test features drift {drift:.1f} times as far as those of the major classes")
    if reasons and not weakening:
        texts.append(f"Try --method mfw, which evens out the training progress: {' and '.join(reasons)}.")
    elif drift > DRIFT and weakening and not unfitted_major:
        texts.append(
            f"Test features of the minor classes still drift {drift:.1f} times as far: try a larger alpha (now "
            f"{_alpha(curves)}; step imbalance prefers it){', --drw' * deferrable} or another layer (--options "
            f"layer=..., now {curves.layer}); choose among them on held-out images (--hold-out 3)."
        )
    gap = fit["major_train"] - fit["major_test"]
    over_fitted = _over_fitted(curves, fit["major_train"], gap)
    if over_fitted is not None:
        texts.append(
            f"{over_fitted}. Try another method, for example {_others(curves)}; docs/which-method.md has what did best "
            "where."
        )
    if gap > GAP:
        texts.append(
            f"Even the major classes lose {100 * gap:.0f} points from training to test images: more images or "
            "regularisation would help all classes, which balancing cannot."
        )
    return texts or ["Nothing stands out that another method, alpha or layer would be expected to mend."]


def _late(progress: Mapping[str, Any]) -> float | None:
    """The share of the training after which the minor classes have caught up, if it is large and known."""
    share = progress["share_of_training"]
    lagged = progress["major_then"] - progress["minor_then"] > LAG
    return share if share is not None and share > LATE and lagged and not progress["still_behind"] else None


def _behind(curves: Curves, classes: Sequence[str], fit: Mapping[str, Any], *, lagging: bool) -> str:
    """What to try for classes that are under-fitted at the end: of all minor ones, or of single ones among them."""
    who = "1 class is" if len(classes) == 1 else f"{len(classes)} classes are"
    text = f"{who} still under-fitted after {curves.epochs} epochs although"
    if lagging:
        remedy = "try deferred re-weighting (--drw), or more epochs" if _deferrable(curves) else "try more epochs"
        return f"{text} the major ones are at {100 * fit['major_train']:.1f} %: {remedy}."
    return (
        f"{text} the minor ones together are at {100 * fit['minor_train']:.1f} %, the major ones at "
        f"{100 * fit['major_train']:.1f} %: the sizes of the classes alone do not explain it, so look at the images of "
        f"{', '.join(map(repr, classes[:5]))}."
    )


def _over_fitted(curves: Curves, major_train: float, major_lost: float) -> str | None:
    """How the minor classes are over-fitted, if they are: of those alone that have been learnt at all."""
    minor = curves.groups[1]
    learnt = minor & (curves.train_recall[-1] >= major_train - BEHIND)
    lost = (curves.train_recall[-1] - curves.test_recall[-1])[learnt]
    mean = float(lost[lost == lost].mean()) if (lost == lost).any() else 0.0  # nan: no test images
    if not (mean > OVER_FITTED and mean > major_lost + OVER_FITTED):
        return None
    whole = learnt.sum() == minor.sum()
    who = "The minor classes" if whole else f"Minor classes that are fitted ({learnt.sum()} of {minor.sum()})"
    return (
        f"{who} are over-fitted: they lose {100 * mean:.0f} points from training to test images, the major ones "
        f"{100 * major_lost:.0f}"
    )


def _deferrable(curves: Curves) -> bool:
    """Whether the method takes --drw and was trained without; records have every option that a method takes."""
    return curves.options.get("drw") is False


def _others(curves: Curves) -> str:
    """Methods that do well against over-fitted minor classes, but for the one that was trained."""
    names = {"ldam": "ldam with --drw", "balanced_softmax": "balanced_softmax"}
    return " or ".join(text for name, text in names.items() if name != curves.method)


def _alpha(curves: Curves) -> str:
    alpha = curves.options.get("alpha")
    return "the default" if alpha is None else f"{alpha:g}"

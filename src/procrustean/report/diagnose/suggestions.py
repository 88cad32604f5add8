"""What to try next, from what was found. Each suggestion gives its reason in numbers; it is a guess, not a promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from procrustean.records.class_curves import Curves
from procrustean.runs.method_advice import advised

#: A class is under-fitted while its training accuracy is this far below that of the major classes.
BEHIND = 0.2
#: The minor classes together lag if their mean is this far below that of the major ones; single classes prove nothing.
LAG = 0.1
#: Shares and ratios from which something is worth a suggestion.
LATE, DRIFT, UNFITTED, GAP, OVER_FITTED = 0.25, 1.5, 0.9, 0.25, 0.1


@dataclass(frozen=True)
class Suggestion:
    """What to try, and why."""

    text: str
    why: str = ""  # the reason alone, as a sentence, for a reader who sees beside it what came of trying
    tries: tuple[str, bool] | None = None  # a method, and whether with deferred re-weighting

    @property
    def numbers(self) -> dict[str, Any]:
        """Both as part of a finding."""
        return {"why": self.why, "tries": list(self.tries)} if self.tries else {}


def suggestions(curves: Curves, found: Mapping[str, Mapping[str, Any]]) -> list[Suggestion]:
    """What the findings, by topic, suggest; one sentence each.

    That something is wrong follows from the paper's argument: classes that are fitted late are then pushed too far
    (feature deviation). Which method to try against it is what did best where classes were like these.
    """
    if not curves.ended:
        return [
            Suggestion("Let it train to its end before anything is changed: `procrustean resume` goes on with a run.")
        ]
    progress, deviation, fit = found["progress"], found["deviation"], found["fit"]
    weakening, deferrable = curves.method == "mfw", _deferrable(curves)
    drift = deviation["ratio"]
    unfitted_major = fit["major_train"] < UNFITTED
    lagging = fit["major_train"] - fit["minor_train"] > LAG
    made = []
    if progress["still_behind"] and not unfitted_major:
        made.append(_behind(curves, progress["still_behind"], fit, lagging=lagging))
    if unfitted_major:
        change = f", or a smaller alpha (now {_alpha(curves)})" if weakening else ""
        made.append(
            Suggestion(
                f"Even the major classes end at {100 * fit['major_train']:.1f} % training accuracy: try more epochs "
                f"than {curves.epochs}{change}."
            )
        )
    gap = fit["major_train"] - fit["major_test"]
    reasons = _uneven(progress, drift, lagging=lagging)
    if (over_fitted := _over_fitted(curves, fit["major_train"], gap)) is not None:
        reasons.append(over_fitted)
    if reasons:
        made.append(_another_method(curves, " ".join(reasons)))
    if drift > DRIFT and weakening and not unfitted_major:
        made.append(
            Suggestion(
                f"Test features of the minor classes still drift {drift:.1f} times as far: try a larger alpha (now "
                f"{_alpha(curves)}; step imbalance prefers it){', --drw' * deferrable} or another layer (--options "
                f"layer=..., now {curves.layers[-1]}); choose among them on held-out images (--hold-out 3)."
            )
        )
    if gap > GAP:
        made.append(
            Suggestion(
                f"Even the major classes lose {100 * gap:.0f} points from training to test images: more images or "
                "regularisation would help all classes, which balancing cannot."
            )
        )
    return made or [Suggestion("Nothing stands out that another method, alpha or layer would be expected to mend.")]


def _uneven(progress: Mapping[str, Any], drift: float, *, lagging: bool) -> list[str]:
    """How the minor classes are trained otherwise than the major ones, as a sentence; nothing where they are not."""
    seen = []
    if lagging and progress["still_behind"]:
        seen.append("minor classes have not caught up by the end")
    elif (late := _late(progress)) is not None:
        seen.append(f"the minor classes need {100 * late:.0f} % of the training to catch up")
    if drift > DRIFT:
        whose = "their test features" if seen else "test features of the minor classes"
        seen.append(f"{whose} drift {drift:.1f} times as far as those of the major classes")
    text = " and ".join(seen)
    return [f"{text[0].upper()}{text[1:]}."] if text else []


def _another_method(curves: Curves, why: str) -> Suggestion:
    """What the measurements advise for these counts; that it is that already, where it is."""
    advice = advised(curves.counts)
    choice = advice.choice
    named = f"{choice.method}{' --drw' * choice.drw}"
    if (choice.method, choice.drw) == (curves.method, bool(curves.options.get("drw"))):
        return Suggestion(f"{why} The method is the one that is advised for these counts: {named}, {advice.why}.")
    return Suggestion(f"{why} Try --method {named}, {advice.why}.", why, (choice.method, choice.drw))


def _late(progress: Mapping[str, Any]) -> float | None:
    """The share of the training after which the minor classes have caught up, if it is large and known."""
    share = progress["share_of_training"]
    lagged = progress["major_then"] - progress["minor_then"] > LAG
    return share if share is not None and share > LATE and lagged and not progress["still_behind"] else None


def _behind(curves: Curves, classes: Sequence[str], fit: Mapping[str, Any], *, lagging: bool) -> Suggestion:
    """What to try for classes that are under-fitted at the end: of all minor ones, or of single ones among them."""
    who = "1 class is" if len(classes) == 1 else f"{len(classes)} classes are"
    text = f"{who} still under-fitted after {curves.epochs} epochs although"
    if lagging:
        seen = f"{text} the major ones are at {100 * fit['major_train']:.1f} %"
        if not _deferrable(curves):
            return Suggestion(f"{seen}: try more epochs.")
        return Suggestion(
            f"{seen}: try deferred re-weighting (--drw), or more epochs.",
            f"{seen}: try more epochs.",
            (curves.method, True),
        )
    return Suggestion(
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
        f"{100 * major_lost:.0f}."
    )


def _deferrable(curves: Curves) -> bool:
    """Whether the method takes --drw and was trained without; records have every option that a method takes."""
    return curves.options.get("drw") is False


def _alpha(curves: Curves) -> str:
    alpha = curves.options.get("alpha")
    return "the default" if alpha is None else f"{alpha:g}"

"""The statements of the paper about its figures, and how each is measured and judged."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from procrustean.base.table_formats import NOTHING
from procrustean.records.class_curves import Curves, curves_of
from procrustean.records.groups import METRICS
from procrustean.records.run_record import Result, Selection

Setting = Literal["long_tailed", "step", "toy"]
#: Decides from the values of ERM and MFW whether a claim was seen; nan for one that the claim is not about.
Judge = Callable[[float, float], bool]


@dataclass(frozen=True)
class Claim:
    """One statement of the paper and how it is judged."""

    place: str  # in the paper
    text: str
    measured: str
    setting: Setting
    of: Callable[[Result], float | None]
    seen: Judge
    form: str = ".1f"
    methods: tuple[str, ...] = ("erm", "mfw")
    published: str = NOTHING


def _of_curves(measure: Callable[[Curves], float]) -> Callable[[Result], float | None]:
    """The same of a run; None of one that was not measured on its way."""
    return lambda result: None if result.record.probes is None else measure(curves_of(result))


def _gap(name: str) -> Callable[[Curves], float]:
    """Mean over the epochs of the distance between the largest and the smallest class, in points."""

    def measure(curves: Curves) -> float:
        largest, smallest = curves.extremes
        rows = getattr(curves, name)
        return 100 * float(np.abs(rows[:, largest] - rows[:, smallest]).mean())

    return measure


def _early(name: str, rank: int) -> Callable[[Curves], float]:
    """The value of the largest (0) or smallest (1) class after about a tenth of the training, in %."""

    def measure(curves: Curves) -> float:
        row = int(np.abs(np.array(curves.at) - curves.epochs / 10).argmin())
        return 100 * float(getattr(curves, name)[row, curves.extremes[rank]])

    return measure


def _end_of_smallest(name: str, scale: float = 1.0) -> Callable[[Curves], float]:
    """The value of the smallest class after the last epoch."""
    return lambda curves: scale * float(getattr(curves, name)[-1, curves.extremes[1]])


def _mean_gradient(curves: Curves) -> float:
    return float(curves.gradient_norm_trained[:, curves.extremes[1]].mean())


def _gradient_ratio(curves: Curves) -> float:
    """Gradient norm of the smallest class over that of the largest, each averaged over the epochs."""
    largest, smallest = curves.extremes
    means = curves.gradient_norm_trained.mean(0)
    return float(means[smallest] / means[largest])


def _growth(curves: Curves) -> float:
    deviation = curves.feature_deviation[:, curves.extremes[1]]
    return float(deviation[-1] / deviation[0])


def _accuracy(metric: str, selection: Selection = "last") -> Callable[[Result], float | None]:
    assert metric in METRICS

    def measure(result: Result) -> float | None:
        metrics = result.metrics(selection)
        if metrics is None:
            return None
        # Runs of the toy that hold images out are there for that selection alone.
        if selection != "held_out" and result.config.hold_out:
            return None
        value = metrics.value(metric)
        return None if value is None else 100 * value

    return measure


def _less(erm: float, mfw: float) -> bool:
    return mfw < erm


def _more(erm: float, mfw: float) -> bool:
    return mfw > erm


def _nearer_to_one(erm: float, mfw: float) -> bool:
    """As a factor: a half is as far from it as two."""
    return abs(math.log(mfw)) < abs(math.log(erm))


SELECTIONS: dict[Selection, str] = {
    "last": "last epoch",
    "held_out": "chosen on held-out images",
    "oracle": "best on the test set",
}
KINDS: dict[Setting, str] = {"long_tailed": "long-tailed", "step": "step"}


#: Epochs of ERM in the paper's recipe. MFW has 300: a mean over all of them has more of the end, where all is fitted.
BOTH_HAVE = 200


def _of_both(
    place: str, text: str, measured: str, measure: Callable[[Curves], float], seen: Judge = _less, form: str = ".1f"
) -> list[Claim]:
    """A claim about curves, judged on each kind of imbalance."""
    return [
        Claim(place, f"{text} ({name})", measured, kind, _of_curves(measure), seen, form)
        for kind, name in KINDS.items()
    ]


def _averaged(
    place: str, text: str, measured: str, measure: Callable[[Curves], float], seen: Judge = _less, form: str = ".1f"
) -> list[Claim]:
    """A claim about a mean over the epochs: over all that a method has, and over those that both have."""
    claims = []
    for claim in _of_both(place, text, measured, measure, seen, form):
        shorter = f"{claim.text.removesuffix(')')}, first {BOTH_HAVE} epochs)"
        of = _of_curves(lambda curves: measure(curves.until(BOTH_HAVE)))
        claims += [claim, replace(claim, text=shorter, measured="the same over these epochs, which both have", of=of)]
    return claims


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Fig. 1 a",
        "ERM hardly fits the smallest class in early epochs",
        "training accuracy of the smallest class after 10 % of the epochs, %; seen below 50",
        "long_tailed",
        _of_curves(_early("train_recall", 1)),
        lambda erm, mfw: erm < 50,
        methods=("erm",),
        published="low",
    ),
    Claim(
        "Fig. 1 a",
        "ERM fits the smallest class in the end",
        "its training accuracy after the last epoch, %; seen from 95 on",
        "long_tailed",
        _of_curves(_end_of_smallest("train_recall", 100)),
        lambda erm, mfw: erm >= 95,
        methods=("erm",),
        published="almost 100",
    ),
    Claim(
        "Fig. 1 b",
        "early, ERM classifies too many images into the largest class",
        "its classification ratio after 10 % of the epochs, %; seen above 100",
        "long_tailed",
        _of_curves(_early("classification_ratio", 0)),
        lambda erm, mfw: erm > 100,
        methods=("erm",),
        published="above 100",
    ),
    Claim(
        "Fig. 1 b",
        "and hardly any into the smallest",
        "its classification ratio after 10 % of the epochs, %; seen below 50",
        "long_tailed",
        _of_curves(_early("classification_ratio", 1)),
        lambda erm, mfw: erm < 50,
        methods=("erm",),
        published="about 0",
    ),
    *_averaged(
        "Fig. 3",
        "MFW makes the training progress more equal",
        "distance of the training accuracies of largest and smallest class, mean over the epochs, points",
        _gap("train_recall"),
    ),
    *_averaged(
        "supplement",
        "and the classification ratios",
        "distance of the ratios of largest and smallest class, mean over the epochs, points",
        _gap("classification_ratio"),
    ),
    *_averaged(
        "Fig. 4",
        "MFW decreases the gradient norm of the smallest class",
        "its mean over the epochs, mixed as in training",
        _mean_gradient,
        form=".3g",
    ),
    *_averaged(
        "Fig. 4",
        "and balances the norms across classes",
        "smallest over largest class, each averaged over the epochs; seen if nearer to 1",
        _gradient_ratio,
        _nearer_to_one,
        form=".2f",
    ),
    Claim(
        "Fig. 7",
        "the feature deviation of the smallest class grows along the epochs",
        "last over first measured epoch; seen above 1 for ERM",
        "long_tailed",
        _of_curves(_growth),
        lambda erm, mfw: erm > 1,
        form=".2f",
    ),
    *_of_both(
        "Fig. 7",
        "MFW reduces it",
        "feature deviation of the smallest class after the last epoch",
        _end_of_smallest("feature_deviation"),
        form=".3f",
    ),
    *(
        Claim(
            "supplement",
            f"MFW raises the test accuracy of the minor classes ({name})",
            "mean over them, last epoch, %",
            kind,
            _accuracy("minor"),
            _more,
            published="40 and over 60" if kind == "step" else NOTHING,
        )
        for kind, name in KINDS.items()
    ),
    *(
        Claim(
            "supplement",
            f"with a slight decrease for the major classes ({name})",
            "mean over them, last epoch, %; seen if less than 5 points are lost",
            kind,
            _accuracy("major"),
            lambda erm, mfw: mfw > erm - 5,
        )
        for kind, name in KINDS.items()
    ),
    *(
        Claim(
            "Sec. 4",
            f"MFW is better on the four-class illustration ({shown})",
            f"test accuracy, {shown}{', in runs that hold them out' * (selection == 'held_out')}, %",
            "toy",
            _accuracy("accuracy", selection),
            _more,
            form=".2f",
            published="78.30 and 83.65",
        )
        for selection, shown in SELECTIONS.items()
    ),
)

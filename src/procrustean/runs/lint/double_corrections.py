"""The class sizes are corrected for once: by what is shown, by weights, by the loss, or afterwards."""

from __future__ import annotations

from procrustean.balance.losses import shifts_scores, weights_classes
from procrustean.engine.prepared import (
    Prepared,
)
from procrustean.methods.base import Method, Stage
from procrustean.methods.tau_norm import Rescaling


def corrected_twice(prepared: Prepared) -> list[str]:
    """Stages in which two of sampler, class weights and loss make up for the class sizes."""
    found = []
    for stage in prepared.method.stages:
        active = _within(stage)
        if len(active) > 1:
            found.append(
                f"{prepared.label}, stage {stage.name!r}: {' and '.join(active)}, so that the class sizes are "
                "corrected for twice and large classes suffer; keep one of them"
            )
    return found


def corrections(method: Method) -> list[str]:
    """How a method has made up for the class sizes by the time its network predicts; its last stage decides."""
    stage = method.stages[-1]
    found = _within(stage)
    if stage.extra_from == "meta":
        found.append("a balanced set decides the weights of its samples")
    elif stage.extra is not None:
        found.append("its second stream of images shows small classes more often")
    if isinstance(method.finish, Rescaling) and method.finish.tau != 0:
        found.append("its class vectors are brought to more equal lengths after training")
    return found


def _within(stage: Stage) -> list[str]:
    weighted = getattr(stage.objective, "weight", None) is not None
    in_effect = {
        "its sampler shows small classes more often": stage.sampler is not None,
        "its class weights count small classes more": weighted or weights_classes(stage.objective),
        "its loss shifts the scores by the class sizes": shifts_scores(stage.objective),
    }
    return [what for what, is_there in in_effect.items() if is_there]

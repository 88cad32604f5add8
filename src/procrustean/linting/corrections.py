"""The class sizes are corrected for once: by what is shown, by weights, or by the loss."""

from __future__ import annotations

from ..losses import ClassBalanced
from ..losses.vector_scaling import shifts_scores
from ..preparing import Prepared


def corrected_twice(prepared: Prepared) -> list[str]:
    """Stages in which two of sampler, class weights and loss make up for the class sizes."""
    found = []
    for stage in prepared.method.stages:
        losses = list(stage.objective.modules())
        weighted = getattr(stage.objective, "weight", None) is not None
        corrections = {
            "its sampler shows small classes more often": stage.sampler is not None,
            "its class weights count them more": weighted or any(isinstance(loss, ClassBalanced) for loss in losses),
            "its loss shifts the scores by the class sizes": shifts_scores(stage.objective),
        }
        active = [what for what, is_there in corrections.items() if is_there]
        if len(active) > 1:
            found.append(
                f"{prepared.method.label}, stage {stage.name!r}: {' and '.join(active)}, so that the class sizes are "
                "corrected for twice and large classes suffer; keep one of them"
            )
    return found

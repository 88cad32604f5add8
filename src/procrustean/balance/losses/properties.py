"""What losses and objectives say of the scores that they train: all that uses a network later asks for it here."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn


class States:
    """A loss or an objective; its subclasses state what they do to the scores, as attributes."""

    #: What the scores are multiplied by before the softmax; cosines are multiplied by 10 to 100, as a rule.
    scale: float = 1.0
    #: Whether they are shifted by the class sizes in training alone, so that the plain ones make up for these.
    shifts_scores: bool = False
    #: Whether samples of small classes count more.
    weights_classes: bool = False


def scale_of_scores(objective: nn.Module) -> float:
    """What an objective multiplies the network's scores by before the softmax."""
    return next((part.scale for part in _stating(objective) if part.scale != 1), 1.0)


def shifts_scores(objective: nn.Module) -> bool:
    """Whether an objective trains with scores that are shifted by the class sizes."""
    return any(part.shifts_scores for part in _stating(objective))


def weights_classes(objective: nn.Module) -> bool:
    """Whether samples of small classes count more in the losses of an objective."""
    return any(part.weights_classes for part in _stating(objective))


def _stating(objective: nn.Module) -> Iterator[States]:
    return (module for module in objective.modules() if isinstance(module, States))

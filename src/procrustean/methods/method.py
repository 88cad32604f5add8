"""What a method is: stages of training, and what it changes about the network."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from procrustean.balance.objectives import Objective
from procrustean.base.errors import ConfigError
from procrustean.data.epoch_plan import Sampler
from procrustean.data.recipe import Recipe

if TYPE_CHECKING:
    from procrustean.nets.classifier import Classifier

#: What a stage may change in the recipe. The images, the network and the number of epochs are settled before the first.
CHANGED_IN_STAGES = (
    "batch_size", "lr", "momentum", "nesterov", "weight_decay", "schedule", "milestones", "decay", "warmup_epochs",
)  # fmt: skip


#: Yields (images, labels) of the whole training set, not augmented, in order.
CleanBatches = Callable[[], Iterator[tuple[Tensor, Tensor]]]
#: Balanced accuracy of the network on held-out images, 0 to 1.
Judge = Callable[[], float]


@dataclass(frozen=True)
class Stage:
    """A part of training with its own objective, sampler and trainable part.

    Args:
        objective: what is minimised.
        name: shown in progress and records.
        share: this stage's part of the epochs; the shares of all stages add up to 1.
        sampler: None shuffles the training set, every image once.
        extra: draws a second stream of images, as many as the first, for `batch.extra`.
        extra_from: what the second stream is drawn from, the training images ("train") or a small balanced set
            ("meta"), of images that are not trained on where their class has enough of them.
        meta_per_class: images per class of that set.
        trainable: "all", or the part of the network that learns ("head"), or several, by their paths.
        norm: whether batch normalisation outside the trainable parts follows the batches ("train") or stays ("eval").
        rates: factors of the learning rate by the beginning of a parameter's name ({"head.scale": 0.5}).
        no_decay: beginnings of the names of parameters without weight decay.
        reshape: changes the network before the stage (re-initialise or wrap the head); draws from torch's generator,
            which is seeded for it. It is run again whenever the run is loaded, so it must not read data.
        begin: sets values from the training images before the stage (class means, ...), once; draws from torch's
            generator are seeded for it too.
        recipe: changes to the recipe within this stage, of `CHANGED_IN_STAGES`. Every stage has a schedule of its own
            over its epochs, which begins with the recipe's warm-up.
    """

    objective: Objective
    name: str = "train"
    share: float = 1.0
    sampler: Sampler | None = None
    extra: Sampler | None = None
    extra_from: Literal["train", "meta"] = "train"
    meta_per_class: int = 10
    trainable: str | tuple[str, ...] = "all"
    norm: Literal["train", "eval"] = "train"
    rates: Mapping[str, float] = field(default_factory=dict)
    no_decay: tuple[str, ...] = ()
    reshape: Callable[[Classifier], None] | None = None
    begin: Callable[[Classifier, CleanBatches], None] | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)

    def changed(self, recipe: Recipe) -> Recipe:
        """The recipe within this stage; ConfigError for changes that a stage cannot make."""
        for name in self.recipe:
            if name not in CHANGED_IN_STAGES:
                epochs = "; its part of the epochs is its share" * (name == "epochs")
                raise ConfigError(
                    f"{name!r} received in the recipe of the stage {self.name!r}, where it changes nothing{epochs}; a "
                    f"stage can change {', '.join(CHANGED_IN_STAGES)}"
                )
        return recipe.changed(self.recipe)


@dataclass(frozen=True)
class Method:
    """A complete training method.

    Args:
        stages: trained one after the other.
        label: the name in tables ("LDAM-DRW").
        head: builds the classifier head from (features, classes); None for a linear layer.
        finish: turns the trained network into the one that predicts. It is handed a judge, which gives the balanced
            accuracy on the held-out images of the network as it is then, or None if none are held out; what it
            returns, if anything, goes into the record.
        paper: what the MFW paper changes in its recipe for this method ({"epochs": 300}).
        longer: how many times the recipe's epochs it trains for, where a stage comes on top of a whole training; `own`
            says its epochs itself.
        own: what the method's own publication changes in the recipe (`--recipe own`); None, as where nothing is said,
            if it has nothing on this data set.
        resolved: what it has made of the options that may be left open (None), by name; in words where that is no
            value, or none before it is trained.
    """

    stages: tuple[Stage, ...]
    label: str
    head: Callable[[int, int], nn.Module] | None = None
    finish: Callable[[Classifier, Judge | None], dict[str, Any] | None] | None = None
    paper: Mapping[str, Any] = field(default_factory=dict)
    longer: float = 1.0
    own: Mapping[str, Any] | None = None
    resolved: Mapping[str, int | float | str] = field(default_factory=dict)


def check_shares(made: Method, name: str) -> None:
    """ConfigError for stages that do not share out all epochs, no more and no fewer."""
    shares = [stage.share for stage in made.stages]
    fine = all(isinstance(share, Real) and share > 0 for share in shares)
    if fine and math.isclose(math.fsum(shares), 1, abs_tol=1e-6):
        return
    total = f", which add up to {math.fsum(shares):g}" if fine else ""
    raise ConfigError(
        f"{name}: stages with the shares {' and '.join(map(_shown, shares))} of the epochs received{total}; give each "
        "its part, above 0, so that they add up to 1: Stage(..., share=0.5)"
    )


def _shown(share: object) -> str:
    return f"{share:g}" if isinstance(share, Real) else repr(share)

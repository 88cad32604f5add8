"""From settings to a run that can start: data loaded, method built, every number resolved, everything checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from .config import RunConfig
from .counts import Kind, imbalance_kind
from .data.imageset import Splits
from .data.imbalance import Imbalanced, build
from .data.sources import load_source
from .engine.device import Placement, place
from .engine.engines import Engine, choose_engine
from .engine.images import channel_statistics
from .engine.record import identity_of
from .engine.stages import reshape_for, stage_epochs
from .errors import ConfigError, RunError
from .methods import checked_options, make_method, option_defaults
from .methods.base import Method
from .nets import build_net, check_net, layers_of
from .nets.classifier import Classifier
from .recipes import Recipe, recipe_for
from .types import Problem

#: Networks so small that float32 is faster than bf16 on a CPU.
_SMALL_NETS = ("small",)


@dataclass(frozen=True)
class Prepared:
    """A run whose settings are resolved and whose data are loaded."""

    config: RunConfig
    data: Imbalanced
    splits: Splits
    method: Method
    options: dict[str, Any]
    recipe: Recipe
    placement: Placement
    engine: Engine

    @property
    def name(self) -> str:
        """The run in progress messages; the runs of a grid differ in it."""
        made = "" if self.config.rho is None else f", {self.config.imbalance.replace('_', '-')} {self.config.rho:g}"
        return f"{self.method.label}{made}, seed {self.config.seed}"

    def data_text(self) -> str:
        """What is trained and tested on, in one line, with a warning where a class is hardly tested."""
        counts, tested = self.data.counts, self.data.test.counts
        text = (
            f"{self.splits.name}: {sum(counts)} training images ({max(counts)} to {min(counts)} per class), "
            f"{len(self.data.test)} test images"
        )
        hardly = [name for name, count in zip(self.data.test.classes, tested, strict=True) if count < 5]
        if hardly:
            text += f"; fewer than 5 test images of {', '.join(hardly)}: their results say little"
        return text

    def build_net(self) -> Classifier:
        """The network with its initial weights."""
        return build_net(
            self.recipe.net,
            channels=self.data.train.images.shape[3],
            classes=len(self.data.train.classes),
            seed=self.config.seed,
            head=self.method.head,
        )


def prepare(
    config: RunConfig, *, splits: Splits | None = None, say: Callable[[str], None] = lambda text: None
) -> Prepared:
    """Load the data and resolve every setting; all that can be wrong with them is said here, before training."""
    options = _options(config)
    if config.net is not None:
        check_net(config.net)
    if splits is None:
        splits = load_source(config.source, data_dir=config.data_dir, image_size=config.image_size, say=say)
    if splits.note:
        say(splits.note)
    data = build(
        splits,
        imbalance=config.imbalance,
        rho=config.rho,
        data_seed=config.data_seed,
        hold_out=config.hold_out,
    )
    if data.left_out_classes:
        say(f"classes with too few images to hold any out: {', '.join(data.left_out_classes)}")
    # A folder of the user's that happens to be called cifar10 is not CIFAR-10.
    known = splits.name if splits.name == config.source else ""
    recipe = recipe_for(known)
    layers = layers_of(config.net or recipe.net)
    problem = Problem(
        counts=tuple(int(n) for n in data.counts),
        kind=imbalance_kind([int(n) for n in data.counts]) if data.kind == "natural" else cast(Kind, data.kind),
        source=known,
        layers=layers.groups,
        second_group=layers.second_group,
    )
    method = make_method(config.method, problem, options)
    if config.average != "none" and (len(method.stages) > 1 or method.finish is not None):
        raise ConfigError(
            f"average {config.average!r} received, but {method.label} trains in stages or changes the trained network, "
            "so that an average along the way is none of what it makes; leave --average out"
        )
    recipe = _resolved(recipe, config, method)
    if recipe.mean is None or recipe.std is None:
        mean, std = channel_statistics(data.train)
        recipe = recipe.changed({"mean": mean, "std": std})
    placement = place(config.device, config.precision, small=recipe.net in _SMALL_NETS)
    engine = choose_engine(config.engine, config.kernels, placement, method)
    prepared = Prepared(config, data, splits, method, options, recipe, placement, engine)
    stage_epochs(method, recipe.epochs)  # refuses too few
    _check_batches(recipe, data.train.images.shape, layers_of(recipe.net).shrinks)
    _check_layers(prepared)
    return prepared


def _check_batches(recipe: Recipe, shape: tuple[int, ...], shrinks: int) -> None:
    images, height, width = shape[:3]
    alone = images % min(recipe.batch_size, images) == 1 or images == 1
    if alone and max(height, width) <= shrinks:
        raise ConfigError(
            f"{images} training images in batches of {recipe.batch_size} leave one image of {width} x {height} pixels "
            "alone in a batch, and batch normalisation cannot normalise a single value; choose another --batch-size"
        )


def _check_layers(prepared: Prepared) -> None:
    """Refuse a layer that the network does not have before anything is written."""
    net = prepared.build_net()
    for number, stage in enumerate(prepared.method.stages):
        reshape_for(net, prepared.method, number, prepared.config.seed)
        stage.objective.bind(net)
        stage.objective.unbind()


def recipe_of(config: RunConfig) -> Recipe:
    """The recipe a run will have, as far as it is known without its data; checks method, options and network."""
    # A recipe depends on the data set and the method, not on the counts: any will do.
    problem = Problem(counts=(2, 1), kind="step", source=config.source)
    method = make_method(config.method, problem, _options(config))
    if config.net is not None:
        check_net(config.net)
    return _resolved(recipe_for(config.source), config, method)


def _options(config: RunConfig) -> dict[str, Any]:
    given = checked_options(config.method, {**config.options, **({"drw": True} if config.drw else {})})
    return {**option_defaults(config.method), **given}


def _resolved(recipe: Recipe, config: RunConfig, method: Method) -> Recipe:
    recipe = recipe.changed(method.own if config.recipe == "own" else method.paper)
    chosen = {name: getattr(config, name) for name in ("net", "epochs", "batch_size", "lr", "weight_decay")}
    return recipe.changed({name: value for name, value in chosen.items() if value is not None})


def check_identity(run: Path, identity: Mapping[str, Any], prepared: Prepared, purpose: str = "go on") -> None:
    """Refuse a run whose data, classes or defaults have changed since it began."""
    before, now = _flat(identity), _flat(identity_of(prepared))
    changed = {k: (before.get(k), now.get(k)) for k in {**before, **now} if before.get(k) != now.get(k)}
    if changed:
        listed = "; ".join(f"{k}: {_short(a)} when it began, {_short(b)} now" for k, (a, b) in changed.items())
        raise RunError(f"{run} cannot {purpose}: the data or the library's defaults have changed ({listed})")


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _flat(record: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings under dotted names, so that a difference is told by the one that differs."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": v for inner, v in value.items()}
        else:
            flat[key] = value
    return flat

"""How photographs of the user's are trained where that is left open: tried on held-out images, then on all of them.

A head on the features of a network with ImageNet weights comes first; a small network from scratch takes its place
where held-out images say so by more than one standard error. Frozen features win on photographs of things, training
from scratch on small, uniform pictures, and nothing but trying tells which these are.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from procrustean.base.console import duration_text
from procrustean.base.errors import ConfigError
from procrustean.base.progress import Reporter
from procrustean.data.sources import is_files
from procrustean.engine.frozen_features import FeatureStores
from procrustean.engine.linear_head import chosen_strength, solved
from procrustean.engine.probabilities import Labels, Scores, calibrate, log_softmax
from procrustean.engine.stored_calibration import TrialScores, held_out_scores
from procrustean.records.identity import Trial
from procrustean.records.run_folder import TRIALS, RunFolder
from procrustean.records.run_spec import ADVISED, RunSpec
from procrustean.runs.advice import Plan
from procrustean.runs.cost import TimeBox, measured_speed
from procrustean.runs.image_loading import Sources
from procrustean.runs.many_runs import fit_many
from procrustean.runs.preparing import imbalanced, prepare

#: Pretrained network, the side of its images, and the same from scratch.
PRETRAINED, PRETRAINED_SIDE = "efficientnet_lite0", 224
SCRATCH, SCRATCH_SIDE = "convnet", 64
#: Both ways correct for the class sizes by this, the correction with the steadiest gain on photographs.
METHOD = "balanced_softmax"
#: Share of each class that is held out to compare the ways; the way that is taken is trained on all images.
HELD_OUT = 1 / 3
#: Smaller pictures hold nothing that a network for photographs could use.
SMALLEST_SIDE = 32
#: A training from scratch is at least so long.
FEWEST_EPOCHS, FEWEST_STEPS, BATCH = 30, 600, 32
#: The same of a head on features.
HEAD_EPOCHS, HEAD_STEPS, HEAD_BATCH = 60, 600, 64


@dataclass(frozen=True)
class Tried:
    """A way after its trial."""

    name: str
    config: RunSpec  # of the training on all images
    scores: Scores  # of held-out images, [n, C], columns in the order of `classes`
    labels: Labels
    classes: tuple[str, ...]
    seconds: float

    def losses(self) -> tuple[Scores, Scores]:
        """Negative log-likelihood of each held-out image, with the best temperature, and its weight: classes count
        alike."""
        counts = np.bincount(self.labels, minlength=len(self.classes))
        found = calibrate(self.scores, self.labels, [1] * len(self.classes), corrected=True)
        losses = -log_softmax(found.scale * self.scores)[np.arange(len(self.labels)), self.labels]
        return losses, (1 / counts[self.labels]) / np.count_nonzero(counts)

    def balanced_accuracy(self) -> float:
        right = self.scores.argmax(axis=1) == self.labels
        return float(right @ self.losses()[1])


def is_open(config: RunSpec, sources: Sources) -> bool:
    """Whether the user has left open how photographs in files are trained, and there are weights to start from."""
    given = (config.net, config.pretrained, config.image_size, config.epochs, config.lr, config.batch_size)
    if (
        config.method != ADVISED
        or config.recipe != "auto"
        or config.options
        or any(value is not None for value in given)
    ):
        return False
    if not is_files(config.source) or config.imbalance != "natural":
        return False
    headers = sources.listing(config).headers.values()
    if not headers or median(min(h.width, h.height) for h in headers) < SMALLEST_SIDE:
        return False
    from procrustean.nets.published import published

    try:
        return published(PRETRAINED).found() is not None
    except ConfigError:  # the package of the weights is not installed
        return False


def tried_out(config: RunSpec, folder: Path, sources: Sources, reporter: Reporter, minutes: float | None) -> Plan:
    """The plan of the better way, with its scores of held-out images.

    Args:
        config: settings that leave the way open.
        folder: of the run; trials are kept in it.
        sources: loads the images.
        reporter: where progress goes.
        minutes: what trials and training may take together; None for as long as they need.
    """
    box = TimeBox(minutes)
    reporter.say_once(
        f"trying how to train on {HELD_OUT:.0%} of the images, held out by class; name a --net to decide it yourself"
    )
    features = _features(config, sources, reporter)
    tried, left_out = [features], ""
    scratch = _scratch(config, sources)
    needed = _seconds(scratch, sources)
    if box.leaves(needed):
        tried.append(_from_scratch(scratch, folder, sources, reporter))
    else:
        left_out = f"; {SCRATCH} from scratch was not tried, which takes {duration_text(needed)}"
    best, text = better(tried)
    trials = [
        Trial(
            name=one.name,
            balanced_accuracy=one.balanced_accuracy(),
            log_loss=float(np.dot(*one.losses())),
            held_out=len(one.labels),
            seconds=round(one.seconds, 1),
        )
        for one in tried
    ]
    told = "; ".join(
        f"{trial.name}: balanced accuracy {100 * trial.balanced_accuracy:.1f} %, log loss {trial.log_loss:.3f}"
        for trial in trials
    )
    why = (
        f"tried on {len(best.labels)} held-out images: {told}{left_out}",
        f"{best.name}: {text}; now it is trained on all training images",
    )
    kept = TrialScores(best.scores, best.labels, best.classes)
    held_out = config.hold_out or 0
    plan_config = replace(best.config, hold_out=held_out, run_dir=folder)
    return Plan(plan_config, sources(plan_config), why, trials=tuple(trials), scores=None if held_out else kept)


def better(tried: list[Tried]) -> tuple[Tried, str]:
    """The way to take: a later one only where it is better than the first by more than one standard error."""
    first, reason = tried[0], "there is nothing to compare it with"
    best = first
    for other in tried[1:]:
        gain, error = _gain(first, other)
        if gain > error:
            best, reason = other, f"its log loss is lower by {gain:.2f} ± {error:.2f}"
        else:
            reason = f"its log loss is {'higher' if gain > 0 else 'lower'} by {abs(gain):.2f} ± {error:.2f}"
    return best, reason


def _gain(first: Tried, other: Tried) -> tuple[float, float]:
    """By how much the log loss of the other way is lower, and the standard error of that."""
    (before, weights), (after, other_weights) = first.losses(), other.losses()
    if np.array_equal(first.labels, other.labels) and first.classes == other.classes:
        differences = before - after
        gain = float(differences @ weights)
        return gain, math.sqrt(float((weights**2) @ (differences - gain) ** 2))
    spread = [float((w**2) @ (losses - losses @ w) ** 2) for losses, w in ((before, weights), (after, other_weights))]
    return float(before @ weights - after @ other_weights), math.sqrt(sum(spread))


def _features(config: RunSpec, sources: Sources, reporter: Reporter) -> Tried:
    began = time.monotonic()
    way = replace(
        config, method=METHOD, net=PRETRAINED, pretrained="published", tune="head", image_size=PRETRAINED_SIDE,
        hold_out=HELD_OUT, batch_size=HEAD_BATCH, epochs=1,
    )  # fmt: skip
    prepared = prepare(way, splits=sources(way), say=reporter.say)
    net = prepared.build_net().to(prepared.placement.device)
    stores, data = prepared.training_stores(net, reporter.say), prepared.data
    assert isinstance(stores, FeatureStores)
    train = stores.training(data.train)
    assert data.held_out is not None
    held_out = stores.evaluation(data.held_out, "train, held out")
    shown = net.features(train.features.flatten(0, 1)).view(train.features.shape)
    groups = np.unique(data.train.groups, return_inverse=True)[1] if data.train.groups else np.arange(len(data.train))
    strength = chosen_strength(shown, train.labels, groups)
    counts = np.asarray(data.counts, np.float64)
    log_prior = shown.new_tensor(np.log(counts / counts.sum()))
    weight, bias = solved(shown, train.labels, log_prior, strength)
    scores = (net.features(held_out.features[:, 0]) @ weight.T + bias).double().cpu().numpy()
    images = len(prepared.splits.train)
    final = replace(
        way,
        epochs=_epochs(images, HEAD_BATCH, HEAD_EPOCHS, HEAD_STEPS),
        weight_decay=float(f"{1 / (strength * images):.3g}"),  # of a mean over as many images, |W|^2 / (2 C n)
        evaluate_every=HEAD_EPOCHS // 4,
    )
    labels, seconds = held_out.labels.cpu().numpy(), time.monotonic() - began
    return Tried(f"head on {PRETRAINED}", final, scores, labels, data.train.classes, seconds)


def _scratch(config: RunSpec, sources: Sources) -> RunSpec:
    way = replace(config, method=METHOD, net=SCRATCH, image_size=SCRATCH_SIDE, recipe="photographs")
    images = len(sources(way).train)
    epochs = _epochs(images, BATCH, FEWEST_EPOCHS, FEWEST_STEPS)
    return replace(way, epochs=epochs, batch_size=BATCH, evaluate_every=max(1, epochs // 10))


def _epochs(images: int, batch: int, fewest: int, steps: int) -> int:
    return max(fewest, math.ceil(steps * batch / images))


def _seconds(scratch: RunSpec, sources: Sources) -> float:
    """What trial and training from scratch take together."""
    splits = sources(scratch)
    speed = measured_speed(SCRATCH, splits.train.images.shape[3], SCRATCH_SIDE, BATCH, scratch.device)
    return (2 - HELD_OUT) * len(splits.train) * (scratch.epochs or 1) / speed


def _from_scratch(scratch: RunSpec, folder: Path, sources: Sources, reporter: Reporter) -> Tried:
    began, path = time.monotonic(), folder / TRIALS / "scratch"
    trial = replace(scratch, hold_out=HELD_OUT, run_dir=path)
    plan = Plan(trial, sources(trial), made=imbalanced(trial, sources(trial)))
    (outcome,) = fit_many([plan], sources=sources, width=1, reporter=reporter, show="held_out")
    if outcome.error is not None:
        raise outcome.error
    assert outcome.record is not None
    scores, labels = held_out_scores(RunFolder(path))
    name = f"{SCRATCH} from scratch"
    return Tried(name, scratch, scores, labels, tuple(outcome.record.data.classes), time.monotonic() - began)

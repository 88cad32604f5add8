"""Settings that are allowed and probably a mistake: said before training, in words."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from procrustean.balance.losses import shifts_scores, weights_classes
from procrustean.data.describe import some_names
from procrustean.data.imageset import ImageSet, Labels
from procrustean.data.recipe import Recipe, lr_table
from procrustean.data.recipes import PAPER
from procrustean.engine.prepared import Prepared
from procrustean.engine.stage_order import stage_epochs
from procrustean.methods.base import Method, Stage
from procrustean.methods.cmo import FIRST, LAST, Pasting
from procrustean.methods.tau_norm import Rescaling
from procrustean.runs.leaks import leaks
from procrustean.runs.straddling import straddling
from procrustean.runs.training_advice import FEWEST_STEPS, SMALLEST_BATCH


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


#: Share of the highest rate at which no training should end.
HIGH = 0.3
#: What the MFW paper's schedules were made for.
AT_HOME = ("erm", "mfw")


def short_schedule(prepared: Prepared) -> list[str]:
    """Training that ends in its warm-up or soon after it, or has hardly a step per epoch."""
    recipe, images = prepared.recipe, len(prepared.data.train)
    stages = prepared.method.stages
    lengths = stage_epochs(prepared.method, recipe.epochs)
    found = []
    for stage, epochs in zip(stages, lengths, strict=True):
        cut_short = _cut_short(stage.changed(recipe), epochs)
        if cut_short and len(stages) > 1:
            cut_short = f"the stage {stage.name!r} has a schedule of its own: {cut_short}"
        found += [cut_short] if cut_short else []
    steps = -(-images // recipe.batch_size)
    # One more than the smallest batch keeps the last image from being alone in its own.
    if steps < FEWEST_STEPS and recipe.batch_size > SMALLEST_BATCH + 1:
        text = f"batches of {recipe.batch_size} make only {steps} step{'s' * (steps > 1)} per epoch of {images} images"
        found.append(f"{text}; choose a smaller --batch-size")
    return found


def _cut_short(recipe: Recipe, epochs: int) -> str:
    """What is wrong with a schedule of so few epochs; nothing for one that comes to its end."""
    if epochs <= recipe.warmup_epochs:
        text = "1 epoch is" if epochs == 1 else f"{epochs} epochs are"
        return f"{text} all warm-up, which takes {recipe.warmup_epochs}; train longer"
    share = lr_table(recipe, epochs)[-1] / recipe.lr
    if share < HIGH or recipe.schedule == "constant":
        return ""
    last = "its only epoch" if epochs == 1 else f"the last of {epochs} epochs"
    soon = f", so soon after {recipe.warmup_epochs} of warm-up" if recipe.warmup_epochs else ""
    return f"{last} has {100 * share:.0f} % of the highest rate{soon}; train longer"


def never_pastes(prepared: Prepared) -> list[str]:
    """CMO in fewer epochs than it leaves out at the beginning and at the end: it would be plain training."""
    epochs, needed = prepared.recipe.epochs, FIRST + LAST + 1
    if epochs >= needed or not isinstance(prepared.method.stages[0].objective, Pasting):
        return []
    return [
        f"{prepared.label} pastes in no epoch of {epochs}: it leaves the first {FIRST} and the last {LAST} as "
        f"they are; train for {needed} at least"
    ]


def schedule_of_another(prepared: Prepared) -> list[str]:
    """A rival of MFW that trains by MFW's cosine because nothing was said; which costs some of them points."""
    config, own, recipe = prepared.config, prepared.method.own or {}, prepared.recipe
    # A user's own images have no paper, whatever their folder is called.
    published = config.recipe == "auto" and prepared.splits.name == config.source and config.source in PAPER
    schedule = own.get("schedule", recipe.schedule)
    if not published or config.method in AT_HOME or schedule == recipe.schedule:
        return []
    return [
        f"{prepared.label} trains by the MFW paper's schedule ({recipe.epochs} epochs, {recipe.schedule}), not "
        f"by the one it was published with ({own.get('epochs', recipe.epochs)} epochs, {schedule}), which may cost it "
        "points; take --recipe own, or --recipe paper if this is meant"
    ]


def held_out_too_much(prepared: Prepared) -> list[str]:
    """Classes that have fewer images left than were held out from them: to train on, or to be made from."""
    data, config = prepared.data, prepared.config
    if not config.hold_out or data.held_out is None:
        return []  # a validation set that was given takes nothing away from training
    cut_before = config.imbalance != "natural" and config.hold_out_from == "source"
    left = _left_in_the_source(prepared, data.held_out) if cut_before else data.counts
    short = np.flatnonzero((data.held_out.counts > left) & (data.held_out.counts > 0))
    if not len(short):
        return []
    named = [f"{data.train.classes[c]} ({left[c]} left, {data.held_out.counts[c]} held out)" for c in short[:3]]
    more = f" and {len(short) - 3} more" if len(short) > 3 else ""
    of_the_source = "of the source " * cut_before
    before = (
        ", or --hold-out-from source, which cuts the images from the source before it is made imbalanced; every class "
        "is then made from what is left"
    )
    return [
        f"the held-out set takes more images {of_the_source}than it leaves of {', '.join(named)}{more}; hold out "
        "fewer, or a share such as --hold-out 0.15" + before * (config.imbalance != "natural" and not cut_before)
    ]


def without_a_say(prepared: Prepared) -> list[str]:
    """Classes that keep their few images: nothing that is chosen on the held-out ones is chosen for them."""
    data, config = prepared.data, prepared.config
    if not data.left_out_classes:
        return []
    instead = "hold out fewer" if (config.hold_out or 0) >= 1 else "a share needs four images of a class; add some"
    if config.imbalance != "natural" and config.hold_out_from != "source":
        instead += ", or --hold-out-from source, which cuts them before the set is made imbalanced"
    return [
        f"no images are held out of {some_names(data.left_out_classes)}, which have too few: what is chosen and "
        f"calibrated on the held-out images is so without them; {instead}"
    ]


def _left_in_the_source(prepared: Prepared, held_out: ImageSet) -> Labels:
    """Images of each class from which an imbalanced set is made, after some were held out."""
    source = prepared.splits.train
    counts = dict(zip(source.classes, source.counts, strict=True))
    whole: Labels = np.array([counts[name] for name in held_out.classes])
    return whole - held_out.counts


def unused_validation(prepared: Prepared) -> list[str]:
    """A validation set that was given, where training images are held out in its place."""
    val, hold_out = prepared.splits.val, prepared.config.hold_out
    if val is None or not hold_out:
        return []
    return [
        f"the {len(val)} validation images are not used, since --hold-out {hold_out:g} takes training images in their "
        "place; leave it out to choose and calibrate on them"
    ]


def untested(prepared: Prepared) -> list[str]:
    """Classes without a single test image."""
    data = prepared.data
    missing = [name for name, count in zip(data.test.classes, data.test.counts, strict=True) if count == 0]
    if not missing:
        return []
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return [f"there are no test images of {shown}: the results say nothing about them"]


Rule = Callable[[Prepared], list[str]]

#: Each looks at a run that is about to start and names what it finds.
RULES: tuple[Rule, ...] = (
    corrected_twice,
    leaks,
    straddling,
    held_out_too_much,
    without_a_say,
    unused_validation,
    untested,
    short_schedule,
    never_pastes,
    schedule_of_another,
)


def lint(prepared: Prepared) -> list[str]:
    """What is probably wrong with a run, one sentence each; an empty list if nothing is."""
    return [finding for rule in RULES for finding in rule(prepared)]

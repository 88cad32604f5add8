"""Learning rate, batch and epochs that do not go together."""

from __future__ import annotations

from procrustean.data.recipe import Recipe, lr_table
from procrustean.data.recipes import PAPER, RECIPES
from procrustean.engine.prepared import (
    Prepared,
)
from procrustean.engine.stage_order import stage_epochs
from procrustean.methods.cmo import FIRST, LAST, Pasting
from procrustean.runs.advice.settings import FEWEST_STEPS, SMALLEST_BATCH

#: How far rate over batch may be from the recipe's, either way.
FACTOR = 4.5
#: Share of the highest rate at which no training should end.
HIGH = 0.3
#: What the MFW paper's schedules were made for.
AT_HOME = ("erm", "mfw")


def rate_against_batch(prepared: Prepared) -> list[str]:
    """A learning rate that was not changed with the batch, or the other way round."""
    recipe, usual = prepared.recipe, RECIPES[prepared.recipe.name][0]
    if prepared.config.recipe == "own" or prepared.config.pretrained is not None:
        return []  # numbers of a publication, and of fine-tuning, which is done at lower rates
    ratio = (recipe.lr / recipe.batch_size) / (usual.lr / usual.batch_size)
    if 1 / FACTOR <= ratio <= FACTOR:
        return []
    fitting = usual.lr * recipe.batch_size / usual.batch_size
    size = "large" if ratio > 1 else "small"
    return [
        f"a learning rate of {recipe.lr:g} is {size} for batches of {recipe.batch_size}: the recipe has {usual.lr:g} "
        f"for {usual.batch_size}, in proportion {fitting:.2g}"
    ]


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

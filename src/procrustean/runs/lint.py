"""Settings that are allowed and probably a mistake: said before training, in words."""

from __future__ import annotations

from collections.abc import Callable

from procrustean.balance.losses import shifts_scores, weights_classes
from procrustean.data.describe import some_names
from procrustean.data.recipe import Recipe, lr_table
from procrustean.data.recipes import PAPER
from procrustean.engine.prepared_run import Prepared
from procrustean.engine.stage_order import stage_epochs
from procrustean.methods.method import Method, Stage
from procrustean.methods.tau_norm import Rescaling
from procrustean.runs.leaks import divided_groups, leaks
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
    return [f"there are no test images of {some_names(missing)}: the results say nothing about them"]


Rule = Callable[[Prepared], list[str]]

#: Each looks at a run that is about to start and names what it finds.
RULES: tuple[Rule, ...] = (
    corrected_twice,
    leaks,
    divided_groups,
    unused_validation,
    untested,
    short_schedule,
    schedule_of_another,
)


def lint(prepared: Prepared) -> list[str]:
    """What is probably wrong with a run, one sentence each; an empty list if nothing is."""
    return [finding for rule in RULES for finding in rule(prepared)]

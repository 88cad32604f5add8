"""What training on a known data set does: it has a recipe and a default method, so that nothing is advised for it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Literal

from procrustean.base.console import command_text, duration_text
from procrustean.data.imageset import Splits
from procrustean.engine.prepared import (
    Prepared,
)
from procrustean.records.run_spec import ADVISED, RunSpec
from procrustean.runs.advice.cost import Machine
from procrustean.runs.advice.method_advice import MILD
from procrustean.runs.advice.plan_training import planned
from procrustean.runs.inspect.survey_text import number_of, time_text
from procrustean.runs.inspect.timing import BESIDE_STEPS, measured_speed
from procrustean.runs.preparing import (
    imbalanced,
    prepare,
)
from procrustean.runs.step_cost import relative_to_erm

#: The ratio of most of the paper's tables, and the fewest images that it is made to leave of a class.
PAPERS_RATIO, FEWEST = 100, 5
#: Images per step that tell the speed of a CPU; whole batches of large images would take it minutes.
ENOUGH_ON_CPU = 32


def describe_known(source: str, splits: Splits, machine: Machine) -> list[str]:
    """What `procrustean train` does with a known data set, how long it takes, and how to make it imbalanced.

    Args:
        source: its name.
        splits: its images.
        machine: where it is trained.
    """
    device: Literal["cuda", "cpu"] = "cuda" if machine.device == "cuda" else "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that MFW changes nothing among equal classes is said below
        prepared = prepare(
            planned(RunSpec(source, method=ADVISED, device=device)).config, splits=splits, to_train=False
        )
    config, recipe, counts = prepared.config, prepared.recipe, [int(n) for n in prepared.data.counts]
    slower = relative_to_erm(config, device)
    speed = _speed(prepared, machine) / slower
    channels = prepared.data.train.images.shape[3]
    usual = machine.told_images_per_second(recipe.net, channels, max(prepared.image_size)) / slower
    lines = [
        "a known data set: train goes by its recipe, not by the number of images and the time",
        f"method: {config.method}, the default for known data sets; --method names another, procrustean list methods "
        "lists them",
        prepared.recipe_text(),
        f"expected time for all {sum(counts)} training images: "
        + time_text(recipe.epochs * sum(counts), recipe.net, machine, speed, usual),
        f"start with: {command_text('train', source)}",
    ]
    if max(counts) >= MILD * min(counts):
        return lines
    made = replace(config, imbalance="step", rho=float(max(2, min(PAPERS_RATIO, max(counts) // FEWEST))))
    images = int(imbalanced(made, splits)[1].counts.sum())
    time = duration_text(BESIDE_STEPS * recipe.epochs * images / speed)
    command = command_text("train", source, "--imbalance", made.imbalance, "--rho", f"{made.rho:g}")
    return [
        *lines,
        f"its classes are near equal, which leaves {config.method} nothing to correct; --imbalance (step or "
        f"long_tailed) and --rho make it imbalanced. {number_of(images, 'image')}, about {time}: {command}",
    ]


def _speed(prepared: Prepared, machine: Machine) -> float:
    recipe, channels = prepared.recipe, prepared.data.train.images.shape[3]
    batch = recipe.batch_size if machine.device == "cuda" else min(recipe.batch_size, ENOUGH_ON_CPU)
    return measured_speed(recipe.net, channels, max(prepared.image_size), batch, machine.device)

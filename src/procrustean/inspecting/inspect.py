"""Everything worth knowing about a source before training on it, as text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..advice.cost import this_machine
from ..advice.planning import HOLD_OUT
from ..advice.pretrained import found_pretrained
from ..advice.settings import choose_settings
from ..data.parting import shares
from .survey import Survey, survey
from .text import describe_advice, describe_problems, describe_survey
from .timing import measured_speed


def inspect_source(source: str, *, device: str = "auto", say: Callable[[str], None] = lambda text: None) -> str:
    """Read all images and say what there is, what is wrong, and what is advised.

    Args:
        source: a folder, a table, a saved data set, a .npz file or a known data set.
        device: where one would train: "auto", "cpu" or "cuda".
        say: called with one line of progress at a time.
    """
    found = survey(source, say=say)
    trained, notes = trained_on(found)
    lines = [*describe_survey(found, trained), *notes, "", *describe_problems(found)]
    if min(trained) > 0 and len(trained) > 1:
        machine = this_machine(device)
        channels = 1 if set(found.modes) == {"L"} and len(found.sizes) == 1 and not found.bad else 3
        pretrained = found_pretrained(found.side, channels)
        settings = choose_settings(sum(trained), found.side, channels, machine, pretrained)
        speed = measured_speed(settings.net, channels, settings.size, settings.batch_size, machine.device)
        lines += ["", *describe_advice(source, trained, settings, machine, speed)]
    return "\n".join(lines)


def trained_on(found: Survey) -> tuple[list[int], list[str]]:
    """Images per class that `procrustean train` would train on, and what it would set aside."""
    left, notes = np.array(found.train), []
    if not found.has_test:
        test = np.where(left >= 2, np.maximum(left // 5, 1), 0)
        left = left - test
        notes.append(f"no test images: {test.sum()} would be set aside, 20 % of each class")
    if not found.has_val:
        held = shares(left, HOLD_OUT)
        left = left - held
        share = f"{100 * HOLD_OUT:g} % of each class, up to a quarter of small ones"
        notes.append(f"no validation images: {held.sum()} would be held out, {share}")
        none = [c for c, n in zip(found.classes, held, strict=True) if n == 0]
        if none:
            notes.append(f"too few images to hold any out: {', '.join(none[:5])}{' ...' * (len(none) > 5)}")
    return [int(n) for n in left], notes

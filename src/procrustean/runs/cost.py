"""What a training costs: how long a step takes, how long runs take together, and what time is left.

One model serves advice and plans: the multiply-adds of a network, and how many of them a device does in a second, from
steps that were timed. `measured_speed` times the steps of one network on the machine it is asked on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from procrustean.base.machine import usable_cores
from procrustean.data.recipe import Recipe
from procrustean.data.sets.data_set_table import known
from procrustean.data.sources import is_named
from procrustean.engine.device import place, sane_threads
from procrustean.engine.step import precision as number_format
from procrustean.methods.make import METHODS
from procrustean.nets.build import build_backbone, build_net, check_net
from procrustean.nets.classifier import NOT_TAKEN, cannot_take
from procrustean.nets.own_net import is_own
from procrustean.records.run_spec import RunSpec
from procrustean.runs.preparing import recipe_of
from procrustean.runs.training_sizes import training_images

Device = Literal["cuda", "cpu"]

#: Multiply-adds of the forward pass per second of training, backward pass included. Half of what ResNet-32 reached, per
#: CPU core in float32 (results/speed-cpu.json) and on an H200 (results/speed-h200.json): machines are busy.
PER_CORE, ON_GPU = 5e9, 3e12
#: What these numbers are called beside a time that follows from them.
CAUTION = "reckoned at half the usual speed"
#: The smallest network computes on one thread, and its thin layers less efficiently.
SMALL = 4e9
#: How many times as many a network does as ResNet-32, where its steps were timed: DenseNet-121 in a fleet of twelve on
#: an H200, ResNet-18 on one core, whose wide layers are cheap there.
TIMED = {("densenet121", "cuda"): 0.76, ("resnet18", "cpu"): 1.6}
#: Time of float32 relative to the device's usual number format: on a GPU it has no kernels of its own.
FLOAT32 = {"cuda": 2.7, "cpu": 1.9}
#: Seconds that a training by default may take by this reckoning. A machine may well be half as fast.
BUDGET = {"cpu": 120.0, "cuda": 900.0}
#: Images of ResNet-32 per second of a whole fleet before anything is measured: on an H200 (docs/performance.md), and
#: on two CPU cores.
FIRST_GUESS: dict[Device, float] = {"cuda": 140_000.0, "cpu": 500.0}
#: Images of an epoch where only loading them would tell, and their side where nothing says it.
GUESSED_IMAGES, GUESSED_SIDE = 10_000, 32
#: How long `measured_speed` takes. A training takes this many times as long as its steps alone: images are tested and
#: weights saved as well.
SECONDS, BESIDE_STEPS = 1.5, 1.2
#: Seconds that a time box keeps back to save what is in progress, and at most this share of its time.
SAVING, MOST_KEPT_BACK = 8.0, 0.1


@dataclass(frozen=True)
class Machine:
    """What decides how long a training takes."""

    device: str  # "cpu" or "cuda"
    cores: int  # that a program may use
    budget: float  # seconds for one training

    def images_per_second(self, net: str, channels: int, size: int) -> float:
        """Training speed on all cores in float32, roughly."""
        rate = ON_GPU if self.device == "cuda" else SMALL if net == "small" else PER_CORE * self.cores
        family = net.partition("-")[0]
        return rate * TIMED.get((family, self.device), 1.0) / multiply_adds(net, channels, size)


def this_machine(device: str = "auto", most_seconds: float | None = None) -> Machine:
    """The machine a run would be trained on.

    Args:
        device: that of the run's settings.
        most_seconds: what a training may take at most.
    """
    name = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    return Machine(name, usable_cores(), BUDGET[name] if most_seconds is None else min(BUDGET[name], most_seconds))


@lru_cache(maxsize=64)
def multiply_adds(net: str, channels: int, size: int) -> float:
    """Of the forward pass of one image; nothing is computed, unless the network is a user's own."""
    check_net(net)
    # A user's network may make tensors on the CPU by itself, and other libraries draw initial weights there.
    where = "cpu" if is_own(net) else "meta"
    with torch.random.fork_rng(devices=[]), torch.device("cpu" if ":" in net else "meta"):
        backbone = build_backbone(net, channels=channels, size=(size, size)).eval()
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            backbone.to(where)(torch.zeros(1, channels, size, size, device=where))
    except NOT_TAKEN as error:
        raise cannot_take(net, (size, size), error) from error
    return float(counter.get_total_flops()) / 2


def predicted_cost(config: RunSpec, device: Device = "cuda") -> float:
    """Images of 32 x 32 that ERM with ResNet-32 would train in the same time on that kind of device."""
    recipe, images = recipe_of(config), training_images(config)
    shown = recipe.epochs * (GUESSED_IMAGES if images is None else images)
    machine = Machine(device, cores=1, budget=BUDGET[device])
    usual = machine.images_per_second("resnet32", 3, GUESSED_SIDE)
    relative = usual / machine.images_per_second(recipe.net, 3, _side(config, recipe))
    entry = METHODS.get(config.method)  # a plan that is still to choose a method has none, a file says none
    step = 1.0 if entry is None else entry.relative_cost
    return shown * relative * step * (FLOAT32[device] if config.precision == "fp32" else 1.0)


def starting_cost(config: RunSpec, device: Device) -> float:
    """The predicted cost by which runs start, the highest first."""
    if config.method not in METHODS:  # still to be chosen, or of a file, which is not imported for this
        config = replace(config, method="erm", options={}, drw=False)
    try:
        return predicted_cost(config, device)
    except Exception:  # a run with a mistake in it says so when its turn comes, and does not touch the others
        return 0.0


def _side(config: RunSpec, recipe: Recipe) -> int:
    """Of the images that the network is shown, as far as it is known without loading them."""
    published = known(config.source).size if is_named(config.source) else None
    return recipe.crop or config.image_size or published or GUESSED_SIDE


def predicted_seconds(costs: Sequence[float], rate: float, width: int) -> float:
    """Seconds for runs of these costs side by side; a single long run cannot be shared out.

    Args:
        costs: of the runs that remain.
        rate: cost per second of the whole fleet.
        width: runs at a time.
    """
    if not costs:
        return 0.0
    # Alone, a run reaches about half of what a fleet does.
    return max(sum(costs) / rate, max(costs) / (rate if width == 1 else 0.6 * rate))


def measured_speed(net: str, channels: int, size: int, batch_size: int, device: str = "auto") -> float:
    """Images per second of plain training steps on random images, after one to warm up.

    Args:
        net: network.
        channels, size: of the images.
        batch_size: images per step.
        device: "auto", "cpu" or "cuda".
    """
    placement = place(device, "auto", small=net == "small")
    where, low = placement.device, placement.low_precision
    model = build_net(net, channels=channels, classes=10, seed=0).to(where, memory_format=torch.channels_last)  # type: ignore[call-overload]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(batch_size, channels, size, size, generator=generator).to(where)
    y = torch.randint(10, (batch_size,), generator=generator).to(where)

    def step() -> None:
        with number_format(where, low):
            scores = model(x)
        F.cross_entropy(scores.float(), y).backward()
        if where.type == "cuda":
            torch.cuda.synchronize()

    with sane_threads(net):
        step()
        began, steps = time.monotonic(), 0
        while time.monotonic() - began < SECONDS:
            step()
            steps += 1
        return steps * batch_size / (time.monotonic() - began)


class TimeBox:
    """Says when the time that a call may take is up.

    Args:
        minutes: that the call may take; None for as many as it needs.
        clock: seconds of a clock that never goes back.
        began: time of the clock from which the minutes count; now, if nothing is said.
    """

    def __init__(
        self, minutes: float | None, clock: Callable[[], float] = time.monotonic, began: float | None = None
    ) -> None:
        self._clock = clock
        self._seconds = 0.0 if minutes is None else 60 * minutes
        began = clock() if began is None else began
        #: Time of the clock at which the call ends; None for never.
        self.deadline = None if minutes is None else began + self._seconds

    def is_over(self) -> bool:
        """Whether to begin nothing more, and to save."""
        kept_back = min(SAVING, MOST_KEPT_BACK * self._seconds)
        return self.deadline is not None and self._clock() >= self.deadline - kept_back

    def leaves(self, seconds: float) -> bool:
        """Whether there is time for so long."""
        return self.deadline is None or self._clock() + seconds <= self.deadline

"""What a training costs: the work of a network per image, and how much a device does in a second."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from procrustean.base.machine import usable_cores

#: Multiply-adds of the forward pass per second of training, backward pass included. Half of what ResNet-32 reached, per
#: CPU core in float32 (results/speed-cpu.json) and on an H200 (results/speed-h200.json): machines are busy.
PER_CORE, ON_GPU = 5e9, 3e12
#: What these numbers are called beside a time that follows from them.
CAUTION = "reckoned at half the usual speed"
#: How many times as fast a CPU that computes in bf16 trains ResNet-32 in it (results/speed-cpu.json). What is chosen
#: goes by float32 on every CPU; only the time that is told goes by this, and by the threads that are set.
BF16_GAIN = 1.9
#: The smallest network computes on one thread, and its thin layers less efficiently.
SMALL = 4e9
#: Seconds that a training by default may take by this reckoning. A machine may well be half as fast.
BUDGET = {"cpu": 120.0, "cuda": 900.0}


@dataclass(frozen=True)
class Machine:
    """What decides how long a training takes."""

    device: str  # "cpu" or "cuda"
    cores: int  # that a program may use
    budget: float  # seconds for one training
    bf16: bool = False  # whether a CPU computes in it, with all networks but the smallest
    threads_set: int | None = None  # that a CPU is told to compute with, where they are not as many as the cores

    @property
    def threads(self) -> int:
        """That a CPU computes with."""
        return self.cores if self.threads_set is None else self.threads_set

    def images_per_second(self, net: str, channels: int, size: int) -> float:
        """Training speed on all cores in float32, roughly: what is chosen goes by this, whatever is set."""
        rate = ON_GPU if self.device == "cuda" else SMALL if net == "small" else PER_CORE * self.cores
        return rate / multiply_adds(net, channels, size)

    def told_images_per_second(self, net: str, channels: int, size: int) -> float:
        """Training speed, roughly, with the threads and in the number format that a training would have."""
        all_cores = self.images_per_second(net, channels, size)
        if self.device == "cuda" or net.startswith("small"):
            return all_cores
        return all_cores * min(self.threads, self.cores) / self.cores * (BF16_GAIN if self.bf16 else 1.0)

    def seconds(self, net: str, channels: int, size: int, shown: int) -> float:
        """What a training that shows so many images takes, roughly."""
        return shown / self.told_images_per_second(net, channels, size)


def this_machine(device: str = "auto", most_seconds: float | None = None, precision: str = "auto") -> Machine:
    """The machine a run would be trained on.

    Args:
        device: that of the run's settings.
        most_seconds: what a training may take at most.
        precision: that of the run's settings.
    """
    import torch

    from procrustean.engine.device import place

    on_gpu = device != "cpu" and torch.cuda.is_available()
    name = "cuda" if on_gpu else "cpu"
    budget = BUDGET[name] if most_seconds is None else min(BUDGET[name], most_seconds)
    bf16 = not on_gpu and place("cpu", precision).precision == "bf16"
    return Machine(name, usable_cores(), budget, bf16, torch.get_num_threads())


@lru_cache(maxsize=64)
def multiply_adds(net: str, channels: int, size: int) -> float:
    """Of the forward pass of one image."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from procrustean.nets.build import build_backbone, check_net
    from procrustean.nets.classifier import NOT_TAKEN, cannot_take
    from procrustean.nets.own_net import is_own

    check_net(net)
    with torch.random.fork_rng(devices=[]):
        backbone = build_backbone(net, channels=channels, size=(size, size)).eval()
    # A user's network may make tensors on the CPU by itself.
    where = "cpu" if is_own(net) else "meta"
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            backbone.to(where)(torch.zeros(1, channels, size, size, device=where))
    except NOT_TAKEN as error:
        raise cannot_take(net, (size, size), error) from error
    return float(counter.get_total_flops()) / 2

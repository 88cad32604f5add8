"""How long a training step takes, relative to one of ERM: what fleets and plans are ordered and predicted by."""

from __future__ import annotations

from typing import Literal

from procrustean.methods.make import METHODS
from procrustean.records.run_spec import RunSpec

Device = Literal["cuda", "cpu"]

#: Time per image relative to ERM on CPUs, estimated, where it is another than on a GPU.
ON_CPUS = {"bbn": 2.0, "m2m": 3.0, "meta_weight": 4.0, "domain_adaptation": 1.6}
#: Time of float32 relative to the device's usual precision: on a GPU it has no kernels of its own.
FLOAT32 = {"cuda": 2.7, "cpu": 1.9}


def relative_to_erm(config: RunSpec, device: Device = "cuda") -> float:
    """Time per image relative to ERM on the same network in the device's usual precision."""
    known = METHODS.get(config.method)  # a plan that is still to choose a method has none, a file says none
    step = 1.0 if known is None else known.relative_cost
    if device == "cpu":
        step = ON_CPUS.get(config.method, step)
    return step * (FLOAT32[device] if config.precision == "fp32" else 1.0)

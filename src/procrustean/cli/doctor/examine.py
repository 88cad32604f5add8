"""All checks together."""

from __future__ import annotations

import os
from pathlib import Path

from procrustean.base.cores import load_average, usable_cores
from procrustean.base.memory import available_memory
from procrustean.cli.doctor import gpu, machine, packages
from procrustean.cli.doctor.finding import Finding


def examine(data_dir: Path | None = None) -> list[Finding]:
    """Everything that was found, in the order in which one would look.

    Args:
        data_dir: where data sets are looked for first.
    """
    import torch

    from procrustean.data.sets.base import data_roots

    return [
        *packages.check_python(),
        *gpu.judge(gpu.look()),
        *machine.check_threads(torch.get_num_threads(), usable_cores(), os.environ),
        *machine.check_load(load_average(), usable_cores(), torch.get_num_threads()),
        *machine.check_memory(available_memory()),
        *machine.check_disk(Path.cwd()),
        *machine.check_data(data_roots(data_dir)),
        *packages.check_optional(),
    ]

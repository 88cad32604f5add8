"""Launchers of several processes for one training, as torchrun, which runs do not support."""

from __future__ import annotations

import os

from procrustean.base.errors import RunError


def refuse_several_ranks() -> None:
    """RunError in every process of such a launcher; else one would train, until the launcher ends it for the others."""
    ranks = os.environ.get("WORLD_SIZE", "1")
    if ranks not in ("", "0", "1"):
        raise RunError(
            f"WORLD_SIZE = {ranks} received, but a run is trained by one process; start the same command without "
            "torchrun or another launcher of several"
        )

"""procrustean layers"""

from __future__ import annotations

from dataclasses import dataclass

import tyro


@dataclass(frozen=True)
class Layers:
    """Show the layers of a model that MFW can be attached to, and the one that is the paper's second group.

    Example: procrustean layers torchvision:resnet50
    """

    model: tyro.conf.Positional[str]
    """Network of this library (resnet32), torchvision:NAME, timm:NAME; for your own FILE.py:NAME or
    package.module:factory, a function or class that is called without arguments."""
    size: int | None = None
    """Side of the images; default what the model is made for: 32 for this library's, 224 where nothing says so."""
    channels: int = 3
    """Colour channels of the images."""
    every: bool = False
    """List every layer that can be mixed at, not the main ones alone."""

    def run(self) -> int:
        import torch

        from procrustean.balance.layers import suggest
        from procrustean.base.console import write_result
        from procrustean.base.errors import ConfigError
        from procrustean.nets.build import model_by_name

        if (self.size is not None and self.size < 1) or self.channels < 1:
            raise ConfigError(f"images of {self.size} pixels and {self.channels} channels received; at least 1 each")
        model, usual = model_by_name(self.model, channels=self.channels)
        size = self.size or usual
        try:
            suggestion = suggest(model, torch.zeros(2, self.channels, size, size), every=self.every)
        except (RuntimeError, AssertionError, ValueError) as error:
            raise ConfigError(
                f"{self.model} cannot be run on images of {self.channels} x {size} x {size} ({error}); "
                "say what it takes with --size and --channels"
            ) from error
        write_result(str(suggestion))
        return 0

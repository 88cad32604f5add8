"""Where a layer stands in its model, and what has been put there since."""

from __future__ import annotations

import weakref

from torch import nn


class LayerPlace:
    """The place of a layer in the module that holds it."""

    def __init__(self, model: nn.Module, layer: nn.Module) -> None:
        holder, self._name = next(
            (holder, name) for holder in model.modules() for name, child in holder.named_children() if child is layer
        )
        self._holder, self._layer = weakref.ref(holder), layer

    def newcomer(self) -> nn.Module | None:
        """What stands there now, if it has weights that the layer has not.

        A wrapper without weights, as of gradient checkpointing, torch.compile or FSDP, gives what the layer gives.
        """
        now = getattr(self._holder(), self._name, None)
        if now is self._layer or not isinstance(now, nn.Module):
            return None
        own = {id(weight) for weight in self._layer.parameters()}
        return now if any(id(weight) not in own for weight in now.parameters()) else None

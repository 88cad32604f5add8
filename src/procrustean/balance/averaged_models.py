"""Averages of a model (SWA, EMA) have the MFW of the model that they average, whichever was made first."""

from __future__ import annotations

import functools

from torch import nn
from torch.optim.swa_utils import AveragedModel

from procrustean.balance.mfw_attach import Attachment, attachments


@functools.cache
def let_averages_follow() -> None:
    """From now on an average without MFW takes it from the model, when it takes the weights.

    One that was made before MFW was attached would else be let through by torch.optim.swa_utils.update_bn, on clean
    batches. PyTorch has no hook for this, so its method is replaced, for all averages of the process.
    """
    update = AveragedModel.update_parameters

    @functools.wraps(update)
    def update_parameters(self: AveragedModel, model: nn.Module) -> None:
        update(self, model)
        if not attachments(self.module):
            for path, handle in attachments(model).items():
                _attach_as(handle, self.module, path)

    AveragedModel.update_parameters = update_parameters  # type: ignore[method-assign]


def _attach_as(handle: Attachment, average: nn.Module, path: str) -> None:
    """Attach the same MFW at the same layer; a wrapper, as of DistributedDataParallel, may stand in one of the two."""
    layers = dict(average.named_modules())
    names = path.split(".")
    found = next((name for n in range(len(names)) if (name := ".".join(names[n:])) in layers), None)
    if found is not None:
        handle.mfw.attach(average, found, labels=handle.labels_argument)

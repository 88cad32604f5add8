"""One of two processes that train a model with MFW attached; it ends with an error where anything is not as it should.

python ddp_worker.py, with the variables of torchrun.
"""

from __future__ import annotations

import copy
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from procrustean import MFW

COUNTS = [500, 400, 20, 10]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU())
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        z = self.head(self.layer1(x).mean((2, 3)))
        return z if labels is None else F.cross_entropy(z, labels)


def main(rank: int) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Model()
    twin = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(rank)  # every process has images of its own
    x, y = torch.randn(6, 3, 8, 8, generator=generator), torch.randint(4, (6,), generator=generator)

    handle = MFW(COUNTS).attach(model, "layer1")
    ddp = DistributedDataParallel(model)
    with handle(y, torch.Generator().manual_seed(10 + rank)):
        loss = F.cross_entropy(ddp(x), y)
    loss.backward()

    alone = MFW(COUNTS).attach(twin, "layer1")
    with alone(y, torch.Generator().manual_seed(10 + rank)):
        F.cross_entropy(twin(x), y).backward()
    for own, mean in zip(twin.parameters(), model.parameters(), strict=True):
        wanted = own.grad.clone()
        dist.all_reduce(wanted)
        torch.testing.assert_close(mean.grad, wanted / 2)
    assert not torch.allclose(twin.head.weight.grad, model.head.weight.grad), "both processes had the same batch"

    handle.remove()
    MFW(COUNTS).attach(model, "layer1", labels="labels")
    ddp.zero_grad()
    torch.manual_seed(20 + rank)
    ddp(x, labels=y).backward()
    torch.optim.SGD(ddp.parameters(), lr=0.1).step()
    weights = [torch.empty_like(model.head.weight) for _ in range(2)]
    dist.all_gather(weights, model.head.weight.detach())
    assert torch.equal(*weights), "the processes have drifted apart"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(os.environ["RANK"]))

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
from torch.utils.checkpoint import checkpoint

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


def gathered(value: Tensor) -> list[Tensor]:
    found = [torch.empty_like(value) for _ in range(2)]
    dist.all_gather(found, value)
    return found


def draws_by_rank(handed_over: torch.Generator | None = None, **settings: int) -> tuple[bool, bool, bool]:
    """Whether processes seeded alike have the same partners, the same shares, the same random numbers afterwards."""
    torch.manual_seed(0)
    mix = MFW(COUNTS, **settings).sample(torch.arange(32) % 4, handed_over)
    assert mix is not None
    partner, weight, later = gathered(mix.partner), gathered(mix.weight), gathered(torch.rand(4))
    return torch.equal(*partner), torch.equal(*weight), torch.equal(*later)


def same_mix_compiled_and_recomputed() -> None:
    mfw, labels, z = MFW(COUNTS), torch.arange(32) % 4, torch.randn(32, 3, requires_grad=True)
    compiled = torch.compile(lambda z, labels: mfw(z, labels), fullgraph=True, backend="aot_eager")
    found = []
    for call in (mfw, compiled, lambda z, labels: checkpoint(mfw, z, labels, use_reentrant=False)):
        torch.manual_seed(1)
        found.append(torch.autograd.grad(call(z.exp(), labels).square().sum(), z)[0])
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


def main(rank: int) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Model()
    twin = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(rank)  # every process has images of its own
    x, y = torch.randn(6, 3, 8, 8, generator=generator), torch.randint(4, (6,), generator=generator)

    assert draws_by_rank() == (False, False, True)
    assert draws_by_rank(rank=0) == (True, True, True)
    assert draws_by_rank(torch.Generator().manual_seed(5)) == (True, True, True)
    same_mix_compiled_and_recomputed()

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
    ddp(x, labels=y).backward()
    torch.optim.SGD(ddp.parameters(), lr=0.1).step()
    assert torch.equal(*gathered(model.head.weight.detach())), "the processes have drifted apart"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(os.environ["RANK"]))

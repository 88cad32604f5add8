"""One of several processes that weight classes; an error where their mean gradient is not that of the whole batch.

python weighting_worker.py, with the variables of torchrun.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from missing_operators import declare_missing_operators
from procrustean import DRW
from procrustean.balance import global_mean

declare_missing_operators()  # of torchvision, which transformers imports

COUNTS = [5000, 50]  # ratio 100
LABELS = [0, 0, 0, 0, 0, 0, 1, 1]  # of the whole batch: the first processes have none of the small class
IMAGES = torch.randn(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        return {"logits": self.head(x)}


def gradient_of_the_whole_batch(model: Model, drw: DRW) -> Tensor:
    twin = copy.deepcopy(model)
    F.cross_entropy(twin(IMAGES)["logits"], torch.tensor(LABELS), weight=drw(0)).backward()
    assert twin.head.weight.grad is not None
    return twin.head.weight.grad


def by_hand(logits: Tensor, labels: Tensor, drw: DRW) -> Tensor:
    weights = drw(0)
    return global_mean(F.cross_entropy(logits, labels, weight=weights, reduction="sum"), weights[labels].sum())


def by_drw(logits: Tensor, labels: Tensor, drw: DRW) -> Tensor:
    return drw.weighted_mean(F.cross_entropy(logits, labels, reduction="none"), labels, 0)


def loops_of_ones_own() -> None:
    drw = DRW(COUNTS, 1, start=0.0).double()
    size = len(LABELS) // dist.get_world_size()
    mine = slice(dist.get_rank() * size, (dist.get_rank() + 1) * size)
    for loss in (by_hand, by_drw):
        model = Model().double()
        parallel = DistributedDataParallel(model)
        loss(parallel(IMAGES[mine])["logits"], torch.tensor(LABELS[mine]), drw).backward()
        torch.testing.assert_close(model.head.weight.grad, gradient_of_the_whole_batch(model, drw))
    if dist.get_rank() == 0:  # evaluation waits for nobody
        with torch.no_grad():
            by_drw(model(IMAGES)["logits"], torch.tensor(LABELS), drw)


def hugging_face() -> None:
    import transformers

    from procrustean.balance import MFWTrainer

    model, drw = Model(), DRW(COUNTS, 1, start=0.0)
    before = model.head.weight.detach().clone()
    wanted = gradient_of_the_whole_batch(copy.deepcopy(model).double(), copy.deepcopy(drw).double()).float()
    rows: Any = [{"x": x.float(), "labels": label} for x, label in zip(IMAGES, LABELS, strict=True)]
    args = transformers.TrainingArguments(
        output_dir=".", num_train_epochs=1, per_device_train_batch_size=len(LABELS) // dist.get_world_size(),
        optim="sgd", learning_rate=1.0, lr_scheduler_type="constant", max_grad_norm=0.0, report_to=[], use_cpu=True,
        ddp_backend="gloo", save_strategy="no", logging_strategy="no", disable_tqdm=True,
        train_sampling_strategy="sequential",
    )  # fmt: skip
    MFWTrainer(model=model, args=args, train_dataset=rows, drw=drw).train()
    torch.testing.assert_close(before - model.head.weight.detach(), wanted)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    loops_of_ones_own()
    hugging_face()
    dist.destroy_process_group()

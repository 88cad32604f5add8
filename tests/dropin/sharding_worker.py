"""One of two processes that train on a class-balanced sampler in the loop of each framework, one after the other.

python sharding_worker.py, with the variables of torchrun; prints the images that it has seen, by loop and epoch.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from missing_operators import declare_missing_operators
from procrustean.balance import ClassBalancedSampler

declare_missing_operators()  # of torchvision, which Lightning and transformers import

LABELS = [0] * 180 + [1] * 20
EPOCHS = 2


class Images(Dataset[dict[str, Tensor]]):
    """Every image is its own number; remembers which were seen."""

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": torch.tensor([float(index)]), "labels": torch.tensor(LABELS[index])}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 2)
        self.seen: list[int] = []

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        self.seen += x[:, 0].int().tolist()
        logits = self.head(x / len(LABELS))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def balanced_loader() -> DataLoader[dict[str, Tensor]]:
    return DataLoader(Images(), batch_size=10, sampler=ClassBalancedSampler(LABELS, seed=3))


def train(loader: DataLoader[Any], model: nn.Module) -> None:
    for batch in loader:
        model(**batch)["loss"].backward()


def plain(model: Model) -> None:
    """The sampler is made before the processes know of each other."""
    loader = balanced_loader()
    torch.distributed.init_process_group("gloo")
    parallel = nn.parallel.DistributedDataParallel(model)
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        train(loader, parallel)


def accelerate(model: Model, **settings: Any) -> None:
    from accelerate import Accelerator, DataLoaderConfiguration

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**settings))
    parallel, loader = accelerator.prepare(model, balanced_loader())
    for _ in range(EPOCHS):
        train(loader, parallel)


def dispatched(model: Model) -> None:
    """The first process fetches the images of both."""
    accelerate(model, dispatch_batches=True)


def unprepared(model: Model) -> None:
    """A loader that accelerate is not told of."""
    from accelerate import Accelerator

    loader, parallel = balanced_loader(), Accelerator(cpu=True).prepare(model)
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        train(loader, parallel)


def hugging_face(model: Model) -> None:
    import transformers

    class Trainer(transformers.Trainer):  # type: ignore[name-defined,misc]
        def _get_train_sampler(self, *_: Any) -> ClassBalancedSampler:
            return ClassBalancedSampler(LABELS, seed=3)

    args = transformers.TrainingArguments(
        output_dir=".", num_train_epochs=EPOCHS, per_device_train_batch_size=10, report_to=[], save_strategy="no",
        use_cpu=True, ddp_backend="gloo", disable_tqdm=True, logging_strategy="no",
    )  # fmt: skip
    Trainer(model=model, args=args, train_dataset=Images()).train()


def lightning(model: Model, *, shards: bool = True) -> None:
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = model

        def train_dataloader(self) -> DataLoader[Any]:
            return balanced_loader()

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            loss: Tensor = self.net(**batch)["loss"]
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    pl.Trainer(
        max_epochs=EPOCHS, accelerator="cpu", devices=2, strategy="ddp", use_distributed_sampler=shards, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    ).fit(Module())  # fmt: skip


def lightning_left_alone(model: Model) -> None:
    lightning(model, shards=False)


LOOPS = (plain, accelerate, dispatched, unprepared, lightning, lightning_left_alone, hugging_face)

if __name__ == "__main__":
    seen = {}
    for loop in LOOPS:
        loop(model := Model())
        half = len(model.seen) // EPOCHS
        seen[loop.__name__] = [model.seen[:half], model.seen[half:]]
    torch.distributed.destroy_process_group()
    print(json.dumps(seen))

"""A class-balanced sampler in Lightning, from train_dataloader, on any number of devices.

python examples/lightning_sampler.py
"""

import argparse

import lightning.pytorch as pl  # in the clone: pip install -c constraints.txt -e '.[lightning]'
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from procrustean import data
from procrustean.balance import ClassBalancedSampler
from procrustean.nets import build_net

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
epochs = parser.parse_args().epochs
pl.seed_everything(0)


def tensors(images):
    return TensorDataset(torch.tensor(images.images).permute(0, 3, 1, 2) / 255, torch.tensor(images.labels))


class Digits(pl.LightningModule):
    def __init__(self, images):
        super().__init__()
        self.net, self.images = build_net("small", channels=1, classes=10, seed=0), images

    def train_dataloader(self):  # Lightning says which epoch it is, and the devices share its images
        sampler = ClassBalancedSampler(self.images.tensors[1], seed=0)
        return DataLoader(self.images, batch_size=32, sampler=sampler)

    def training_step(self, batch, index):
        images, labels = batch
        return F.cross_entropy(self.net(images), labels)

    def test_step(self, batch, index):
        images, labels = batch
        self.log("accuracy", (self.net(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)


made = data.build(data.load_source("digits"), imbalance="step", rho=20)
module = Digits(tensors(made.train))
trainer = pl.Trainer(
    max_epochs=epochs, accelerator="auto", logger=False, enable_checkpointing=False, log_every_n_steps=1
)
trainer.fit(module)
trainer.test(module, DataLoader(tensors(made.test), batch_size=256))

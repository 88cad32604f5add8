"""MFW in Lightning: a callback for the features, a DRW in the module for the class weights.

python examples/lightning_callback.py
"""

import argparse

import lightning.pytorch as pl  # in the clone: pip install -c constraints.txt -e '.[lightning]'
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from procrustean import DRW, MFW, class_counts, data
from procrustean.balance import MFWCallback
from procrustean.nets import build_net

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
epochs = parser.parse_args().epochs
pl.seed_everything(0)


class Digits(pl.LightningModule):
    def __init__(self, net: nn.Module, drw: DRW):
        super().__init__()
        self.net, self.drw = net, drw

    def training_step(self, batch, index):
        images, labels = batch
        losses = F.cross_entropy(self.net(images), labels, reduction="none")
        return self.drw.weighted_mean(losses, labels, self.current_epoch)  # on any number of devices

    def test_step(self, batch, index):
        images, labels = batch
        self.log("accuracy", (self.net(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)


def loader(images, shuffle=False):
    pixels = torch.tensor(images.images).permute(0, 3, 1, 2) / 255
    return DataLoader(TensorDataset(pixels, torch.tensor(images.labels)), batch_size=32, shuffle=shuffle)


made = data.build(data.load_source("digits"), imbalance="step", rho=20)
train = loader(made.train, shuffle=True)
counts = class_counts(train)
module = Digits(build_net("small", channels=1, classes=10, seed=0), DRW(counts, epochs))
trainer = pl.Trainer(
    max_epochs=epochs, callbacks=[MFWCallback(MFW(counts), "net.backbone.group2")],
    accelerator="auto", logger=False, enable_checkpointing=False, log_every_n_steps=1,
)  # fmt: skip
trainer.fit(module, train)
trainer.test(module, loader(made.test))

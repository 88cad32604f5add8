"""A class-balanced sampler in a loop on accelerate, from the loader it prepares, on any number of processes.

accelerate launch examples/accelerate_sampler.py
"""

import argparse

import torch
from accelerate import Accelerator  # in the clone: pip install -c constraints.txt -e '.[transformers]'
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from procrustean import data
from procrustean.balance import ClassBalancedSampler
from procrustean.nets import build_net

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
epochs = parser.parse_args().epochs


def tensors(images):
    return TensorDataset(torch.tensor(images.images).permute(0, 3, 1, 2) / 255, torch.tensor(images.labels))


made = data.build(data.load_source("digits"), imbalance="step", rho=20)
train, test = tensors(made.train), tensors(made.test)
loader = DataLoader(train, batch_size=32, sampler=ClassBalancedSampler(train.tensors[1], seed=0))
model = build_net("small", channels=1, classes=10, seed=0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
accelerator = Accelerator()
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

for _ in range(epochs):  # accelerate says which epoch it is, and the processes share its images
    for images, labels in loader:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()

model.eval()
images, labels = (part.to(accelerator.device) for part in test.tensors)
with torch.no_grad():
    right = model(images).argmax(1) == labels
recall = [right[labels == c].float().mean().item() for c in range(10)]
accelerator.print(f"balanced accuracy {100 * sum(recall) / 10:.1f} %")
accelerator.end_training()

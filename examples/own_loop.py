"""MFW and deferred re-weighting in a training loop of your own, on imbalanced digits.

python examples/own_loop.py
"""

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from procrustean import DRW, MFW, class_counts, data
from procrustean.balance import suggest

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
epochs = parser.parse_args().epochs
torch.manual_seed(0)


def tensors(images):
    return TensorDataset(torch.tensor(images.images).permute(0, 3, 1, 2) / 255, torch.tensor(images.labels))


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())


made = data.build(data.load_source("digits"), imbalance="step", rho=20)
train, test = tensors(made.train), tensors(made.test)
loader = DataLoader(train, batch_size=32, shuffle=True)
model = nn.Sequential(block(1, 16), block(16, 32), block(32, 64), nn.Flatten(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)

counts = class_counts(train)
handle = MFW(counts).attach(model, suggest(model, train[:2][0]).second_group)
drw = DRW(counts, epochs)

for epoch in range(epochs):
    model.train()
    for images, labels in loader:
        with handle(labels):
            loss = F.cross_entropy(model(images), labels, weight=drw(epoch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

model.eval()
images, labels = test.tensors
with torch.no_grad():
    right = model(images).argmax(1) == labels
recall = [right[labels == c].float().mean().item() for c in range(10)]
print(f"balanced accuracy {100 * sum(recall) / 10:.1f} %, minor classes {100 * sum(recall[5:]) / 5:.1f} %")

"""Fine-tune a timm model with MFW; without --pretrained it starts from random weights and needs no network.

python examples/timm_finetuning.py --model resnet18 --size 64 --pretrained
"""

import argparse

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from procrustean import DRW, MFW, class_counts, data, recalibrate
from procrustean.balance import suggest

try:
    import timm  # in the clone: pip install -c constraints.txt -e '.[nets]'
except RuntimeError as error:  # of a torchvision that was built for another torch
    raise SystemExit(f"timm cannot be imported ({error}); procrustean doctor says what to do") from None
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="test_resnet")
parser.add_argument("--size", type=int, default=32)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--pretrained", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"


def tensors(images):
    pixels = torch.tensor(images.images).permute(0, 3, 1, 2) / 127.5 - 1
    large = F.interpolate(pixels, (args.size, args.size), mode="bilinear").expand(-1, 3, -1, -1)
    return TensorDataset(large, torch.tensor(images.labels))


made = data.build(data.load_source("digits"), imbalance="step", rho=20)
train, test = tensors(made.train), tensors(made.test)
loader = DataLoader(train, batch_size=32, shuffle=True, drop_last=True)
model = timm.create_model(args.model, pretrained=args.pretrained, num_classes=10).to(device)
layers = suggest(model, train[:2][0].to(device))
print(layers)
counts = class_counts(train)
handle = MFW(counts).attach(model, layers.second_group)
drw = DRW(counts, args.epochs).to(device)
ema = timm.utils.ModelEmaV3(model, decay=0.99)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(args.epochs):
    model.train()
    for images, labels in ((x.to(device), y.to(device)) for x, y in loader):
        with handle(labels):
            loss = F.cross_entropy(model(images), labels, weight=drw(epoch))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)

recalibrate(ema.module, loader)  # on mixed batches, as in training
with torch.no_grad():
    scores = torch.cat([ema.module(x.to(device)).cpu() for x, _ in DataLoader(test, batch_size=256)])
right, labels = scores.argmax(1) == test.tensors[1], test.tensors[1]
print(f"balanced accuracy {100 * sum(right[labels == c].float().mean().item() for c in range(10)) / 10:.1f} %")

"""A data set of your own, a class-balanced sampler and MFW, on several processes.

torchrun --nproc-per-node 2 examples/balanced_ddp.py
"""

import argparse

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from procrustean import MFW, class_counts
from procrustean.balance import ClassBalancedSampler
from procrustean.nets import build_net


class Stripes(Dataset):  # noise with a bright stripe whose place is the class
    def __init__(self, counts, seed):
        self.labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
        self.images = torch.randn(len(self.labels), 1, 8, 8, generator=torch.Generator().manual_seed(seed))
        self.images += 1.5 * F.one_hot(self.labels).repeat_interleave(2, dim=1)[:, None, None]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
epochs = parser.parse_args().epochs
try:
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
except ValueError:  # nobody has said which process this is
    parser.error("start it with: torchrun --nproc-per-node 2 examples/balanced_ddp.py")
device = torch.device("cuda", dist.get_node_local_rank()) if torch.cuda.is_available() else torch.device("cpu")
train, test = Stripes([200, 200, 10, 10], seed=0), Stripes([50] * 4, seed=1)
sampler = ClassBalancedSampler(train.labels, seed=0)  # every process draws its own part of one sequence
loader = DataLoader(train, batch_size=32, sampler=sampler)
model = build_net("small", channels=1, classes=4, seed=0).to(device)
handle = MFW(class_counts(train)).attach(model, "group2")  # attach, then wrap
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)

for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for images, labels in ((x.to(device), y.to(device)) for x, y in loader):
        with handle(labels):
            loss = F.cross_entropy(ddp(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
if dist.get_rank() == 0:
    right = model.eval()(test.images.to(device)).argmax(1).cpu() == test.labels
    print(f"{dist.get_world_size()} processes: accuracy {100 * right.float().mean():.1f} %")
dist.barrier()
dist.destroy_process_group()

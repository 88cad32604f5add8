"""A class-balanced sampler in the Hugging Face Trainer, from _get_train_sampler, on any number of devices.

python examples/huggingface_sampler.py
"""

import argparse

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments  # in the clone: pip install -c constraints.txt -e '.[transformers]'

from procrustean import data
from procrustean.balance import ClassBalancedSampler
from procrustean.nets import build_net

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--output", default="runs/huggingface")
args = parser.parse_args()


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = build_net("small", channels=1, classes=10, seed=0)

    def forward(self, images, labels):
        scores = self.net(images)
        return {"loss": F.cross_entropy(scores, labels), "logits": scores}


class BalancedTrainer(Trainer):
    def _get_train_sampler(self, *_):  # the Trainer says which epoch it is, and the devices share its images
        return ClassBalancedSampler([int(row["labels"]) for row in self.train_dataset], seed=0)


def rows(images):
    pixels = torch.tensor(images.images).permute(0, 3, 1, 2) / 255
    return [{"images": x, "labels": y} for x, y in zip(pixels, torch.tensor(images.labels), strict=True)]


def balanced_accuracy(prediction):
    right = prediction.predictions.argmax(1) == prediction.label_ids
    return {"balanced_accuracy": float(np.mean([right[prediction.label_ids == c].mean() for c in range(10)]))}


made = data.build(data.load_source("digits"), imbalance="step", rho=20)
settings = TrainingArguments(
    output_dir=args.output, num_train_epochs=args.epochs, per_device_train_batch_size=32, learning_rate=2e-3,
    save_strategy="no", report_to=[], logging_steps=50, disable_tqdm=True,
)  # fmt: skip
trainer = BalancedTrainer(
    model=Digits(), args=settings, train_dataset=rows(made.train), eval_dataset=rows(made.test),
    compute_metrics=balanced_accuracy,
)  # fmt: skip
trainer.train()
print(trainer.evaluate())

"""MFW and deferred re-weighting in the Hugging Face Trainer, on a small vision transformer.

python examples/huggingface_trainer.py
"""

import argparse

import numpy as np
from datasets import ClassLabel, Dataset  # in the clone: pip install -c constraints.txt -e '.[tables,transformers]'
from transformers import TrainingArguments, ViTConfig, ViTForImageClassification  # -e '.[tables,transformers]'

from procrustean import DRW, MFW, class_counts, data
from procrustean.balance import MFWTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--output", default="runs/huggingface")
args = parser.parse_args()


def dataset(images):
    pixels = (images.images.transpose(0, 3, 1, 2) / 255).astype(np.float32)
    made = Dataset.from_dict({"pixel_values": list(pixels), "labels": images.labels})
    return made.cast_column("labels", ClassLabel(names=list(images.classes))).with_format("torch")


def balanced_accuracy(prediction):
    right = prediction.predictions.argmax(1) == prediction.label_ids
    return {"balanced_accuracy": float(np.mean([right[prediction.label_ids == c].mean() for c in range(10)]))}


made = data.build(data.load_source("digits"), imbalance="step", rho=20)
train, test = dataset(made.train), dataset(made.test)
config = ViTConfig(
    image_size=8, patch_size=2, num_channels=1, hidden_size=48, num_hidden_layers=6, num_attention_heads=4,
    intermediate_size=96, num_labels=10,
)  # fmt: skip
counts = class_counts(train, "labels")
trainer = MFWTrainer(
    model=ViTForImageClassification(config),
    args=TrainingArguments(
        output_dir=args.output, num_train_epochs=args.epochs, per_device_train_batch_size=32, learning_rate=2e-3,
        save_strategy="no", report_to=[], logging_steps=50, disable_tqdm=True,
    ),
    train_dataset=train,
    eval_dataset=test,
    compute_metrics=balanced_accuracy,
    mfw=MFW(counts),
    layer="vit.layers.1",  # the end of the first third: procrustean.balance.suggest says so
    drw=DRW(counts, args.epochs),
)  # fmt: skip
trainer.train()
print(trainer.evaluate())

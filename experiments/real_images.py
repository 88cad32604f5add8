"""The measurements of docs/photographs.md: `procrustean train` with nothing chosen, beside what its user would write.

    python experiments/real_images.py DATA --output results/real-images.json

DATA holds chest.zip, hands.zip, grocery.zip and leaves.zip: in each NAME/train/CLASS/*.jpg and NAME/test/CLASS/*.jpg.
Training sees NAME/train alone; the test images are read once, by the network that training has ended with. Every
measurement is one row of the file, written as soon as it is made; what is there is not measured again. On one thread.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import resource
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn import functional as F

from procrustean.nets import build_net
from procrustean.nets.pretrained import read_pretrained
from procrustean.records import load_result

SETS = ("chest", "hands", "grocery", "leaves")
#: Training images; None for all.
SIZES = (None, 200, 40)
SEEDS = (0, 1, 2)
#: Where a mirror image never occurs: baselines do without, as a user who knows that would write them.
UNMIRRORED = ("hands",)
BATCH = 32
COMMAND = "python experiments/real_images.py DATA"
Loaded = tuple[Tensor, Tensor]


def unpacked(data: Path, name: str, size: int | None, seed: int, work: Path) -> Path:
    """A folder with train and test; of `size` training images, at least two of each class, drawn in proportion."""
    with zipfile.ZipFile(data / f"{name}.zip") as archive:
        archive.extractall(work)
    folder = work / name
    files = {kind: sorted(kind.iterdir()) for kind in sorted((folder / "train").iterdir())}
    share = 1.0 if size is None else size / sum(map(len, files.values()))
    random = np.random.RandomState(seed)
    for paths in files.values():
        for position in random.permutation(len(paths))[max(2, round(share * len(paths))) :]:
            paths[position].unlink()
    return folder


def images(folder: Path, side: int) -> Loaded:
    """Pixels -1..1 of the middle squares, the shorter side brought to `side`, and labels."""
    pixels, labels = [], []
    for label, kind in enumerate(sorted(folder.iterdir())):
        for path in sorted(kind.iterdir()):
            image = Image.open(path).convert("RGB")
            scale = side / min(image.size)
            size = max(side, round(image.width * scale)), max(side, round(image.height * scale))
            left, top = (size[0] - side) // 2, (size[1] - side) // 2
            cut = image.resize(size, Image.Resampling.BICUBIC).crop((left, top, left + side, top + side))
            pixels.append(np.array(cut))
            labels.append(label)
    return (torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float() - 127) / 128, torch.tensor(labels)


def augmented(x: Tensor, mirror: bool) -> Tensor:
    """Of each image a random part, 0.4 to 1 of its area, every other one mirrored."""
    n = len(x)
    side, stretch = torch.empty(n).uniform_(0.4, 1).sqrt(), torch.empty(n).uniform_(-0.15, 0.15).exp()
    wide, high = (side * stretch).clamp(max=1), (side / stretch).clamp(max=1)
    theta = torch.zeros(n, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = wide * torch.where(torch.rand(n) < 0.5 * mirror, -1.0, 1.0), high
    theta[:, 0, 2], theta[:, 1, 2] = (torch.rand(n) * 2 - 1) * (1 - wide), (torch.rand(n) * 2 - 1) * (1 - high)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def fitted(
    net: nn.Module, parameters: list[dict[str, Any]], train: Loaded, epochs: int, prior: Tensor, mirror: bool
) -> None:
    """AdamW and one cycle; `prior` is added to the scores while training."""
    x, y = train
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.05)
    steps = epochs * math.ceil(len(x) / BATCH)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [group["lr"] for group in parameters], total_steps=steps, pct_start=0.2
    )
    net.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(BATCH):
            if len(rows) > 1:
                loss = F.cross_entropy(net(augmented(x[rows], mirror)) + prior, y[rows], label_smoothing=0.05)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 2.0)
                optimizer.step()
            cycle.step()
    net.eval()


@torch.no_grad()
def scored(net: nn.Module, x: Tensor, mirror: bool) -> Tensor:
    """Means over both views where images are mirrored."""
    return torch.cat([(net(part) + net(part.flip(3) if mirror else part)) / 2 for part in x.split(64)])


def log_prior(y: Tensor) -> Tensor:
    counts = torch.bincount(y).float()
    return (counts / counts.sum()).log()


def balanced(scores: Tensor, y: Tensor) -> float:
    return float(balanced_accuracy_score(y, scores.argmax(1)))


def plain_cnn(folder: Path, mirror: bool) -> float:
    """Six convolutions at 64 pixels, the log of the class shares taken out of the scores in the end."""
    train, test = images(folder / "train", 64), images(folder / "test", 64)

    def block(before: int, after: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True)]

    prior = log_prior(train[1])
    net = nn.Sequential(
        *block(3, 32, 2), *block(32, 64), nn.MaxPool2d(2), *block(64, 128), *block(128, 128), nn.MaxPool2d(2),
        *block(128, 256), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, len(prior)),
    )  # fmt: skip
    fitted(net, [{"params": list(net.parameters()), "lr": 3e-3}], train, 30, torch.zeros(len(prior)), mirror)
    return balanced(scored(net, test[0], mirror) - prior, test[1])


def pretrained(classes: int) -> nn.Module:
    weights = read_pretrained("published", "efficientnet_lite0", lambda text: None)
    return build_net("efficientnet_lite0", channels=3, classes=classes, seed=0, size=(224, 224), pretrained=weights)


def frozen_features(folder: Path, mirror: bool) -> float:
    """Logistic regression with balanced class weights on features of EfficientNet-Lite0 at 224 pixels."""
    net = pretrained(2).eval()
    found = []
    for split in ("train", "test"):
        x, y = images(folder / split, 256)
        with torch.no_grad():
            features = [net.get_submodule("backbone")(part[:, :, 16:240, 16:240]) for part in x.split(32)]
        found.append((torch.cat(features).numpy(), y.numpy()))
    (x, y), (test, truth) = found
    folds = min(3, int(np.bincount(y).min()))
    regression = LogisticRegressionCV(
        Cs=[0.003, 0.01, 0.03, 0.1, 0.3], cv=folds, class_weight="balanced", scoring="balanced_accuracy", max_iter=300
    )
    return float(balanced_accuracy_score(truth, make_pipeline(StandardScaler(), regression).fit(x, y).predict(test)))


def fine_tuning(folder: Path, mirror: bool) -> float:
    """EfficientNet-Lite0 end to end at 128 pixels with balanced softmax."""
    train, test = images(folder / "train", 128), images(folder / "test", 128)
    prior = log_prior(train[1])
    net = pretrained(len(prior))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 0.1  # that of the weights is too slow for a few hundred steps
    backbone, head = (list(net.get_submodule(part).parameters()) for part in ("backbone", "head"))
    groups: list[dict[str, Any]] = [{"params": backbone, "lr": 3e-4}, {"params": head, "lr": 1e-3}]
    fitted(net, groups, train, 12 if len(train[0]) < 1000 else 8, prior, mirror)
    return balanced(scored(net, test[0], mirror), test[1])


BASELINES: dict[str, Callable[[Path, bool], float]] = {
    "plain CNN": plain_cnn, "frozen features": frozen_features, "end to end": fine_tuning,
}  # fmt: skip


def by_baseline(name: str, folder: Path, seed: int, work: Path) -> dict[str, Any]:
    torch.manual_seed(seed)
    began = time.process_time()
    value = BASELINES[name](folder, folder.name not in UNMIRRORED)
    return {"balanced_accuracy": value, "cpu_seconds": time.process_time() - began}


def by_default(folder: Path, seed: int, work: Path) -> dict[str, Any]:
    """`procrustean train FOLDER` on the training images alone, in a new home without kept features."""
    run = work / "run"
    home = {"HOME": str(work / "home"), "XDG_CACHE_HOME": str(work / "home/cache"), "OMP_NUM_THREADS": "1"}
    command = (sys.executable, "-m", "procrustean")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    trained = ("train", folder / "train", "--seed", seed, "--device", "cpu", "--run-dir", run)
    subprocess.run([*command, *map(str, trained)], check=True, env={**os.environ, **home}, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answers = work / "answers.csv"
    predicted = ("predict", run, folder / "test", "--output", answers)
    subprocess.run([*command, *map(str, predicted)], check=True, env={**os.environ, **home}, stdout=subprocess.DEVNULL)
    with answers.open() as file:
        rows = list(csv.DictReader(file))
    record = load_result(run).record
    measures = record.image_measures
    return {
        "balanced_accuracy": float(
            balanced_accuracy_score([Path(row["file"]).parent.name for row in rows], [row["class"] for row in rows])
        ),
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "told": record.selections.last.metrics.balanced_accuracy,
        "interval": None if measures is None else measures.interval,
        "net": record.recipe.net,
        "tune": record.config.tune,
        "image_size": record.config.image_size,
        "epochs": record.recipe.epochs,
    }


WAYS = (*BASELINES, "default")


def table(rows: list[dict[str, Any]], size: int | None) -> str:
    """Test balanced accuracy in % and CPU seconds of each way, mean ± standard deviation over the seeds."""
    lines = ["| set | " + " | ".join(WAYS) + " |", "|---|" + "---:|" * len(WAYS)]
    for name in SETS:
        cells = []
        for way in WAYS:
            found = [row for row in rows if (row["set"], row["images"], row["way"]) == (name, size, way)]
            values = [100 * row["balanced_accuracy"] for row in found]
            seconds = fmean(row["cpu_seconds"] for row in found) if found else 0
            spread = f" ± {stdev(values):.1f} ({len(values)})" if len(values) > 1 else " (1)"
            cells.append(f"{fmean(values):.1f}{spread}, {seconds:.0f} s" if found else "—")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output", type=Path, default=Path("results/real-images.json"))
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[size or 0 for size in SIZES], help="0 for all images")
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--ways", nargs="+", default=["default", *BASELINES])
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = json.loads(given.output.read_text())["rows"] if given.output.exists() else []
    for size in given.sizes:
        for seed in given.seeds:
            for name in given.sets:
                for way in given.ways:
                    key = {"set": name, "images": size or None, "seed": seed, "way": way}
                    if any(key.items() <= row.items() for row in rows):
                        continue
                    with TemporaryDirectory() as work:
                        folder = unpacked(given.data, name, size or None, seed, Path(work))
                        measured = by_default if way == "default" else partial(by_baseline, way)
                        found = measured(folder, seed, Path(work))
                    rows.append({**key, **found})
                    sys.stderr.write(f"{rows[-1]}\n")
                    content = {"command": COMMAND, "torch": torch.__version__, "rows": rows}
                    given.output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

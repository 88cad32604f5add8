"""The measurements of docs/own-images.md: the blood cells as they are, and with two classes cut to 20 training images.

    python experiments/own_images.py bccd --work runs/own-images --output results/own-images

`bccd` is the unpacked folder (train, val and test, a folder per class). For each seed one comparison of
`--method auto`; plain training, MFW and MFW with DRW are among its candidates. What is finished is not repeated.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

from procrustean import fit
from procrustean.base.progress import PlainReporter

RARE = ("Platelets", "WBC")
KEPT = 20  # training images of each rare class
SEEDS = (0, 1, 2)


def cut(source: Path, target: Path, seed: int) -> Path:
    """A copy of the folder with few training images of the rare classes, others for every seed."""
    if not target.exists():
        unfinished = target.with_name(target.name + ".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(source, unfinished)
        random = np.random.RandomState(seed)
        for name in RARE:
            files = sorted((unfinished / "train" / name).iterdir())
            for index in random.permutation(len(files))[KEPT:]:
                files[index].unlink()
        unfinished.rename(target)
    return target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("--work", type=Path, default=Path("runs/own-images"))
    parser.add_argument("--output", type=Path, default=Path("results/own-images"))
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    for seed in SEEDS:
        for setting in ("as-it-is", "cut"):
            source = given.source if setting == "as-it-is" else cut(given.source, given.work / f"bccd-cut-{seed}", seed)
            folder = given.work / f"{setting}-seed{seed}"
            settings = {"seed": seed, "run_dir": str(folder), "device": "cpu"}
            fit(str(source), method="auto", minutes=600, reporter=PlainReporter(), **settings)
            keep(folder, given.output, f"{setting}-seed{seed}")


def keep(folder: Path, output: Path, name: str) -> None:
    """Copy the results of a comparison, without the paths of this machine."""
    output.mkdir(parents=True, exist_ok=True)
    record = json.loads((folder / "auto.json").read_text())
    kept = {"chosen": record["chosen"], "compared": record["compared"]}
    (output / f"{name}-auto.json").write_text(json.dumps(kept, indent=1) + "\n")
    for run in sorted(path.parent for path in folder.glob("*/result.json")):
        result = json.loads((run / "result.json").read_text())
        result["config"] |= {"source": "bccd", "run_dir": None}
        (output / f"{name}-{run.name}.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()

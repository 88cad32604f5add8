"""Which correction for the class sizes does best on photographs, for each way to train them.

    python experiments/corrections.py DATA --output results/corrections.json

DATA holds the folders of chest.zip, hands.zip, grocery.zip and leaves.zip, unpacked. Each correction trains on two
thirds of NAME/train, by the settings that `procrustean train` gives its trials, and is measured on the last third; the
test images are not read. A measurement is written as soon as it is made, and what is there is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from procrustean import fit
from procrustean.records import RunSpec
from procrustean.runs.image_loading import Sources
from procrustean.runs.ways import HELD_OUT, open_ways

SETS = ("chest", "hands", "grocery", "leaves")
SEEDS = (0, 1, 2)
WAYS = ("features", "scratch")
#: Method, and whether its classes are weighted in the last fifth of the epochs.
CORRECTIONS = (
    ("erm", False), ("erm", True), ("balanced_softmax", False), ("class_balanced", False), ("focal", False),
    ("ldam", True), ("mfw", False), ("mfw", True), ("remix", True), ("crt", False), ("tau_norm", False),
)  # fmt: skip
COMMAND = "python experiments/corrections.py DATA"
Job = dict[str, Any]


def jobs() -> Iterator[Job]:
    for seed in SEEDS:
        for name in SETS:
            for way in WAYS:
                for method, drw in CORRECTIONS:
                    yield {"set": name, "seed": seed, "way": way, "method": method, "drw": drw}


def measured(job: Job, data: Path, device: str) -> Job:
    """The job with the balanced accuracy of the last epoch on the images that were held out."""
    torch.set_num_threads(1)
    source = str(data / job["set"] / "train")
    asked = RunSpec(source=source, method=job["method"], drw=job["drw"], device=device)
    way = next(way for way in open_ways(asked, Sources()) if way.kind == job["way"])
    began = time.monotonic()
    with TemporaryDirectory() as work:
        config = replace(way.config, hold_out=HELD_OUT, seed=job["seed"], data_seed=job["seed"], evaluate_every=10**6)
        curves = fit(replace(config, run_dir=Path(work) / "run")).record.curves
    assert curves.held_out_balanced_accuracy is not None
    value = curves.held_out_balanced_accuracy[-1]
    return {**job, "held_out_balanced_accuracy": value, "seconds": time.monotonic() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output", type=Path, default=Path("results/corrections.json"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--ways", nargs="+", default=WAYS)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    rows = json.loads(given.output.read_text())["rows"] if given.output.exists() else []
    left = [job for job in jobs() if job["way"] in given.ways and not any(job.items() <= row.items() for row in rows)]
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(measured, job, given.data, given.device) for job in left]):
            rows.append(done.result())
            sys.stderr.write(f"{rows[-1]}\n")
            content = {"command": COMMAND, "torch": torch.__version__, "rows": sorted(rows, key=order)}
            given.output.write_text(json.dumps(content, indent=1) + "\n")


def order(row: Job) -> tuple[int, ...]:
    correction = (row["method"], row["drw"])
    return WAYS.index(row["way"]), SETS.index(row["set"]), CORRECTIONS.index(correction), row["seed"]


if __name__ == "__main__":
    main()

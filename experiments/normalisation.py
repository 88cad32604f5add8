"""Train the runs of a grid and test each final network with its own and with recomputed batch-norm statistics.

    python experiments/normalisation.py --minutes 9

For the weights of the last epoch and for their averages along training (EMA, SWA), each tested with the statistics kept
from training, recomputed on batches mixed as in training, and recomputed on clean ones. Every finished run leaves one
JSON file; give the same command again to go on. The page is made from the files by experiments/normalisation_page.py.
"""

from __future__ import annotations

import copy
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import tyro
from safetensors.torch import load_file

from procrustean.balance.batch_statistics import batch_norms
from procrustean.base import ProcrusteanError, make_reporter
from procrustean.base.json_files import to_plain
from procrustean.base.yaml_files import read_yaml
from procrustean.data import Splits, load_source
from procrustean.engine.evaluation import evaluate_net, recompute_statistics
from procrustean.nets import Classifier
from procrustean.records import RunSpec
from procrustean.records.checkpoints import write_atomically
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import load_result
from procrustean.runs import expand, fit_many, load_run

HERE = Path(__file__).parent
WEIGHTS = ("last", "ema", "swa")
STATISTICS = ("kept", "mixed", "clean")
#: Share of the time that is left for testing what has been trained.
RESERVE = 0.15
#: What is kept of the metrics of one test.
METRICS = ("accuracy", "balanced_accuracy", "recall", "groups")


@dataclass(frozen=True)
class Study:
    """Train the runs of the study and test their networks; finished work is not repeated."""

    grid: Path = HERE / "normalisation.yaml"
    """The runs."""
    runs: Path = Path("runs/normalisation")
    """Where runs are kept while they are trained."""
    results: Path = HERE.parent / "results" / "normalisation"
    """Where one JSON file per finished run is left."""
    data_dir: Path | None = None
    """Where CIFAR-10 is; default $PROCRUSTEAN_DATA or the user's cache."""
    minutes: float | None = None
    """Stop after so many minutes, saving what is in progress."""
    width: int | None = None
    """Most runs at a time; default 8 on a GPU, 1 on a CPU."""
    quiet: bool = False
    """No progress."""


def main(study: Study) -> int:
    """Returns 0 when everything is done, 3 when the time was up before, 1 when a run has failed."""
    started = time.monotonic()
    limit = float("inf") if study.minutes is None else 60 * study.minutes

    def used() -> float:
        return (time.monotonic() - started) / limit

    # Seed by seed: whenever the time is up, as many whole comparisons as possible are there.
    every = sorted(expand(read_yaml(study.grid), study.runs, origin=str(study.grid)), key=lambda config: config.seed)
    if study.data_dir is not None:
        every = [replace(config, data_dir=study.data_dir) for config in every]
    open_ones = [config for config in every if not result_file(study.results, config).exists()]
    reporter = make_reporter(quiet=study.quiet)
    reporter.say(f"{len(every) - len(open_ones)} of {len(every)} runs are trained and tested already")
    try:
        outcomes = fit_many(open_ones, width=study.width, reporter=reporter, time_up=lambda: used() > 1 - RESERVE)
    finally:
        reporter.close()
    for outcome in outcomes:
        if outcome.error is not None:
            sys.stderr.write(f"{outcome.path} failed: {outcome.error}\n")
    finished = [config for config in open_ones if RunFolder(run_folder(config)).finished]
    test_runs(finished, study.results, time_up=lambda: used() > 1)
    left = sum(not result_file(study.results, config).exists() for config in every)
    sys.stderr.write(f"{len(every) - left} of {len(every)} runs are in {study.results}\n")
    if any(outcome.error is not None for outcome in outcomes):
        return 1
    return 3 if left else 0


def test_runs(configs: list[RunSpec], results: Path, time_up: Callable[[], bool]) -> None:
    """Test the networks of finished runs, each of which leaves its file at once."""
    results.mkdir(parents=True, exist_ok=True)
    load = lru_cache(maxsize=1)(load_source)
    for config in configs:
        if time_up():
            return
        splits = load(config.source, data_dir=config.data_dir, image_size=config.image_size, data_seed=config.data_seed)
        record = tested(config, splits)
        write_atomically(result_file(results, config), (json.dumps(record, indent=1) + "\n").encode())


def tested(config: RunSpec, splits: Splits) -> dict[str, Any]:
    """What the study keeps of a run."""
    path = run_folder(config)
    record = load_result(path).record
    prepared, net = load_run(path, splits=splits)
    stores = prepared.stores()
    shown, trained = stores.evaluation(prepared.data.test), stores.training(prepared.data.train)
    tests: dict[str, dict[str, Any]] = {}
    changes: list[dict[str, float | str]] = []
    for weights in WEIGHTS:
        if weights != "last":
            net.load_state_dict(load_file(path / f"{weights}.safetensors"))
        states: dict[str, Classifier] = {}
        tests[weights] = {}
        for statistics in STATISTICS if batch_norms(net) else STATISTICS[:1]:
            states[statistics] = copy.deepcopy(net)
            recompute_statistics(prepared, states[statistics], statistics, trained)
            metrics = evaluate_net(states[statistics], shown, record.data.counts, prepared.placement.low_precision)
            tests[weights][statistics] = {name: getattr(metrics, name) for name in METRICS}
        if weights == "last" and batch_norms(net):
            changes = statistics_change(states["mixed"], states["clean"])
    return {
        "format": 1,
        "label": record.label,
        "config": {**record.config.to_json(), "run_dir": None, "data_dir": None},
        "recipe": record.recipe.to_json(),
        "data": {key: getattr(record.data, key) for key in ("source", "counts", "kind", "split_hash", "train", "test")},
        "parameters": record.method.parameters,
        "tests": tests,
        "clean_against_mixed": changes,
        "seconds": record.seconds,
        "images_per_second": record.images_per_second,
        "environment": to_plain(record.environment),
    }


@torch.no_grad()
def statistics_change(before: Classifier, after: Classifier) -> list[dict[str, float | str]]:
    """How far the statistics of two states of one network lie apart, layer by layer, in the order of the network.

    "spread" is the mean over the channels of the ratio of standard deviations, after to before; "shift" that of the
    difference of the means, in standard deviations of before.
    """
    names = [name for name, module in before.named_modules() if module in set(batch_norms(before))]
    changes: list[dict[str, float | str]] = []
    for name, one, other in zip(names, batch_norms(before), batch_norms(after), strict=True):
        assert one.running_mean is not None
        assert one.running_var is not None
        assert other.running_mean is not None
        assert other.running_var is not None
        deviation = (one.running_var + one.eps).sqrt()
        spread = (other.running_var + other.eps).sqrt() / deviation
        shift = (other.running_mean - one.running_mean).abs() / deviation
        changes.append({"layer": name, "spread": float(spread.mean()), "shift": float(shift.mean())})
    return changes


def result_file(results: Path, config: RunSpec) -> Path:
    return results / f"{config.slug}.json"


def run_folder(config: RunSpec) -> Path:
    assert config.run_dir is not None
    return config.run_dir


if __name__ == "__main__":
    warnings.simplefilter("default")
    try:
        sys.exit(main(tyro.cli(Study, description=__doc__)))
    except ProcrusteanError as error:
        sys.exit(f"normalisation: {error}")

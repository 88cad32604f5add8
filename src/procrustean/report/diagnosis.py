"""Diagnose a run: what was measured on its way, and what its weights still tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from procrustean.balance.types import Clock
from procrustean.base.epochs import Probed
from procrustean.base.errors import RunError
from procrustean.data.imageset import Splits
from procrustean.engine.prepared_run import Prepared
from procrustean.engine.probes import Probe
from procrustean.engine.stage_order import reshape_for, stage_epochs
from procrustean.engine.training import HELD_OUT_WEIGHTS, run_to_end
from procrustean.records.checkpoints import kept_checkpoints
from procrustean.records.class_curves import Curves, Diagnosed, measured_curves
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_record import Probes, RunRecord, load_result
from procrustean.records.run_spec import RunSpec
from procrustean.report.findings import Finding, verdict
from procrustean.runs.existing_runs import check_identity, prepare_again
from procrustean.runs.torch_settings import undisturbed


@dataclass(frozen=True)
class Diagnosis:
    """The measurements of a run and what they say."""

    config: RunSpec
    split_hash: str  # of its images
    probes: Probes
    curves: Curves
    findings: list[Finding]
    measured_now: dict[int, str]  # epoch, counted from 1 -> the file whose weights were measured

    def kept(self) -> Diagnosed:
        """What is written down of it."""
        return Diagnosed(
            label=self.curves.label,
            config=self.config,
            split_hash=self.split_hash,
            probes=self.probes,
            measured_now=self.measured_now,
            findings=self.findings,
        )


@dataclass(frozen=True)
class Weights:
    """Weights that a run directory holds."""

    path: Path
    epoch: int  # epochs trained when they were saved; one in progress counts
    stage: int
    prefix: str = ""  # of their names in the file

    def load(self) -> dict[str, Tensor]:
        tensors = RunFolder(self.path.parent).load_weights(self.path.name)
        return {name[len(self.prefix) :]: t for name, t in tensors.items() if name.startswith(self.prefix)}


@undisturbed()
def diagnose_run(
    run: str | Path, *, splits: Splits | None = None, say: Callable[[str], None] = lambda text: None
) -> Diagnosis:
    """Bring together what a run has measured and what can be measured on the weights it holds.

    A finished run holds its last weights, those chosen on held-out images if it has some, and those kept by
    `keep_weights_every`; an unfinished one its last two checkpoints instead of its last weights. Epochs that were
    measured during the training are not measured again.

    Args:
        run: run directory.
        splits: the data, for a run that was trained on a `Splits`.
        say: told what is being measured.
    """
    directory, config, identity = RunFolder.open(Path(run))
    if directory.finished:
        record = load_result(directory.path).record
        lengths = [stage.epochs for stage in record.method.stages]
        recorded = {} if record.probes is None else record.probes.by_epoch()
        new = _new(_weights_of_finished(directory, record), recorded)
    else:
        recorded = {epoch.epoch: epoch.probe for epoch in directory.records() if epoch.probe is not None}
    if not directory.finished or new:  # else neither the images nor the network are needed
        prepared = prepare_again(directory, config, identity, splits, say)
        check_identity(Path(run), identity, prepared, "be diagnosed")
        lengths = stage_epochs(prepared.method, prepared.recipe.epochs)
        if not directory.finished:
            new = _new(_weights_of_unfinished(directory, lengths), recorded)
        probe = _probe(prepared)
        for epoch, weights in new.items():
            say(f"measuring {weights.path.name} (epoch {epoch + 1})")
            recorded[epoch] = _measured(prepared, probe, weights)
    probes = Probes.of(recorded)
    if probes is None:
        raise RunError(f"{run} holds neither measurements nor weights yet; let it train until its first checkpoint")
    curves = measured_curves(
        probes,
        label=identity.method,
        method=config.method,
        options=identity.options,
        classes=identity.classes,
        counts=identity.counts,
        epochs=sum(lengths),
    )
    now = {epoch + 1: weights.path.name for epoch, weights in new.items()}
    return Diagnosis(config, identity.split_hash, probes, curves, verdict(curves), now)


def _new(held: list[Weights], recorded: Mapping[int, Any]) -> dict[int, Weights]:
    """The weights of epochs that are not recorded, by epoch from 0; of several of one epoch the last counts."""
    by_epoch = {weights.epoch - 1: weights for weights in held}
    return {epoch: by_epoch[epoch] for epoch in sorted(by_epoch) if epoch not in recorded}


def _weights_of_finished(directory: RunFolder, record: RunRecord) -> list[Weights]:
    ends = list(accumulate(stage.epochs for stage in record.method.stages))
    found, chosen = _kept(directory, ends), record.selections.held_out
    files = {directory.file("model.safetensors"): ends[-1]}
    if chosen is not None:
        files = {directory.file(HELD_OUT_WEIGHTS): chosen.epoch + 1, **files}
    # Of a run that was copied without its weights, what it measured is all there is.
    return [*found, *(_of_file(path, epoch, ends) for path, epoch in files.items() if path.exists())]


def _weights_of_unfinished(directory: RunFolder, lengths: Sequence[int]) -> list[Weights]:
    found = _kept(directory, list(accumulate(lengths)))
    for entry in kept_checkpoints(directory.path):
        position = entry.position
        between_stages = position["epoch"] == 0 and position["step"] == 0
        epoch = position["records"] + (position["step"] > 0)
        if epoch:
            path = directory.path / entry.file
            found.append(Weights(path, epoch, position["stage"] - between_stages, prefix="net."))
    return found


def _kept(directory: RunFolder, ends: list[int]) -> list[Weights]:
    paths = sorted(directory.path.glob("weights-*.safetensors"))
    named = [(path, re.fullmatch(r"weights-(\d{6})", path.stem)) for path in paths]
    return [_of_file(path, int(name[1]), ends) for path, name in named if name]


def _of_file(path: Path, epoch: int, ends: list[int]) -> Weights:
    if not 1 <= epoch <= ends[-1]:
        raise RunError(f"{path} is named after epoch {epoch}, but the run has {ends[-1]}; remove it")
    return Weights(path, epoch, next(number for number, end in enumerate(ends) if epoch <= end))


def _probe(prepared: Prepared) -> Probe:
    placement, data, stores = prepared.placement, prepared.data, prepared.stores()
    return Probe(
        train=stores.training(data.train),
        test=stores.evaluation(data.test),
        classes=len(data.train.classes),
        seed=prepared.config.seed,
        low_precision=placement.low_precision,
    )


def _measured(prepared: Prepared, probe: Probe, weights: Weights) -> Probed:
    net = prepared.build_net()
    for number in range(weights.stage + 1):
        reshape_for(net, prepared.method, number, prepared.config.seed)
    try:
        net.load_state_dict(weights.load())
    except (OSError, SafetensorError, RuntimeError) as error:
        raise RunError(f"{weights.path} is damaged or of another network ({error})") from error
    lengths = stage_epochs(prepared.method, prepared.recipe.epochs)
    epoch = weights.epoch - 1 - sum(lengths[: weights.stage])
    clock = Clock.at(epoch, lengths[weights.stage], prepared.placement.device)
    stage = prepared.method.stages[weights.stage]
    stage.objective.to(prepared.placement.device)
    net = net.to(prepared.placement.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return run_to_end(probe.measure(net, stage, clock)).values

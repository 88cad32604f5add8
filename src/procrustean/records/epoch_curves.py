"""The records of epochs as curves, one number or row per epoch; of a run that has ended or still goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from procrustean.records.run_record import Probes, TrainingCurves


def training_curves(records: Sequence[Mapping[str, Any]]) -> TrainingCurves:
    """Loss and rate of every epoch, and what was found at those after which the network was tested."""
    evaluated = [record for record in records if "test" in record]
    return TrainingCurves(
        loss=[record.get("loss") for record in records],
        lr=[record.get("lr") for record in records],
        evaluated=[record["epoch"] for record in evaluated],
        test_accuracy=[record["test"]["accuracy"] for record in evaluated],
        test_balanced_accuracy=[record["test"]["balanced_accuracy"] for record in evaluated],
        held_out_balanced_accuracy=[record["held_out"]["balanced_accuracy"] for record in evaluated]
        if all("held_out" in record for record in evaluated)
        else None,
        test_recall=[record["test"]["recall"] for record in evaluated],
        train_recall=[record["train"]["recall"] if "train" in record else None for record in evaluated],
    )


def probes_of(records: Sequence[Mapping[str, Any]]) -> Probes | None:
    """What was measured on the way; None if nothing was."""
    return joined_probes({record["epoch"]: record["probe"] for record in records if record.get("probe")})


def joined_probes(measured: Mapping[int, Mapping[str, Any]]) -> Probes | None:
    """What was measured after several epochs, counted from 0."""
    if not measured:
        return None
    names = [name for name in Probes.__struct_fields__ if name != "epochs"]
    columns: dict[str, Any] = {name: [measured[epoch].get(name) for epoch in sorted(measured)] for name in names}
    return Probes(epochs=sorted(measured), **columns)


def measured_after(probes: Probes) -> dict[int, dict[str, Any]]:
    """The reverse of `joined_probes`."""
    names = [name for name in Probes.__struct_fields__ if name != "epochs"]
    return {epoch: {name: getattr(probes, name)[row] for name in names} for row, epoch in enumerate(probes.epochs)}

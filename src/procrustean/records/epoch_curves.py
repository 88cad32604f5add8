"""The records of epochs as curves, one number or row per epoch; of a run that has ended or still goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def training_curves(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Loss and rate of every epoch, and what was found at those after which the network was tested."""
    evaluated = [record for record in records if "test" in record]
    return {
        "loss": [record.get("loss") for record in records],
        "lr": [record.get("lr") for record in records],
        "evaluated": [record["epoch"] for record in evaluated],
        "test_accuracy": [record["test"]["accuracy"] for record in evaluated],
        "test_balanced_accuracy": [record["test"]["balanced_accuracy"] for record in evaluated],
        "held_out_balanced_accuracy": [record["held_out"]["balanced_accuracy"] for record in evaluated]
        if all("held_out" in record for record in evaluated)
        else None,
        "test_recall": [record["test"]["recall"] for record in evaluated],
        "train_recall": [record["train"]["recall"] if "train" in record else None for record in evaluated],
    }


def probes_of(records: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """What was measured on the way; None if nothing was."""
    probed = [record for record in records if record.get("probe")]
    if not probed:
        return None
    names = probed[0]["probe"]
    return {
        "epochs": [record["epoch"] for record in probed],
        **{name: [record["probe"].get(name) for record in probed] for name in names},
    }

"""What `train --folds` has measured, as the record in the folder of its runs tells."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from procrustean.balance.metrics import Count, Metrics, Share
from procrustean.base.json_files import FORMAT, read_typed
from procrustean.records.finding_runs import FOLDS
from procrustean.records.run_spec import RunSpec


class Pooled(Struct, frozen=True, kw_only=True):
    """The answers for the images of all folds, each by the network that has not seen it."""

    classes: list[str]
    metrics: Metrics
    interval: tuple[Share, Share]
    groups: Count | None
    each: list[Share]  # headline of every fold
    untested: Count  # images that are in no fold


class Folded(Struct, frozen=True, kw_only=True):
    """The content of folds.json; `pooled` is known in the end."""

    format: Literal[1] = FORMAT
    folds: Annotated[int, Meta(ge=2)]
    asked: RunSpec
    config: RunSpec  # the same, with what was chosen for the images and the machine
    source_path: str | None = None
    pooled: Pooled | None = None


def read_folds(folder: Path) -> Folded | None:
    """The record that a folder holds; None where it holds none."""
    file = folder / FOLDS
    return read_typed(file, Folded, "train again with another --run-dir") if file.is_file() else None

"""What `procrustean diagnose` has measured of a run, for a run that measured nothing itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from procrustean.base.json_files import FORMAT, read_typed
from procrustean.records.run_record import Probes, Result
from procrustean.records.run_spec import RunSpec

#: Where diagnoses are kept, in a folder with the name of the run: a run's own folder stays as training left it.
DIAGNOSES = Path("diagnosis")
FILE = "diagnosis.json"
REMEDY = "make it anew: procrustean diagnose RUN"


class Diagnosed(Struct, frozen=True, kw_only=True):
    """The content of a diagnosis: of which run, what was measured of it, and what that says."""

    format: Literal[1] = FORMAT
    label: str  # of the method
    config: RunSpec
    split_hash: str  # of its images
    probes: Probes
    measured_now: dict[int, str]  # epoch, counted from 1 -> the file whose weights were measured
    findings: list[dict[str, Any]]


def with_diagnosis(result: Result) -> Result:
    """The result with the measurements of its diagnosis, if it has none of its own and was diagnosed from here."""
    if result.record.probes is not None or result.path is None:
        return result
    file = DIAGNOSES / result.path.parent.name / FILE
    if not file.is_file():
        return result
    diagnosed = read_typed(file, Diagnosed, REMEDY)
    if (diagnosed.config, diagnosed.split_hash) != (result.config, result.data.split_hash):
        return result  # of another run of this name
    return result.with_probes(diagnosed.probes)

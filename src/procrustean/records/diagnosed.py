"""What `procrustean diagnose` has measured of a run, for a run that measured nothing itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from procrustean.base.json_files import read_object
from procrustean.records.run_record import Result, check_record

#: Where diagnoses are kept, in a folder with the name of the run: a run's own folder stays as training left it.
DIAGNOSES = Path("diagnosis")
FILE = "diagnosis.json"

#: What has to be the same for a diagnosis to be that of a run; runs of one name may differ in all of it.
_IDENTITY = ("config", "data", "method", "recipe")


def with_diagnosis(result: Result) -> Result:
    """The result with the measurements of its diagnosis, if it has none of its own and was diagnosed from here."""
    if result.record.get("probes") or result.path is None:
        return result
    file = DIAGNOSES / result.path.parent.name / FILE
    if not file.is_file():
        return result
    diagnosis = read_object(file, "make it anew: procrustean diagnose RUN")
    if any(diagnosis.get(name) != result.record[name] for name in _IDENTITY):
        return result
    record = {**result.record, "probes": diagnosis.get("probes")}
    check_record(record, str(file))
    return replace(result, record=record)

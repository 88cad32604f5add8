"""procrustean doctor"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Doctor:
    """Check this machine: device, threads, memory, disk, data, packages.

    The exit code is 1 if something has to be mended.
    """

    data_dir: Path | None = None
    """Where data sets are found or downloaded to; default $PROCRUSTEAN_DATA or the user's cache."""

    def run(self) -> int:
        from procrustean.base.console import write_result
        from procrustean.cli.doctor.examine import examine

        found = examine(self.data_dir)
        marks = {"fine": "ok     ", "note": "note   ", "problem": "PROBLEM"}
        width = max(len(finding.topic) for finding in found)
        write_result("\n".join(f"{marks[f.level]}  {f.topic:{width}}  {f.text}" for f in found))
        problems, notes = (sum(finding.level == level for finding in found) for level in ("problem", "note"))
        noted = f", {notes} note{'s' * (notes > 1)}" if notes else ""
        write_result(f"all is well{noted}" if not problems else f"{problems} to mend{noted}, see above")
        return 1 if problems else 0

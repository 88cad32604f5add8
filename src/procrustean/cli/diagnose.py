"""procrustean diagnose"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from ..errors import RunError

if TYPE_CHECKING:
    from ..diagnose.curves import Curves
    from ..diagnose.finished import Diagnosis
    from ..report.formats import Table


@dataclass(frozen=True)
class Diagnose:
    """Say which classes a run under-fits and over-fits, when, and what that suggests; with tables and figures.

    Uses what was measured while it was trained (--probes) and measures the weights it holds: the last ones, those
    chosen on held-out images, those kept by --keep-weights-every; of an unfinished run the last two checkpoints.
    """

    run_dir: tyro.conf.Positional[Path]
    """Folder of the run."""
    output: Path | None = None
    """Folder for the figures and diagnosis.json; default diagnosis/ with the name of the run, where `figures` and
    `report` find it."""
    all_classes: bool = False
    """Draw every class, not only the largest and the smallest."""
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        from ..console import make_reporter, write_result
        from ..diagnose.diagnosed import DIAGNOSES
        from ..diagnose.finished import diagnose_run

        output = self.output or DIAGNOSES / self.run_dir.resolve().name
        # A run's folder holds what training left, and nothing else.
        if output.resolve().is_relative_to(self.run_dir.resolve()):
            raise RunError(f"{output} is inside the run {self.run_dir}, which stays as it is; give another place")
        reporter = make_reporter(quiet=self.quiet)
        try:
            diagnosis = diagnose_run(self.run_dir, say=reporter.say)
        finally:
            reporter.close()
        files = _written(diagnosis, self.run_dir, output, self.all_classes)
        write_result(f"{diagnosis.curves.label}: " + "\n".join(f"- {f.text}" for f in diagnosis.findings).lstrip("- "))
        write_result(class_table(diagnosis.curves))
        write_result("Written: " + ", ".join(map(str, files)))
        return 0


def class_table(curves: Curves) -> Table:
    """What was measured at the last epoch, one row per class."""
    from ..report.formats import NOTHING, Cell, Column, Table

    def number(value: float, form: str) -> Cell:
        return Cell(NOTHING if value != value else format(value, form))

    columns = {
        "train": ("train %", 100 * curves.train_recall, ".1f"),
        "test": ("test %", 100 * curves.test_recall, ".1f"),
        "ratio": ("ratio %", 100 * curves.classification_ratio, ".0f"),
        "gradient": ("gradient", curves.gradient_norm, ".3g"),
        "deviation": ("deviation", curves.feature_deviation, ".3f"),
    }
    if curves.gradient_norm_mixed is not None:
        columns["gradient_mixed"] = ("gradient, mixed", curves.gradient_norm_mixed, ".3g")
    headings = (
        Column("class", "class", numeric=False),
        Column("images", "images"),
        *(Column(name, heading) for name, (heading, _, _) in columns.items()),
    )
    rows = tuple(
        (Cell(name), Cell(str(count)), *(number(float(rows[-1, c]), form) for _, rows, form in columns.values()))
        for c, (name, count) in enumerate(zip(curves.classes, curves.counts, strict=True))
    )
    return Table(
        f"Classes after epoch {curves.at[-1]} of {curves.epochs}",
        headings,
        rows,
        note=f"Accuracies in %; ratio: images classified into the class over its images; gradient: length of the loss "
        f"gradient at {curves.layer}; deviation: distance between training and test features.",
    )


def _written(diagnosis: Diagnosis, run: Path, output: Path, all_classes: bool) -> list[Path]:
    from ..diagnose.figures import bars, lines, plane
    from ..diagnose.figures.canvas import save
    from ..diagnose.figures.panels import Panel
    from ..diagnose.kept_features import kept_epochs, load_features
    from ..report.results import Group, Result, load_result

    result = Result(diagnosis.record, (run / "result.json").resolve())
    panel = Panel(diagnosis.curves.label, Group((result,)), (diagnosis.curves,))
    files = [_json_file(diagnosis, output)]
    for name in ("progress", "gradients", "deviation"):
        files += save(getattr(lines, name)([panel], all_classes=all_classes), output / name)
    files += save(bars.bars([panel]), output / "bars")
    if kept_epochs(run):
        if load_features(run).train.shape[1] == 2 and (run / "result.json").exists():
            files += save(plane.toy(load_result(run)), output / "plane")
        else:
            from ..diagnose.figures.embedding import tsne

            files += save(tsne([panel]), output / "tsne")
    return files


def _json_file(diagnosis: Diagnosis, output: Path) -> Path:
    from ..diagnose.diagnosed import FILE

    path = output / FILE
    try:
        output.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(diagnosis.to_json(), indent=1) + "\n")
    except OSError as error:
        raise RunError(f"cannot write {path} ({error.strerror})") from error
    return path

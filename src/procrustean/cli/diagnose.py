"""procrustean diagnose"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from procrustean.base.console import write_result
from procrustean.base.errors import RunError
from procrustean.base.files import write_atomically
from procrustean.base.json_files import typed_json
from procrustean.base.own_code import use_file
from procrustean.base.progress import reporting
from procrustean.base.table_formats import NOTHING, Table, table_of
from procrustean.cli.given_runs import distinct_runs, for_each_run
from procrustean.cli.outputs import refuse_inside
from procrustean.cli.values import Quiet, RunArguments
from procrustean.records.finding_runs import RESULT_FILE

if TYPE_CHECKING:
    from procrustean.records.class_curves import Curves
    from procrustean.report.diagnosis import Diagnosis
    from procrustean.report.findings import Finding


@dataclass(frozen=True)
class Diagnose:
    """Say which classes a run under-fits and over-fits, and when.

    Says what that suggests, with tables and figures. Uses what was measured while it was trained (--probes) and
    measures the weights it holds: the last ones, those chosen on held-out images, those kept by --keep-weights-every;
    of an unfinished run the last two checkpoints.
    """

    runs: RunArguments
    """Folders of runs, or folders of such folders; each run gets a verdict of its own, and those that differ in their
    seeds alone one together."""
    output: Path | None = None
    """Folder for the figures and diagnosis.json, of several runs for a folder with the name of each; default
    diagnosis/ with the name of the run, where `figures` and `report` find it."""
    method: tuple[str, ...] = ()
    """The files of methods and networks of your own: FILE.py ... They have to be what they were."""
    all_classes: bool = False
    """Draw every class, not only the largest and the smallest."""
    quiet: Quiet = False

    def run(self) -> int:
        for method in self.method:
            use_file(method)
        places = self._places()
        diagnosed: dict[Path, Diagnosis] = {}
        with reporting(quiet=self.quiet) as reporter:

            def diagnose(run: Path) -> None:
                if len(places) > 1:
                    reporter.say(f"diagnosing {run}, {list(places).index(run) + 1} of {len(places)}")
                diagnosed[run] = self._diagnose(run, places[run], reporter.say)

            for_each_run(list(places), diagnose, done="diagnosed", then=lambda: write_together(diagnosed))
        return 0

    def _places(self) -> dict[Path, Path]:
        """Each run and the folder for what is written about it; a run that is given twice is one."""
        from procrustean.records.class_curves import DIAGNOSES

        runs = distinct_runs(self.runs)
        if not runs:
            raise RunError("no run to diagnose; give the folder of one, or of several")
        folder = self.output or DIAGNOSES
        alone = self.output is not None and len(runs) == 1
        places = {run: folder if alone else folder / run.resolve().name for run in runs}
        taken: dict[Path, Path] = {}
        for run, output in places.items():
            if output in taken:
                raise RunError(
                    f"what is written about {taken[output]} and {run} would both be in {output}; diagnose them one at "
                    "a time, each with an --output of its own"
                )
            taken[output] = run
            for other in runs:
                refuse_inside(other, output)
        return places

    def _diagnose(self, run: Path, output: Path, say: Callable[[str], None]) -> Diagnosis:
        from procrustean.report.diagnosis import diagnose_run

        diagnosis = diagnose_run(run, say=say)
        files = _written(diagnosis, run, output, self.all_classes)
        said = verdict_text(diagnosis.curves, diagnosis.findings)
        write_result(said, class_table(diagnosis.curves), "Written: " + ", ".join(map(str, files)))
        return diagnosis


def verdict_text(curves: Curves, findings: Sequence[Finding]) -> str:
    """The findings as a list that begins with the method."""
    return f"{curves.label}: " + "\n".join(f"- {finding.text}" for finding in findings).lstrip("- ")


def write_together(diagnosed: Mapping[Path, Diagnosis]) -> None:
    """Write a verdict on the mean of finished runs that differ in their seeds alone."""
    from procrustean.records.class_curves import curves_of, mean_curves
    from procrustean.records.run_record import load_result
    from procrustean.report.findings import repeats_of, verdict

    finished = [
        replace(load_result(run), path=run / RESULT_FILE).with_probes(diagnosis.probes)  # called as it was given
        for run, diagnosis in diagnosed.items()
        if (run / RESULT_FILE).exists()
    ]
    for group in repeats_of(finished):
        runs = [str(result.path.parent) for result in group.results if result.path is not None]
        mean = mean_curves([curves_of(result) for result in group.results])
        write_result(
            f"\n## {', '.join(runs)}",
            "These runs differ in their seeds alone, and what is said of one may be chance. Of the mean of their "
            "measurements:",
            verdict_text(mean, verdict(mean)),
        )


def class_table(curves: Curves) -> Table:
    """What was measured at the last epoch, one row per class."""

    columns = {
        "train": ("train %", 100 * curves.train_recall, ".1f"),
        "test": ("test %", 100 * curves.test_recall, ".1f"),
        "ratio": ("ratio %", 100 * curves.classification_ratio, ".0f"),
        "gradient": ("gradient", curves.gradient_norm, ".3g"),
        "deviation": ("deviation", curves.feature_deviation, ".3f"),
    }
    if curves.gradient_norm_mixed is not None and curves.mixes[-1]:
        columns["gradient_mixed"] = ("gradient, mixed", curves.gradient_norm_mixed, ".3g")
    headings = {"class": "class", "images": "images", **{name: heading for name, (heading, _, _) in columns.items()}}
    rows = [
        (name, str(count), *(_number(float(values[-1, c]), form) for _, values, form in columns.values()))
        for c, (name, count) in enumerate(zip(curves.classes, curves.counts, strict=True))
    ]
    return table_of(
        f"Classes after epoch {curves.at[-1]} of {curves.epochs}",
        headings,
        rows,
        note=f"Accuracies in %; ratio: images classified into the class over its images; gradient: length of the loss "
        f"gradient at {curves.layers[-1]}; deviation: distance between training and test features.",
    )


def _number(value: float, form: str) -> str:
    return NOTHING if value != value else format(value, form)


def _written(diagnosis: Diagnosis, run: Path, output: Path, all_classes: bool) -> list[Path]:
    from procrustean.records.run_record import load_result
    from procrustean.report.figures import canvas
    from procrustean.report.figures.draw import drawing, options_of, what_it_lacks, what_its_folder_lacks
    from procrustean.report.figures.figure_table import FIGURES
    from procrustean.report.figures.panels import Panel

    panel = Panel(diagnosis.curves.label, (diagnosis.curves,), run)
    result = load_result(run) if (run / RESULT_FILE).exists() else None
    files = [_json_file(diagnosis, output)]
    for name, entry in FIGURES.items():
        options: dict[str, Any] = {"all_classes": all_classes} if "all_classes" in options_of(name) else {}
        if "probes" in entry.needs:
            shown: list[Any] = [] if what_its_folder_lacks(run, entry.needs) else [panel]
        else:
            shown = [] if result is None or not entry.needs or what_it_lacks(result, entry.needs) else [result]
        if shown:
            files += canvas.save(drawing(name, shown, **options), output / name)
    return files


def _json_file(diagnosis: Diagnosis, output: Path) -> Path:
    from procrustean.records.class_curves import DIAGNOSIS

    path, advice = output / DIAGNOSIS, "make room, or choose another --output"
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {output} ({error.strerror or error}); {advice}") from error
    write_atomically(path, typed_json(diagnosis.kept()), advice)
    return path

"""procrustean demo"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from procrustean.base.console import number_of, write_result
from procrustean.base.errors import ConfigError
from procrustean.base.files import write_atomically
from procrustean.base.progress import Reporter, reporting
from procrustean.base.table_formats import to_markdown
from procrustean.cli.outputs import check_folder
from procrustean.cli.values import Quiet
from procrustean.records.run_spec import RunSpec

if TYPE_CHECKING:
    from procrustean.records.groups import Group
    from procrustean.records.run_record import Result, RunRecord

METHODS: dict[str, dict[str, Any]] = {
    "erm": {"method": "erm"},
    "mfw": {"method": "mfw"},
    "mfw-drw": {"method": "mfw", "drw": True},
}
#: Of photographs: without a correction for the class sizes, and with one.
PLAIN, CORRECTED = "erm", "balanced_softmax"
#: Runs of each method and their epochs, on digits and on photographs.
DIGITS, PHOTOGRAPHS = (5, 60), (1, 30)


@dataclass(frozen=True)
class Demo:
    """Train ERM, MFW and MFW-DRW on imbalanced digits: a table and a picture.

    With --photos: train on photographs of hands, with and without a correction for the class sizes: a report.
    """

    photos: bool = False
    """Train on photographs and write a report instead."""
    seeds: int | None = None
    """Runs of each method, default 5; the table shows their mean and spread. With --photos 1."""
    epochs: int | None = None
    """Passes over the training images: 60 over 525 digits, 30 over 173 photographs."""
    output: Path = Path("demo")
    """Folder for what is made, with --photos a folder in it; a demo that is there already is shown, not repeated."""
    quiet: Quiet = False

    def run(self) -> int:
        if self._seeds < 1:
            raise ConfigError(f"seeds = {self.seeds} received; the demo needs at least one run of each method")
        check_folder(self.output)
        with reporting(quiet=self.quiet) as reporter:
            if self.photos:
                self._show_photographs(reporter)
            else:
                self._show_digits(reporter)
        return 0

    @property
    def _seeds(self) -> int:
        return (PHOTOGRAPHS if self.photos else DIGITS)[0] if self.seeds is None else self.seeds

    @property
    def _epochs(self) -> int:
        return (PHOTOGRAPHS if self.photos else DIGITS)[1] if self.epochs is None else self.epochs

    def _show_digits(self, reporter: Reporter) -> None:
        from procrustean.records import group_results
        from procrustean.report.class_tables import per_class
        from procrustean.report.comparison_table import comparison
        from procrustean.report.figures.draw import draw_figure

        results = trained(list(self._configs()), reporter)
        groups = group_results(results)
        tables = comparison(groups), per_class(groups)
        pictures = draw_figure("classes", results, self.output, stem="training-progress")
        file = self.output / "comparison.md"
        write_atomically(file, "\n".join(map(to_markdown, tables)).encode(), "choose another --output")
        written = ", ".join(map(str, (*pictures, file)))
        write_result(*tables, f"{_finding(groups)}\nPicture and tables: {written}")

    def _configs(self) -> Iterator[RunSpec]:
        """Five classes keep 100 training images each, five keep 5."""
        for name, method in METHODS.items():
            for seed in range(self._seeds):
                folder = self.output / "runs" / f"{name}-epochs{self._epochs}-seed{seed}"
                yield RunSpec(
                    "digits", "step", 20, seed=seed, epochs=self._epochs, track_training=True, run_dir=folder, **method
                )

    def _show_photographs(self, reporter: Reporter) -> None:
        from procrustean.report.html_page import write_report

        folder = self.output / "photos"
        unpack_photographs(folder)
        configs = [
            RunSpec(
                str(folder / "hands"), method=method, recipe="photographs", image_size=64, augment="resized_crop",
                hold_out=0, seed=seed, epochs=self._epochs, track_training=True,
                run_dir=folder / "runs" / f"{method}-epochs{self._epochs}-seed{seed}",
            )
            for method in (PLAIN, CORRECTED)
            for seed in range(self._seeds)
        ]  # fmt: skip
        reporter.say("photographs of hands that show the digits 1, 0, 5, 2, 3: many to train on of 1, few of 3")
        results = trained(configs, reporter)
        file = folder / "report.html"
        write_report([config.run_dir for config in configs if config.run_dir], file, say=reporter.say)
        seen = photographs_text([result.record for result in results])
        write_result(f"{seen}\nReport: {file} ({file.stat().st_size / 1e6:.1f} MB): open it in any browser")


def trained(configs: list[RunSpec], reporter: Reporter) -> list[Result]:
    """Results of runs, of those that are there already without training."""
    from procrustean.records import load_result
    from procrustean.runs.many_runs import fit_many

    outcomes = fit_many(configs, reporter=reporter)
    for error in filter(None, (outcome.error for outcome in outcomes)):
        raise error
    return [load_result(outcome.path) for outcome in outcomes]


def unpack_photographs(folder: Path) -> None:
    """Put the photographs that come with this library into a folder, those that are there again."""
    import io
    import zipfile
    from importlib.resources import files

    packed = files("procrustean.data").joinpath("photographs", "hands.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        for name in archive.namelist():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(archive.read(name))


def photographs_text(records: list[RunRecord]) -> str:
    """What was seen, whichever training is better: the rarest class, then all of them."""
    data = records[0].data
    rarest = min(range(len(data.classes)), key=data.counts.__getitem__)
    said = []
    for method in (PLAIN, CORRECTED):
        found = [record.selections.last.metrics for record in records if record.config.method == method]
        said.append((fmean(one.recall[rarest] or 0 for one in found), fmean(one.headline_value for one in found)))
    (rare, whole), (corrected_rare, corrected) = said
    runs = len(records) // 2
    return (
        f"Of the digit {data.classes[rarest]} there are {data.counts[rarest]} training images, of "
        f"{data.classes[data.counts.index(max(data.counts))]} {max(data.counts)}.\n"
        f"Plain training (ERM) finds {100 * rare:.0f} % of the test images of {data.classes[rarest]}, and is right on "
        f"{100 * whole:.1f} % of all.\n"
        f"With a correction for the class sizes (balanced softmax): {100 * corrected_rare:.0f} % and "
        f"{100 * corrected:.1f} %.\n"
        f"Measured on photographs of other people, {number_of(runs, 'run')} of each."
    )


def _finding(groups: list[Group]) -> str:
    """What was measured, whichever method wins."""

    def value(group: Group, metric: str) -> float:
        """In percent, rounded as in the table, so that the differences are those a reader computes from it."""
        statistic = group.statistic(metric)
        return round(100 * statistic.mean, 1) if statistic else float("nan")

    baseline, *others = groups
    best = max(groups, key=lambda group: value(group, group.headline))
    differences = ", ".join(
        f"{group.label} {value(group, 'minor') - value(baseline, 'minor'):+.1f}" for group in others
    )
    return (
        f"Best here: {best.label}, {value(best, best.headline):.1f} % {best.headline.replace('_', ' ')} "
        f"in the last epoch. Points on the minor classes against {baseline.label}: {differences}."
    )

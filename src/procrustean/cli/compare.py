"""procrustean compare, report and figures: finished runs as tables, as a page and as pictures"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from procrustean.base.console import write_result
from procrustean.base.errors import ConfigError
from procrustean.base.own_code import use_file
from procrustean.base.progress import make_reporter
from procrustean.cli.given_runs import finished_results, readable_runs
from procrustean.cli.results import Format, Kind, show
from procrustean.cli.values import Quiet, RunArguments
from procrustean.report.figures.figure_table import FIGURES, Entry

ABLATIONS = {
    "alpha": Entry("accuracy of MFW along alpha", file="ablation_figures", folder="procrustean.paper"),
    "beta": Entry(
        "weight function and accuracy of MFW along beta", file="ablation_figures", folder="procrustean.paper"
    ),
}
ALL = {**FIGURES, **ABLATIONS}

if TYPE_CHECKING:
    Name = str
else:
    Name = Literal[tuple(ALL)]


@dataclass(frozen=True)
class Compare:
    """Compare finished runs: mean and spread over seeds.

    For the last epoch, the epoch chosen on held-out images, and the oracle.

    Example: procrustean compare runs/* --format markdown
    """

    runs: RunArguments
    """Folders of runs, result files, or folders of either."""
    format: Format = "table"
    """table for the terminal, or markdown, csv, latex."""
    per_class: bool = False
    """Recall of every class instead of the summary."""
    intervals: bool = False
    """The 95 % interval of each run on own images instead of the summary."""
    output: Path | None = None
    """Write to a file instead of the terminal."""

    def run(self) -> int:
        kind: Kind = "intervals" if self.intervals else "per_class" if self.per_class else "summary"
        return show(self.runs, form=self.format, kind=kind, output=self.output)


@dataclass(frozen=True)
class Report:
    """Make one HTML page of finished runs, which opens offline.

    Example: procrustean report runs/* --output report.html
    """

    runs: RunArguments
    """Folders of runs, result files, or folders of either."""
    output: Path = Path("report.html")
    """File to write. Another report is overwritten, any other file is not."""
    examples: int = 5
    """Example images of each of the worst confusions, if images and network are found; 0 for no pictures at all."""
    method: tuple[str, ...] = ()
    """The files of methods and networks of your own, for the examples: FILE.py ... They have to be what they were."""
    data_dir: Path | None = None
    """Where data sets are found; default as in training. Nothing is downloaded."""
    quiet: Quiet = False

    def run(self) -> int:
        from procrustean.report.html_page import write_report

        if not self.runs:
            raise ConfigError("no run received; name at least one folder of a run: procrustean report RUN")
        if self.examples < 0:
            raise ConfigError(f"examples = {self.examples} received; it has to be 0 or more")
        for method in self.method:
            use_file(method)
        runs, code = readable_runs(self.runs)
        write_report(
            list(runs),
            self.output,
            examples=self.examples,
            data_dir=self.data_dir,
            say=make_reporter(quiet=self.quiet).say,
        )
        write_result(f"{self.output} ({self.output.stat().st_size / 1e6:.1f} MB): open it in any browser")
        return code


@dataclass(frozen=True)
class Figures:
    __doc__ = "\n\n".join(
        (
            "Draw a figure from finished runs, most of them as in the paper.",
            "\n".join(f"- {name}: {entry.shows}" for name, entry in ALL.items()),
            f"{', '.join(name for name, entry in ALL.items() if 'probes' in entry.needs)} take runs that were "
            "trained with --probes or diagnosed.",
            "Example: procrustean figures progress runs/erm runs/mfw --output figures",
        )
    )

    name: Annotated[tyro.conf.Positional[Name], tyro.conf.arg(metavar="FIGURE")]
    """Which figure."""
    runs: RunArguments
    """Folders of runs, result files, or folders of either; one panel per setting, in this order."""
    output: Path = Path("figures")
    """Folder to write to."""
    stem: str | None = None
    """Name of the files without their ending; default the name of the figure."""
    over: str | None = None
    """The option of a method along which `option` draws, a number: strength, alpha, ..."""
    all_classes: bool = False
    """Draw every class, not only the largest and the smallest (progress, gradients, deviation)."""
    epochs: tuple[int, ...] = ()
    """Epochs that the plane shows; default all whose features were kept."""

    def run(self) -> int:
        from procrustean.records.class_curves import with_diagnosis
        from procrustean.report import draw_figure

        results, code = finished_results(self.runs)
        given = {"over": self.over, "all_classes": self.all_classes, "epochs": self.epochs}
        files = draw_figure(
            self.name,
            [with_diagnosis(result) for result in results],
            self.output,
            stem=self.stem,
            table=ALL,
            say=make_reporter().say,
            **{name: value for name, value in given.items() if value},
        )
        write_result("\n".join(map(str, files)))
        return code

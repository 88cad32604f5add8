"""procrustean figures"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from procrustean.cli.given_runs import finished_results
from procrustean.report.figures.table import FIGURES, Entry

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

    name: tyro.conf.Positional[Name]
    """Which figure."""
    runs: tyro.conf.Positional[tuple[Path, ...]]
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
        from procrustean.base.console import write_result
        from procrustean.base.progress import make_reporter
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

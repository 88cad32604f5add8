"""procrustean figures"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from procrustean.cli.outcome import finished_results


@dataclass(frozen=True)
class Figures:
    """Draw a figure from finished runs as PNG and SVG, most of them as in the paper.

    alpha, beta, option and imbalance take any runs, the others those that were trained with --probes or diagnosed.

    progress: training accuracy and classification ratio along the epochs. gradients: norm of the loss gradient at the
    mixing layer. deviation: distance between training and test features. tsne: features of the largest and the
    smallest class. bars: accuracy of every class. plane: features in the plane and decision regions, of networks like
    resnet32-2d. alpha, beta: accuracy of MFW along its options. option: accuracy of any method, also one of your own,
    along the option that --over names. imbalance: accuracy of the larger and the smaller classes along the imbalance
    ratio.

    Example: procrustean figures progress runs/erm runs/mfw --output figures
    """

    name: tyro.conf.Positional[
        Literal["progress", "gradients", "deviation", "tsne", "bars", "plane", "alpha", "beta", "option", "imbalance"]
    ]
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
        from procrustean.base.errors import ConfigError
        from procrustean.base.progress import make_reporter
        from procrustean.paper import draw_ablation
        from procrustean.records.diagnosed import with_diagnosis
        from procrustean.report.figures import draw

        results, code = finished_results(self.runs)
        diagnosed, say = [with_diagnosis(result) for result in results], make_reporter().say
        if self.name in ("alpha", "beta"):
            if self.over is not None:
                raise ConfigError(f"--over {self.over} received with the figure {self.name!r}")
            files = draw_ablation(self.name, diagnosed, self.output, stem=self.stem, say=say)
            write_result("\n".join(map(str, files)))
            return code
        files = draw(
            self.name,
            diagnosed,
            self.output,
            all_classes=self.all_classes,
            epochs=self.epochs,
            stem=self.stem,
            over=self.over,
            say=say,
        )
        write_result("\n".join(map(str, files)))
        return code

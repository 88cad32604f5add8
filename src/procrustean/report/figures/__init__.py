"""Figures drawn from the records of runs.

matplotlib and scikit-learn are imported when one is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from procrustean.base.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from procrustean.records.groups import Result

#: Name -> what it shows.
FIGURES = {
    "progress": "training accuracy and classification ratio per class along the epochs",
    "gradients": "norm of the loss gradient at the mixing layer along the epochs",
    "deviation": "distance between training and test features along the epochs",
    "tsne": "t-SNE of training and test features of the largest and the smallest class",
    "bars": "training and test accuracy of every class at the end",
    "plane": "features in the plane and decision regions along the epochs, one figure per run",
    "option": "accuracy of all, of the larger and of the smaller half of the classes along any option of a method",
    "imbalance": "accuracy of all, of the larger and of the smaller half of the classes along the imbalance ratio",
}


def draw(
    name: str,
    results: Sequence[Result],
    output: Path,
    *,
    all_classes: bool = False,
    epochs: Sequence[int] = (),
    stem: str | None = None,
    over: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[Path]:
    """Draw a figure and write it as PNG and SVG; returns the files.

    Args:
        name: one of FIGURES.
        results: finished runs; repeats of a setting are drawn as mean and spread. Those that lack what the figure
            shows are left out, unless all do.
        output: folder.
        all_classes: draw every class, not only the largest and the smallest (progress, gradients, deviation).
        epochs: which epochs the plane shows, counted from 1.
        stem: name of the files without their ending; by default that of the figure, with the option if it has one.
        over: the option along which `option` draws.
        say: told which runs are left out, and what the others lack for a fuller figure.
    """
    if name not in FIGURES:
        raise ConfigError(f"there is no figure {name!r}. {did_you_mean(name, FIGURES)}")
    from procrustean.report.figures import bars, embedding, imbalance, lines, option, plane
    from procrustean.report.figures.canvas import save
    from procrustean.report.figures.panels import panels_of
    from procrustean.report.figures.runs_lacking import with_what_it_shows

    if name == "option":
        over = option.option_to_draw(over, results)
    elif over is not None:
        raise ConfigError(f"--over {over} received with the figure {name!r}; it belongs to `figures option`")
    stem = stem or "-".join(filter(None, (name, over)))
    results = with_what_it_shows(name, results, say, over)
    if name == "plane":
        files = []
        for number, result in enumerate(results):
            own = result.record["method"]["name"]
            same = sum(other.record["method"]["name"] == own for other in results[:number])
            files += save(plane.plane(result, epochs), output / f"{stem}-{own}{f'-{same + 1}' * bool(same)}")
        return files
    if over is not None:
        figure, remarks = option.along_option(results, over), option.remarks(results, over)
    elif name == "imbalance":
        figure, remarks = imbalance.imbalance(results), imbalance.remarks(results)
    else:
        panels, remarks = panels_of(results), []
        if name == "bars":
            figure = bars.bars(panels)
        elif name == "tsne":
            figure = embedding.tsne(panels)
        else:
            along = {"progress": lines.progress, "gradients": lines.gradients, "deviation": lines.deviation}[name]
            figure, remarks = along(panels, all_classes=all_classes), lines.remarks(panels)
    for remark in remarks:
        say(remark)
    return save(figure, output / stem)

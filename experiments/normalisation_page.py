"""Make the tables and figures of docs/mfw-and-normalisation.md from the files of experiments/normalisation.py.

python experiments/normalisation_page.py
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from procrustean.base.yaml_files import read_yaml
from procrustean.paper import placed
from procrustean.runs import expand

PROJECT = Path(__file__).resolve().parents[1]
STUDY = PROJECT / "experiments" / "normalisation.yaml"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
NETS = {"resnet32": "ResNet-32, BatchNorm", "resnet32-gn": "ResNet-32, GroupNorm", "convnet-ln": "ConvNet, LayerNorm"}
IMBALANCES = {"step": "step", "long_tailed": "long-tailed"}
LABELS = ("ERM", "MFW", "MFW-DRW")
STATISTICS = ("kept", "mixed", "clean")
COLOURS = {"kept": "#1f5fa8", "mixed": "#3d9a63", "clean": "#c8452d"}
MARKERS = {"kept": "o", "mixed": "s", "clean": "D"}
INK, MUTED, GRID = "#1a1a1a", "#5f6368", "#e3e5e8"


@dataclass(frozen=True)
class Page:
    """Write tables and figures from the results into the page; run it again whenever there are new results."""

    results: Path = PROJECT / "results" / "normalisation"
    """Where the JSON files of the study are."""
    page: Path = PROJECT / "docs" / "mfw-and-normalisation.md"
    """What is written into, between its two marks."""
    figures: Path = PROJECT / "docs" / "figures"
    """Where the pictures go."""


@dataclass(frozen=True)
class Cell:
    """The runs of one network, imbalance and method."""

    imbalance: str
    net: str
    label: str
    records: tuple[dict[str, Any], ...]

    def values(self, weights: str, kept: str, group: str | None = None) -> list[float]:
        """Accuracies in percent, one per seed; none where nothing is recomputed."""
        tests = [record["tests"][weights].get(kept) for record in self.records]
        return [100 * (t["accuracy"] if group is None else t["groups"][group]) for t in tests if t is not None]


def main(page: Page) -> int:
    records = [json.loads(path.read_text()) for path in sorted(page.results.glob("*.json"))]
    cells = list(cells_of(records))
    text = page.page.read_text()
    made = placed(text, BEGIN, END, f"\n\n{section(cells)}\n")
    drawn = draw(cells, page.figures) if cells else []
    if made != text:
        page.page.write_text(made)
    sys.stderr.write(f"{len(records)} runs; written: {', '.join(map(str, [page.page, *drawn]))}\n")
    return 0


def cells_of(records: Sequence[dict[str, Any]]) -> Iterator[Cell]:
    """The runs by imbalance, network and method, in the order of the page; networks it does not know come last."""
    found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for record in sorted(records, key=lambda record: record["config"]["seed"]):
        key = (record["config"]["imbalance"], record["recipe"]["net"], record["label"])
        found.setdefault(key, []).append(record)

    def place(key: tuple[str, str, str]) -> tuple[Any, ...]:
        known = (list(IMBALANCES), list(NETS), list(LABELS))
        return tuple(
            (names.index(name) if name in names else len(names), name) for names, name in zip(known, key, strict=True)
        )

    for key in sorted(found, key=place):
        yield Cell(*key, tuple(found[key]))


def section(cells: Sequence[Cell]) -> str:
    """The measured part of the page."""
    if not cells:
        return (
            "**Not measured yet.** No run of this study is finished: `results/normalisation/` is empty. The tables and "
            "figures\nthat belong here are made from its files by `python experiments/normalisation_page.py`.\n"
        )
    first = cells[0].records[0]
    seeds = sorted({len(cell.records) for cell in cells})
    spread = (
        f"{seeds[0]} to {seeds[-1]} seeds, as given" if len(seeds) > 1 else f"{seeds[0]} seed{'s' * (seeds[0] > 1)}"
    )
    where = sorted({record["environment"]["machine"] for cell in cells for record in cell.records})
    counts = max(first["data"]["counts"]) / min(first["data"]["counts"])
    done, planned = sum(len(cell.records) for cell in cells), len(expand(read_yaml(STUDY), Path("runs")))
    of_all = "" if done == planned else f" of the {planned} of the study"
    lines = [
        f"{done} runs{of_all} on {first['data']['source']} at ratio {counts:g}, "
        f"{first['recipe']['epochs']} epochs, {spread}, on {' and '.join(where)}.",
        "Test accuracy in %, mean ± standard deviation over the seeds; in brackets that of the minor classes alone.",
        "The network is that of the last epoch: nothing was selected. Networks without batch normalisation have",
        "nothing to recompute (—).",
        "",
        "![Test accuracy of every network with kept, mixed and clean statistics, over all classes and over the minor "
        "classes](figures/normalisation-accuracy.png)",
        "",
        "### The last epoch, with its own and with recomputed statistics",
        "",
        *table(cells, "last"),
        "",
        "### Averaged weights",
        "",
        "EMA, exponential along all steps:",
        "",
        *table(cells, "ema"),
        "",
        "SWA, the mean over the last quarter of the epochs:",
        "",
        *table(cells, "swa"),
    ]
    if any(record["clean_against_mixed"] for cell in cells for record in cell.records):
        lines += [
            "",
            "### How far the statistics lie apart",
            "",
            "Statistics of clean batches against those of batches as trained on, layer by layer, mean over channels",
            "and seeds: the ratio of the standard deviations, and the difference of the means in standard deviations.",
            "The dotted line is where the features are mixed.",
            "",
            "![Ratio of standard deviations and shift of means by layer](figures/normalisation-statistics.png)",
        ]
    return "\n".join(lines) + "\n"


def table(cells: Sequence[Cell], weights: str) -> list[str]:
    """Rows of a Markdown table: a network and method each, a column for each kind of statistics."""
    lines = [
        "| network | imbalance | method | seeds | kept | recomputed on mixed batches | recomputed on clean batches |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for cell in cells:
        shown = [
            f"{_mean(cell.values(weights, kept))} ({_mean(cell.values(weights, kept, 'minor'))})"
            if cell.values(weights, kept)
            else "—"
            for kept in STATISTICS
        ]
        names = (NETS.get(cell.net, cell.net), IMBALANCES.get(cell.imbalance, cell.imbalance), cell.label)
        lines.append("| " + " | ".join([*names, str(len(cell.records)), *shown]) + " |")
    return lines


def _mean(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.1f}"
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def draw(cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Both figures; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name, drawing in (("accuracy", _draw_accuracy), ("statistics", _draw_statistics)):
        figure = drawing(cells)
        if figure is not None:
            path = folder / f"normalisation-{name}.png"
            figure.savefig(path, dpi=160)
            made.append(path)
    return made


def _figure(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **shared)
    for panel in axes.flat:
        panel.grid(axis="y", color=GRID, linewidth=0.8)
        panel.set_axisbelow(True)
        panel.tick_params(colors=MUTED, labelsize=9)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            panel.spines[side].set_color(GRID)
    return figure, axes


def _draw_accuracy(cells: Sequence[Cell]) -> Any:
    panels: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        panels.setdefault((cell.imbalance, cell.net), []).append(cell)
    figure, axes = _figure(2, len(panels), (2.3 * len(panels) + 1.2, 6.0), sharey="row")
    for column, ((imbalance, net), members) in enumerate(panels.items()):
        for row, group in enumerate((None, "minor")):
            panel = axes[row][column]
            for place, cell in enumerate(members):
                _dots(panel, place, cell, group)
            panel.set_xticks(range(len(members)), [cell.label.replace("-", "\n") for cell in members])
            panel.set_xlim(-0.6, len(members) - 0.4)
        title = f"{NETS.get(net, net)}\n{IMBALANCES.get(imbalance, imbalance)}"
        axes[0][column].set_title(title, fontsize=10, color=INK)
    for row, text in enumerate(("all classes", "minor classes")):
        axes[row][0].set_ylabel(f"test accuracy in %, {text}", fontsize=9, color=INK)
    _legend(figure)
    return figure


def _dots(panel: Any, place: int, cell: Cell, group: str | None) -> None:
    there = {kept: values for kept in STATISTICS if (values := cell.values("last", kept, group))}
    for number, (kept, values) in enumerate(there.items()):
        x = place + 0.22 * (number - (len(there) - 1) / 2)
        panel.plot([x - 0.09, x + 0.09], [statistics.mean(values)] * 2, color=COLOURS[kept], linewidth=2.2)
        panel.plot(
            [x] * len(values), values, linestyle="none", marker=MARKERS[kept], markersize=4.5,
            markerfacecolor="white", markeredgecolor=COLOURS[kept], markeredgewidth=1.2,
        )  # fmt: skip


def _draw_statistics(cells: Sequence[Cell]) -> Any:
    measured = [cell for cell in cells if cell.records[0]["clean_against_mixed"]]
    if not measured:
        return None
    columns = list(dict.fromkeys((cell.imbalance, cell.net) for cell in measured))
    figure, axes = _figure(2, len(columns), (4.6 * len(columns) + 0.8, 5.6), sharex="col", sharey="row")
    colours = dict(zip(LABELS, ("#8a8f98", "#1f5fa8", "#7a3fa0"), strict=True))
    for cell in measured:
        column = columns.index((cell.imbalance, cell.net))
        layers = [change["layer"] for change in cell.records[0]["clean_against_mixed"]]
        for row, key in enumerate(("spread", "shift")):
            by_seed = [[change[key] for change in record["clean_against_mixed"]] for record in cell.records]
            means = [statistics.mean(values) for values in zip(*by_seed, strict=True)]
            colour = colours.get(cell.label, MUTED)
            style = "--" if "DRW" in cell.label else "-"
            places = range(1, len(means) + 1)
            axes[row][column].plot(places, means, style, color=colour, linewidth=1.8, label=cell.label)
        # Where the features are mixed: behind the last layer of the second group.
        mixed = sum(".group1" in layer or ".group2" in layer for layer in layers) + 0.5
        for row in range(2):
            axes[row][column].axvline(mixed, color=MUTED, linewidth=0.8, linestyle=":")
    for column, (imbalance, net) in enumerate(columns):
        title = f"{NETS.get(net, net)}, {IMBALANCES.get(imbalance, imbalance)}"
        axes[0][column].set_title(title, fontsize=10, color=INK)
        axes[1][column].set_xlabel("batch-norm layer, from the image on", fontsize=9, color=INK)
    axes[0][0].set_ylabel("standard deviation,\nclean / as trained", fontsize=9, color=INK)
    axes[1][0].set_ylabel("shift of the mean,\nin standard deviations", fontsize=9, color=INK)
    axes[0][0].legend(frameon=False, fontsize=9, labelcolor=INK)
    return figure


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    names = {
        "kept": "as trained",
        "mixed": "statistics recomputed on mixed batches",
        "clean": "statistics recomputed on clean batches",
    }
    handles = [
        Line2D([], [], color=COLOURS[kept], marker=MARKERS[kept], markerfacecolor="white", linewidth=2.2, label=text)
        for kept, text in names.items()
    ]
    # Side by side they need a little over seven inches.
    columns = len(handles) if figure.get_figwidth() > 7.5 else 1
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Page, description=__doc__)))

"""The demonstration: imbalanced digits, three methods, several seeds, one table, one picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from procrustean.base.errors import ConfigError
from procrustean.base.progress import Reporter
from procrustean.base.table_formats import Table, to_markdown
from procrustean.base.whole_files import write_atomically
from procrustean.records.finding_runs import CONFIG_FILE
from procrustean.records.groups import Group, group_results, load_result
from procrustean.records.run_folder import RunFolder
from procrustean.records.run_spec import RunSpec
from procrustean.report.class_tables import per_class
from procrustean.report.figures.draw import draw_figure
from procrustean.report.tables import comparison
from procrustean.runs.train_api import STOPPED_AMONG_MANY, Stopped, fit, resume

#: Five classes keep 100 training images each, five keep 5.
SETTING = {"source": "digits", "imbalance": "step", "rho": 20.0}
METHODS = (("erm", False), ("mfw", False), ("mfw", True))


@dataclass(frozen=True)
class Outcome:
    """What the demonstration found."""

    summary: Table
    classes: Table
    text: str  # the finding in words, and where the files are


def run_demo(output: Path, *, seeds: int, epochs: int, reporter: Reporter) -> Outcome:
    """Train what is not trained yet, then make the table and the picture."""
    if seeds < 1:
        raise ConfigError(f"seeds = {seeds} received; the demo needs at least one run of each method")
    runs = []
    for method, drw in METHODS:
        for seed in range(seeds):
            path = output / "runs" / f"{method}{'-drw' * drw}-epochs{epochs}-seed{seed}"
            config = RunSpec.from_json(
                {
                    **SETTING,
                    "method": method,
                    "drw": drw,
                    "seed": seed,
                    "epochs": epochs,
                    "track_training": True,
                }
            )
            runs.append(_trained(config, path, reporter))
    results = [load_result(run) for run in runs]
    groups = group_results(results)
    summary, classes = comparison(groups), per_class(groups)
    pictures = draw_figure("classes", results, output, stem="training-progress")
    table = output / "comparison.md"
    write_atomically(table, (to_markdown(summary) + "\n" + to_markdown(classes)).encode(), "choose another --output")
    files = ", ".join(str(path) for path in (*pictures, table))
    return Outcome(summary, classes, f"{_finding(groups)}\nPicture and tables: {files}")


def _trained(config: RunSpec, path: Path, reporter: Reporter) -> Path:
    try:
        if not (path / CONFIG_FILE).exists():
            fit(config, run_dir=path, reporter=reporter)
        elif not RunFolder(path).finished:
            resume(path, reporter=reporter)
    except Stopped as stopped:  # resuming this run would leave the others
        raise Stopped(STOPPED_AMONG_MANY, stopped.exit_code) from None
    return path


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

"""procrustean demo"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from procrustean.base.errors import ConfigError
from procrustean.cli.outputs import check_folder
from procrustean.records.run_spec import RunSpec

if TYPE_CHECKING:
    from procrustean.records.groups import Group

METHODS: dict[str, dict[str, Any]] = {
    "erm": {"method": "erm"},
    "mfw": {"method": "mfw"},
    "mfw-drw": {"method": "mfw", "drw": True},
}


@dataclass(frozen=True)
class Demo:
    """Train ERM, MFW and MFW-DRW on imbalanced digits: a table and a picture."""

    seeds: int = 5
    """Runs of each method; the table shows their mean and spread."""
    epochs: int = 60
    """Passes over the 525 training images."""
    output: Path = Path("demo")
    """Folder for the runs, the table and the picture; a demo that is there already is shown, not repeated."""
    quiet: bool = False
    """No progress."""

    def run(self) -> int:
        from procrustean.base.console import write_result
        from procrustean.base.files import write_atomically
        from procrustean.base.progress import reporting
        from procrustean.base.table_formats import to_markdown
        from procrustean.records import group_results, load_result
        from procrustean.report.class_tables import per_class
        from procrustean.report.comparison_table import comparison
        from procrustean.report.figures.draw import draw_figure
        from procrustean.runs.many_runs import fit_many

        if self.seeds < 1:
            raise ConfigError(f"seeds = {self.seeds} received; the demo needs at least one run of each method")
        check_folder(self.output)
        with reporting(quiet=self.quiet) as reporter:
            outcomes = fit_many(list(self._configs()), reporter=reporter)
        for error in filter(None, (outcome.error for outcome in outcomes)):
            raise error
        results = [load_result(outcome.path) for outcome in outcomes]
        groups = group_results(results)
        tables = comparison(groups), per_class(groups)
        pictures = draw_figure("classes", results, self.output, stem="training-progress")
        file = self.output / "comparison.md"
        write_atomically(file, "\n".join(map(to_markdown, tables)).encode(), "choose another --output")
        written = ", ".join(map(str, (*pictures, file)))
        write_result(*tables, f"{_finding(groups)}\nPicture and tables: {written}")
        return 0

    def _configs(self) -> Iterator[RunSpec]:
        """Five classes keep 100 training images each, five keep 5."""
        for name, method in METHODS.items():
            for seed in range(self.seeds):
                folder = self.output / "runs" / f"{name}-epochs{self.epochs}-seed{seed}"
                yield RunSpec(
                    "digits", "step", 20, seed=seed, epochs=self.epochs, track_training=True, run_dir=folder, **method
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

"""What several runs were trained for, as the record in their folder tells: `--method auto` has chosen one of them on
held-out images, `--folds` has tested every image by one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from procrustean.balance.metrics import Count, Metrics, Share
from procrustean.base.errors import RunError
from procrustean.base.json_files import FORMAT, read_typed
from procrustean.base.table_formats import Statistic
from procrustean.records.finding_runs import COMPARISON, FINAL, FOLDS, RESULT_FILE
from procrustean.records.groups import Group, summarise
from procrustean.records.run_record import Result, RunRecord, load_result
from procrustean.records.run_spec import RunSpec


class Compared(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A method that was compared."""

    name: str  # of its folder
    held_out_balanced_accuracy: float | None  # None if the time did not suffice, or it failed
    failed: str = ""
    epochs: int | None = None  # of the short training after which it was left behind; None for the whole


class Comparison(Struct, frozen=True, kw_only=True):
    """The content of auto.json; all from `compared` on is known in the end."""

    format: Literal[1] = FORMAT
    asked: RunSpec
    config: RunSpec  # the same, with what was chosen for the images and the machine
    source_path: str | None = None
    # A folder beside auto.json, and no path that leads elsewhere.
    chosen: Annotated[str, Meta(pattern=r"^[^/\\]*[^/\\.][^/\\]*$")] | None = None
    compared: list[Compared] = []
    worth: str = ""  # what the choice is worth, in words
    held_out_images: int = 0
    standard_error: float = 0.0  # of the best one's balanced accuracy
    ties: list[str] = []
    within_one_standard_error: list[str] = []
    without_a_vote: list[str] = []  # classes that have no held-out image

    @property
    def is_choice(self) -> bool:
        """Whether the method was chosen, which it was not if no other was trained."""
        return sum(method.held_out_balanced_accuracy is not None for method in self.compared) > 1

    @property
    def verdict(self) -> str:
        """Which method is kept, as a sentence."""
        if self.is_choice:
            return f"{self.chosen} was chosen."
        return f"{self.chosen} is kept as the only method that was trained to the end; nothing was compared."


def read_comparison(folder: Path) -> Comparison | None:
    """The comparison that a folder holds; None where it holds none."""
    file = folder / COMPARISON
    return read_typed(file, Comparison, "compare again with another --run-dir") if file.is_file() else None


class Pooled(Struct, frozen=True, kw_only=True):
    """The answers for the images of all folds, each by the network that has not seen it."""

    classes: list[str]
    metrics: Metrics
    interval: tuple[Share, Share]
    groups: Count | None
    each: list[Share]  # headline of every fold
    untested: Count  # images that are in no fold


class Folded(Struct, frozen=True, kw_only=True):
    """The content of folds.json; `pooled` is known in the end."""

    format: Literal[1] = FORMAT
    folds: Annotated[int, Meta(ge=2)]
    asked: RunSpec
    config: RunSpec  # the same, with what was chosen for the images and the machine
    source_path: str | None = None
    pooled: Pooled | None = None


def read_folds(folder: Path) -> Folded | None:
    """The record that a folder holds; None where it holds none."""
    file = folder / FOLDS
    return read_typed(file, Folded, "train again with another --run-dir") if file.is_file() else None


def chosen_run(path: Path) -> Path:
    """The run a folder stands for in use: itself, the one on all images, or the best that `--method auto` compared."""
    if (path / FOLDS).is_file() or _has_final(path):
        return path / FINAL
    comparison = read_comparison(path)
    if comparison is None:
        return path
    if comparison.chosen is None:
        raise RunError(f"{path}: the methods are not compared to the end; give the same command again to go on")
    if not (path / comparison.chosen).is_dir():
        raise RunError(
            f"{path / COMPARISON} is damaged: it chose {comparison.chosen!r}, which is no run of this folder"
        )
    return path / comparison.chosen


def measured_by(run: Path) -> str:
    """Whose results those of a run are, where another network is in use; empty where it is the same one."""
    if not _has_final(run):
        return ""
    measured, used = (load_result(folder).record.data.train for folder in (run, run / FINAL))
    return (
        f"measured by a network trained on {100 * measured / used:.0f} % of the images; the network in use was then "
        "trained on all of them"
    )


def _has_final(run: Path) -> bool:
    """Whether a folder is that of a run after which the network in use was trained, and of no run that is called so."""
    return all((folder / RESULT_FILE).is_file() for folder in (run, run / FINAL))


def choices(groups: Iterable[Group]) -> dict[str, int]:
    """How many runs of each group, by its key, were the choice of a comparison.

    None where other runs are among them: beside what was not compared, a choice says nothing.
    """
    groups = list(groups)
    if not all(_compared(result) for group in groups for result in group.results):
        return dict.fromkeys(map(_key, groups), 0)
    return {_key(group): sum(map(_was_chosen, group.results)) for group in groups}


def times_chosen(group: Group, among: Mapping[str, int]) -> int:
    """How often a group was the choice, of what `choices` found."""
    return among[_key(group)]


def held_out_accuracy(group: Group) -> Statistic | None:
    """Balanced accuracy on the held-out images after the last epoch, by which comparisons choose."""
    return summarise(last_held_out(result.record) for result in group.results)


def last_held_out(record: RunRecord) -> float | None:
    """The same of one run; None where no images were held out."""
    curve = record.curves.held_out_balanced_accuracy
    return curve[-1] if curve else None


def worth_of_choice(groups: Iterable[Group]) -> str:
    """What the choice is worth, as the record of the comparison says; nothing where several were made, each its own."""
    places = {result.path.parent.parent for group in groups for result in group.results if result.path is not None}
    comparison = read_comparison(places.pop()) if len(places) == 1 else None
    return f" {comparison.verdict} {comparison.worth}" if comparison and comparison.worth else ""


def _key(group: Group) -> str:
    return "\n".join(str(result.path) for result in group.results)


def _compared(result: Result) -> bool:
    return result.path is not None and (result.path.parent.parent / COMPARISON).is_file()


def _was_chosen(result: Result) -> bool:
    assert result.path is not None
    run = result.path.parent
    comparison = read_comparison(run.parent)
    return comparison is not None and comparison.is_choice and comparison.chosen == run.name

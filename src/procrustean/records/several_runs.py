"""What several runs were trained for, as the record in their folder tells: `--method auto` has chosen one of them on
held-out images, `tune` the options of a method, `--folds` has tested every image by one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from msgspec import Meta, Struct

from procrustean.balance.metrics import Count, Metrics, Share
from procrustean.base.errors import RunError
from procrustean.base.files import OF_A_RUN, is_half_written, remove_half_written, write_atomically
from procrustean.base.json_files import FORMAT, read_typed, typed_json
from procrustean.base.lease import MARKER
from procrustean.base.table_formats import Statistic
from procrustean.records.finding_runs import CANDIDATES, COMPARISON, FINAL, FOLDS, RESULT_FILE, TRIALS
from procrustean.records.groups import Group, summarise
from procrustean.records.identity import changed_settings
from procrustean.records.run_record import Result, RunRecord, load_result
from procrustean.records.run_spec import RunSpec


class Several(Struct, frozen=True, kw_only=True):
    """What the folder of several runs keeps beside them: what was asked for, and what came of it."""

    FILE: ClassVar[str]
    FLAG: ClassVar[str] = "--run-dir"  # names the folder

    asked: RunSpec
    source_path: str | None = None


R = TypeVar("R", bound=Several)


def kept_in(folder: Path, kind: type[R]) -> R | None:
    """The record that a folder holds; None where it holds none of this kind."""
    file = folder / kind.FILE
    return read_typed(file, kind, "begin again in another folder") if file.is_file() else None


def agreed(folder: Path, kind: type[R], asked: RunSpec, **others: Any) -> R | None:
    """What a folder was begun for, if that is what is asked for now; None where nothing has begun.

    Args:
        folder: it need not be there yet.
        kind: of its record.
        asked: the settings.
        others: fields of the record that have to be the same, too.

    Raises:
        RunError: naming what differs.
    """
    kept = kept_in(folder, kind)
    if kept is None:
        return None
    differing = changed_settings(kept.asked, asked, kept.source_path)
    differing |= {name: (getattr(kept, name), now) for name, now in others.items() if getattr(kept, name) != now}
    if differing:
        told = "; ".join(f"{name} is {there} there and {here} here" for name, (there, here) in differing.items())
        raise RunError(f"{folder} was begun with other settings: {told}. Give those to go on, or another folder")
    return kept


def begin(folder: Path, record: Several) -> None:
    """Make a folder for several runs; what may lie in it are the trials of ways to train, and copied candidates."""
    if folder.exists() and (not folder.is_dir() or not all(map(_may_be_there, folder.iterdir()))):
        raise RunError(f"{folder} exists and is not an empty folder; choose another {record.FLAG}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create the folder {folder} ({error.strerror}); choose another {record.FLAG}") from error
    remove_half_written(folder)
    write_record(folder, record)


def write_record(folder: Path, record: Several) -> None:
    """Keep a record in its folder."""
    write_atomically(folder / record.FILE, typed_json(record), OF_A_RUN)


def _may_be_there(entry: Path) -> bool:
    return entry.name in (TRIALS, CANDIDATES, MARKER) or is_half_written(entry)


class Compared(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A method that was compared."""

    name: str  # of its folder
    held_out_balanced_accuracy: float | None  # None if the time did not suffice, or it failed
    failed: str = ""
    epochs: int | None = None  # of the short training after which it was left behind; None for the whole


class Comparison(Several, Struct, frozen=True, kw_only=True):
    """The content of auto.json; all from `compared` on is known in the end."""

    FILE = COMPARISON

    format: Literal[1] = FORMAT
    config: RunSpec  # the settings with what was chosen for the images and the machine
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
    return kept_in(folder, Comparison)


class Pooled(Struct, frozen=True, kw_only=True):
    """The answers for the images of all folds, each by the network that has not seen it."""

    classes: list[str]
    metrics: Metrics
    interval: tuple[Share, Share]
    groups: Count | None
    each: list[Share]  # headline of every fold
    untested: Count  # images that are in no fold


class Folded(Several, Struct, frozen=True, kw_only=True):
    """The content of folds.json; `pooled` is known in the end."""

    FILE = FOLDS

    format: Literal[1] = FORMAT
    folds: Annotated[int, Meta(ge=2)]
    config: RunSpec  # the settings with what was chosen for the images and the machine
    pooled: Pooled | None = None


def read_folds(folder: Path) -> Folded | None:
    """The record that a folder holds; None where it holds none."""
    return kept_in(folder, Folded)


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

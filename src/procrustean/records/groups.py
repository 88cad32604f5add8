"""Repeats of one setting brought together, each run once."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from procrustean.base.errors import RunError, did_you_mean
from procrustean.base.own_code import plain_name
from procrustean.base.table_formats import Statistic
from procrustean.records.finding_runs import CONFIG_FILE
from procrustean.records.identity import comparable, data_setting, setting_of
from procrustean.records.run_record import DataRecord, Result, Selection
from procrustean.records.run_spec import RunSpec

GROUP_METRICS = ("many", "medium", "few", "major", "minor")
METRICS = ("headline", "accuracy", "balanced_accuracy", "macro_f1", "top5", *GROUP_METRICS)

#: The parts of a record that were measured. Others, such as the command that is added to a copy, may differ.
MEASURED = ("selections", "curves", "probes")


@dataclass(frozen=True)
class Group:
    """Runs that differ in nothing but their seeds."""

    results: tuple[Result, ...]

    @property
    def label(self) -> str:
        return self.results[0].label

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(result.repeat[0] for result in self.results)

    @property
    def data_seeds(self) -> str:
        """The choices of images that were trained on, by their seeds."""
        return ", ".join(map(str, sorted({result.repeat[1] for result in self.results})))

    @property
    def data_seeds_text(self) -> str:
        """The same in words."""
        return f"data seed{'s' * (',' in self.data_seeds)} {self.data_seeds}"

    @property
    def config(self) -> RunSpec:
        """The config of the first run; only seeds and the like differ in the others."""
        return self.results[0].config

    @property
    def recipe(self) -> str:
        """Name of the recipe."""
        return self.results[0].record.recipe_name

    @property
    def epochs(self) -> int:
        return self.results[0].record.recipe.epochs

    @property
    def length(self) -> str:
        """The epochs, and whether the schedule is that of the method's publication, in its length or another."""
        if self.recipe != "own":
            return str(self.epochs)
        return f"{self.epochs} (own{'' if self.config.epochs is None else ', other length'})"

    @property
    def net(self) -> str:
        """Name of the network."""
        return plain_name(self.results[0].record.recipe.net)

    @property
    def data(self) -> DataRecord:
        return self.results[0].data

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(self.data.classes)

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(self.data.counts)

    @property
    def headline(self) -> str:
        """`accuracy` on a balanced test set, else `balanced_accuracy`."""
        return self.results[0].record.selections.last.metrics.headline

    def statistic(self, metric: str, selection: Selection = "last") -> Statistic | None:
        """Mean and spread of one metric; None when no run of the group has it.

        Args:
            metric: headline, accuracy, balanced_accuracy, macro_f1, top5, many, medium, few, major or minor.
            selection: last (last epoch), held_out (chosen on held-out images) or oracle (best on test).
        """
        if metric not in METRICS:
            raise RunError(f"There is no metric {metric!r}. {did_you_mean(metric, METRICS)}")
        found = [metrics for result in self.results if (metrics := result.metrics(selection)) is not None]
        return summarise(metrics.value(metric) for metrics in found)

    def recall(self, selection: Selection = "last") -> list[Statistic | None]:
        """Mean and spread of the recall of every class; None for classes without test images."""
        return self.per_class("recall", selection)

    def per_class(
        self, metric: Literal["recall", "precision"], selection: Selection = "last"
    ) -> list[Statistic | None]:
        """Mean and spread of a metric of every class; None where it is not defined."""
        chosen = [metrics for result in self.results if (metrics := result.metrics(selection)) is not None]
        found = [getattr(metrics, metric) for metrics in chosen]
        return [summarise(values) for values in zip(*found, strict=True)] if found else [None] * len(self.classes)


def summarise(values: Iterable[float | None]) -> Statistic | None:
    """Mean and sample standard deviation of the values that are known; None when none is.

    >>> summarise([0.25, 0.75, None]).mean
    0.5
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    sd = statistics.stdev(known) if len(known) > 1 else None
    return Statistic(mean=statistics.fmean(known), sd=sd, n=len(known))


def group_results(results: Iterable[Result], setting: Callable[[Result], object] = setting_of) -> list[Group]:
    """Brings together the runs that differ only in their seeds, in the order of first appearance.

    A run given twice by the same path counts once. Where training seeds were repeated on several choices of images, the
    runs are no independent repeats of one another, and those of each data seed make a group of their own.

    Args:
        results: runs of any settings.
        setting: all that two runs must share to be repeats of each other.

    Raises:
        RunError: when two different files hold the same setting with the same seeds: counting both would make
            the spread look smaller than it is.
    """
    settings: dict[str, dict[tuple[int, int], Result]] = {}
    for result in results:
        repeats = settings.setdefault(comparable(setting(result)), {})
        known = repeats.setdefault(result.repeat, result)
        if known is not result and (known.path is None or known.path != result.path):
            seed, data_seed = result.repeat
            raise RunError(
                f"{known.place} and {result.place} are the same run ({result.label}, seed {seed}, "
                f"data seed {data_seed}). Give only one of them."
            )
    return [Group(runs) for repeats in settings.values() for runs in _independent(repeats)]


def _independent(repeats: Mapping[tuple[int, int], Result]) -> list[tuple[Result, ...]]:
    """All runs of a setting, or those of each data seed where both seeds were varied and repeat in each other."""
    by_data_seed: dict[int, list[Result]] = {}
    for (_, data_seed), result in repeats.items():
        by_data_seed.setdefault(data_seed, []).append(result)
    if len({seed for seed, _ in repeats}) == len(repeats) or len(by_data_seed) == len(repeats):
        return [tuple(repeats.values())]
    return [tuple(by_data_seed[data_seed]) for data_seed in sorted(by_data_seed)]


def split_by_data(groups: Iterable[Group]) -> list[list[Group]]:
    """Groups trained and tested on the same data put together, in the order of first appearance."""
    parts: dict[str, list[Group]] = {}
    for group in groups:
        parts.setdefault(comparable(data_setting(group.results[0])), []).append(group)
    return list(parts.values())


def split_by_choice_of_classes(groups: Iterable[Group]) -> list[list[Group]]:
    """Groups on some classes of a data set, each choice apart from the others and from all classes together.

    Accuracies among fewer classes are no rivals of those among all: a guess is right more often.
    """
    parts: dict[str, list[Group]] = {}
    for group in groups:
        chosen = [group.data.source, sorted(group.classes)] if group.config.classes else None
        parts.setdefault(comparable(chosen), []).append(group)
    return list(parts.values())


def without_copies(results: Iterable[Result], say: Callable[[str], None]) -> list[Result]:
    """Each run once, where several files say the same about it; records of one run that differ are all left.

    Of equal ones that of a run directory is taken, where networks and what was diagnosed are found.

    Args:
        results: loaded from files.
        say: told in one line how many copies were passed over.
    """
    kept: dict[str, Result] = {}
    passed_over = []
    for result in results:
        content = comparable(
            [setting_of(result), result.repeat, {name: getattr(result.record, name) for name in MEASURED}],
        )
        known = kept.setdefault(content, result)
        if known.path == result.path:
            continue
        if _in_run_directory(result) and not _in_run_directory(known):
            kept[content], result = result, known
        passed_over.append(result)
    if passed_over:
        copies = "1 copy" if len(passed_over) == 1 else f"{len(passed_over)} copies"
        say(f"passed over {copies} of results that are here twice and say the same, for example {passed_over[0].path}")
    return list(kept.values())


def _in_run_directory(result: Result) -> bool:
    return result.path is not None and (result.path.parent / CONFIG_FILE).exists()


def by_options(groups: Sequence[Group]) -> list[Group]:
    """The groups as they come, but those of one label on the same data by the values of their options."""
    ordered, kin = list(groups), [comparable([group.label, data_setting(group.results[0])]) for group in groups]
    for name in dict.fromkeys(kin):
        places = [place for place, other in enumerate(kin) if other == name]
        for place, group in zip(places, sorted((groups[place] for place in places), key=_option_ranks), strict=True):
            ordered[place] = group
    return ordered


def _option_ranks(group: Group) -> list[tuple[Any, ...]]:
    """Numbers by their size, what is left to the method before them, and names after them."""
    ranked: list[tuple[Any, ...]] = []
    for name, value in sorted(setting_of(group.results[0]).options.items()):
        number = isinstance(value, int | float)
        ranked.append((name, 0 if value is None else 1 if number else 2, value if number else str(value)))
    return ranked

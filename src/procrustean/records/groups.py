"""Repeats of one setting brought together, and what they are called beside others."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from procrustean.base.code_files import plain_name
from procrustean.base.errors import RunError, did_you_mean
from procrustean.base.statistics import Statistic
from procrustean.records.identity import comparable, data_setting, setting_of
from procrustean.records.run_record import DataRecord, Result, Selection, load_result
from procrustean.records.run_spec import RunSpec

__all__ = [
    "GROUP_METRICS",
    "METRICS",
    "Group",
    "Result",
    "Selection",
    "data_parts",
    "data_text",
    "distinct_labels",
    "group_results",
    "joined_data",
    "load_result",
    "named_settings",
    "split_by_choice_of_classes",
    "split_by_data",
    "summarise",
]

GROUP_METRICS = ("many", "medium", "few", "major", "minor")
METRICS = ("headline", "accuracy", "balanced_accuracy", "macro_f1", "top5", *GROUP_METRICS)

NAMED_CLASSES = 6  # so many names of chosen classes can be read in a row of a table


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


def group_results(results: Iterable[Result], setting: Callable[[Result], dict[str, Any]] = setting_of) -> list[Group]:
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


def data_parts(group: Group) -> dict[str, str]:
    """The data of a group in words, part by part: source, imbalance, ratio, images held out.

    Classes are named if they were chosen, held-out images because they were not trained on.
    """
    data = group.data
    held_out = group.config.hold_out
    parts = {"source": data.source, "imbalance": data.kind.replace("_", "-")}
    if group.config.classes:
        parts["source"] += f" ({_classes_text(group.classes)})"
    if data.kind != "natural":
        parts["rho"] = f"\N{GREEK SMALL LETTER RHO}={data.rho:g}"
    if held_out:
        up_to = "up to " * bool(data.left_out_of_hold_out)  # a class that is too small gives none
        parts["held_out"] = f"{up_to}{_held_out_text(held_out)} held out"
    return parts


def some_classes(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMED_CLASSES} more" * (len(names) > NAMED_CLASSES)
    return ", ".join(names[:NAMED_CLASSES]) + more


def _classes_text(classes: Sequence[str]) -> str:
    """Chosen classes by name, of many the first few.

    >>> _classes_text(["cat", "dog"])
    '2 classes: cat, dog'
    """
    return f"{len(classes)} class{'es' * (len(classes) != 1)}: {some_classes(classes)}"


def _held_out_text(hold_out: float) -> str:
    """How many images were set aside, from the setting: a share below 1, a number of images from 1 on.

    >>> _held_out_text(0.15), _held_out_text(1), _held_out_text(3)
    ('15 % of each class', '1 image of each class', '3 images of each class')
    """
    if hold_out < 1:
        return f"{100 * hold_out:g} % of each class"
    return f"{hold_out:g} image{'s' * (hold_out != 1)} of each class"


def data_text(group: Group) -> str:
    """The data of a group in words."""
    return joined_data(data_parts(group))


def joined_data(parts: Mapping[str, str]) -> str:
    """Some or all of the parts of `data_parts` as one text.

    >>> joined_data({"source": "digits", "imbalance": "step", "rho": "\N{GREEK SMALL LETTER RHO}=20"})
    'digits, step \N{GREEK SMALL LETTER RHO}=20'
    """
    made = " ".join(parts[name] for name in ("imbalance", "rho") if name in parts)
    return ", ".join(text for text in (parts.get("source"), made, parts.get("held_out")) if text)


def _same_data(group: Group) -> Any:
    return data_setting(group.results[0])


def distinct_labels(
    groups: Sequence[Group], *, shown_beside: Collection[str] = (), alike: Callable[[Group], Any] = _same_data
) -> list[str]:
    """One label per group; groups of the same label and data get the settings in which they differ added.

    Args:
        groups: the groups that appear together.
        shown_beside: settings that the reader sees elsewhere, such as recipe, epochs or net; never added.
        alike: what groups share whose labels have to differ; by default their data.
    """
    settings = [named_settings(group) for group in groups]
    rows = [comparable([group.label, alike(group)]) for group in groups]
    labels = []
    for group, own, row in zip(groups, settings, rows, strict=True):
        twins = [other for other, other_row in zip(settings, rows, strict=True) if other_row == row]
        names = sorted({name for twin in twins for name in twin} - set(shown_beside))
        differing = [name for name in names if any(twin.get(name, ...) != own.get(name, ...) for twin in twins)]
        if len(differing) > 1 or shown_beside:  # it follows the epochs, and says nothing beside another difference
            differing = [name for name in differing if name != "evaluate_every"]
        added = ", ".join(f"{name}={_option_text(own[name]) if name in own else 'unknown'}" for name in differing)
        labels.append(f"{group.label} ({added})" if added else group.label)
    return labels


def _option_text(value: Any) -> str:
    return "default" if value is None else str(value)


def named_settings(group: Group) -> dict[str, Any]:
    """The settings of a group under the names by which a reader knows them."""
    setting = setting_of(group.results[0])
    named = {
        **setting["config"],
        **setting["recipe"],
        **setting["options"],
        "precision": setting["precision"],
    }
    named.pop("name", None)
    settled = {"recipe": group.recipe, "epochs": group.epochs, "net": group.net, "data_seed": group.data_seeds}
    return {**named, **settled}

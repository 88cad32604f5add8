"""The tables that compare methods, made from groups of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from procrustean.balance.count_facts import STEP_RATIO
from procrustean.base.errors import RunError
from procrustean.base.table_formats import Cell, Column, Statistic, Table, measured_cell
from procrustean.base.table_formats import to_markdown as to_markdown
from procrustean.records.best_of_many import Mean, about_bold, leader, rule_of
from procrustean.records.groups import Group, split_by_data
from procrustean.records.run_labels import data_parts, distinct_labels, joined_data, some_classes
from procrustean.records.run_record import Selection
from procrustean.records.several_runs import choices, held_out_accuracy, times_chosen, worth_of_choice
from procrustean.report.run_settings import given_settings, settings_text

FEWEST_CLASSES_FOR_MANY_MEDIUM_FEW = 20
HEADLINES = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy"}
CHOSEN = (
    " What is marked as chosen was best in balanced accuracy on the held-out images; test results had no say, so the "
    "best of them are not marked."
)
MAJOR_AND_MINOR = "major of classes with at least the geometric mean of the counts, minor of the rest"
#: Settings that have a column in a comparison, or are in its title.
SHOWN_BESIDE = ("recipe", "epochs", "net")
SELECTIONS: dict[Selection, str] = {
    "last": "last epoch",
    "held_out": "held-out selected",
    "oracle": "oracle",
}


def comparison(groups: Sequence[Group]) -> Table:
    """One row per setting, with the mean and sample standard deviation over its seeds.

    The headline metric stands under each of the three ways to choose an epoch; the other columns are of the
    last epoch. What all rows share is in the title, what differs gets a column. Rows with the same data stand
    together; the best mean of each column is marked among those that chose the same images of them.
    """
    groups = at_least_one(groups)
    # What a comparison has chosen stands first among the runs with the same data.
    chosen = choices(groups)
    blocks = [sorted(block, key=lambda group: -times_chosen(group, chosen)) for block in split_by_data(groups)]
    groups = [group for block in blocks for group in block]
    images = [f"{number}: {group.data_seeds}" for number, block in enumerate(blocks) for group in block]
    metric = common_headline(groups)
    described = _describe(groups, blocks, chosen)

    numbers = []
    was_compared = any(chosen.values())
    if was_compared:
        held_out_last = [held_out_accuracy(group) for group in groups]
        numbers.append((Column("held_out_accuracy", "held-out images", measured=True), held_out_last))
    for selection, heading in SELECTIONS.items():
        statistics = [group.statistic(metric, selection) for group in groups]
        # An empty column would only make the table wider; the note says why it is not there.
        empty = selection == "held_out" and not any(statistics)
        numbers.append((Column(selection, heading, measured=True, csv_only=empty), statistics))
    equal = all(max(group.counts) < STEP_RATIO * min(group.counts) for group in groups)
    for name, heading in _last_epoch_columns(groups):
        # Among classes of one size none is major or minor.
        column = Column(name, heading, measured=True, csv_only=equal and name in ("major", "minor"))
        numbers.append((column, [group.statistic(name) for group in groups]))

    columns = [column for column, _ in described.columns] + [column for column, _ in numbers]
    cells = [texts for _, texts in described.columns]
    for column, statistics in numbers:
        # Where held-out images have chosen, no result on the test set is offered as another choice.
        by_test = was_compared and column.name != "held_out_accuracy"
        cells.append(measured_cells(statistics, groups, images, marked=not by_test))
    columns.append(Column("p_against_best", "p", csv_only=True))
    last = next(statistics for column, statistics in numbers if column.name == "last")
    cells.append([Cell(text) for text in _p_values(last, images, shown=not was_compared)])
    heading = f"Test {HEADLINES[metric]} in %"
    held_out = any(column.name == "held_out" and not column.csv_only for column in columns)
    return Table(
        title=f"{heading}: {described.title}" if described.title else heading,
        columns=tuple(columns),
        rows=tuple(zip(*cells, strict=True)),
        note=repeats_note(groups)
        + ("" if held_out else " No images were held out to choose an epoch on.")
        + " Columns right of the oracle are of the last epoch"
        + ("" if equal else f"; group columns are mean recalls, {MAJOR_AND_MINOR}")
        + ". The oracle is the epoch that was best on the test set, so it is not a fair estimate."
        + _about_untested(groups)
        + (CHOSEN + worth_of_choice(groups) if was_compared else _about_bold(groups, blocks, metric))
        + described.remark
        + _given_options(groups, described.labels),
        shared=described.shared,
    )


def _about_untested(groups: Sequence[Group]) -> str:
    """Classes of which there are no test images, and what that means for the means over classes."""
    names = [name for group in groups for name, recall in zip(group.classes, group.recall(), strict=True) if not recall]
    untested = list(dict.fromkeys(names))
    if not untested:
        return ""
    return (
        f" No test images of {some_classes(untested)}: balanced accuracy, macro-F1 and groups are of the other classes."
    )


def _about_bold(groups: Sequence[Group], blocks: Sequence[Sequence[Group]], metric: str) -> str:
    """Whether the best of the last epoch is told apart from those on the same images."""
    *_, data = _data_texts(blocks)
    if len({group.data_seeds for group in groups}) > 1:
        data = [f"{text}, {group.data_seeds_text}" for text, group in zip(data, groups, strict=True)]
    # Networks and lengths have columns of their own in the table; here the names alone tell rows apart.
    names = distinct_labels(groups, shown_beside=("data_seed",))
    rivals: dict[str, dict[str, Mean]] = {}
    for group, name, images in zip(groups, names, data, strict=True):
        statistic = group.statistic(metric)
        if statistic is not None:
            rivals.setdefault(images if len(set(data)) > 1 else "", {})[name] = Mean.of(statistic)
    sentences = about_bold(rivals, SELECTIONS["last"].capitalize())
    return f" {sentences} {rule_of(rivals)}".rstrip() if sentences else ""


@dataclass(frozen=True)
class _Described:
    """What the rows are, apart from their numbers: columns of what differs, and what is the same in all."""

    columns: list[tuple[Column, list[Cell]]]
    labels: list[str]
    title: str
    shared: tuple[tuple[str, str], ...]
    remark: str


def _describe(groups: Sequence[Group], blocks: Sequence[Sequence[Group]], chosen: Mapping[str, int]) -> _Described:
    common, differing, whole = _data_texts(blocks)
    labels = distinct_labels(groups, shown_beside=(*SHOWN_BESIDE, "data_seed"))
    given = given_settings(groups, labels, shown_beside=SHOWN_BESIDE)
    named = [
        Cell(label + _choice_text(times_chosen(group, chosen), len(group.results)), whole=label)
        for label, group in zip(labels, groups, strict=True)
    ]
    columns = [(Column("method", "method", numeric=False), named)]
    titles, shared = [common], []
    if len(set(whole)) > 1:
        cells = [Cell(text, whole=all_of_it) for text, all_of_it in zip(differing, whole, strict=True)]
        columns.insert(0, (Column("data", "data", numeric=False), cells))
    else:
        shared.append(("data", whole[0]))
    data_seeds = [group.data_seeds for group in groups]
    named_data_seeds = "" if data_seeds[0] == "0" else groups[0].data_seeds_text
    others = (
        (Column("network", "network", numeric=False), [group.net for group in groups], "{}"),
        (Column("recipe", "recipe", numeric=False), [group.recipe for group in groups], "{} recipe"),
        (Column("epochs", "epochs"), [str(group.epochs) for group in groups], "{} epoch{}"),
        (Column("seeds", "seeds"), [str(len(group.results)) for group in groups], ""),  # the note says how many
        (Column("data_seeds", "data seeds", numeric=False), data_seeds, named_data_seeds),
    )
    for column, values, title in others:
        if len(set(values)) > 1:
            columns.append((column, [Cell(value) for value in values]))
        else:
            shared.append((column.name, values[0]))
            titles.append(title.format(values[0], "" if values[0] == "1" else "s"))
    if len(groups) > 1:  # a run by itself is not compared with anything
        titles.append(settings_text(given.shared))
    # Outside CSV, the title, the rows' names or the note have these.
    alike = {name: [value] * len(groups) for name, value in given.shared.items()}
    for name, used in {**given.differing, **alike}.items():
        cells = [Cell("" if value is None else str(value)) for value in used]
        columns.append((Column(name, name, numeric=False, csv_only=True), cells))
    options = [Cell(settings_text(group.config.options)) for group in groups]
    columns.append((Column("options", "options", numeric=False, csv_only=True), options))
    return _Described(columns, labels, ", ".join(text for text in titles if text), tuple(shared), given.remark)


def _given_options(groups: Sequence[Group], labels: Sequence[str]) -> str:
    """The options of a method that runs were given and that their row does not name.

    A row names an option only where it differs from another row of the same method; alone it would look like the
    method as it is.
    """
    unnamed: dict[str, None] = {}
    for group, label in zip(groups, labels, strict=True):
        options = group.config.options
        given = settings_text({name: value for name, value in options.items() if f"{name}=" not in label})
        if given:
            unnamed[f"{label} with {given}"] = None
    return f" Options given: {'; '.join(unnamed)}." if unnamed else ""


def _choice_text(times: int, runs: int) -> str:
    return "" if times == 0 else ", chosen" if times == runs else f", chosen {times} of {runs} times"


def at_least_one(groups: Sequence[Group]) -> list[Group]:
    if not groups:
        raise RunError("There are no results to compare. Give at least one finished run.")
    return list(groups)


def common_headline(groups: Sequence[Group]) -> str:
    """The metric in which groups are shown together: `accuracy` where all test sets are balanced."""
    # The two agree on a balanced test set, so balanced accuracy is right for a mixture.
    names = {group.headline for group in groups}
    return names.pop() if len(names) == 1 else "balanced_accuracy"


def _last_epoch_columns(groups: Sequence[Group]) -> list[tuple[str, str]]:
    """Name and heading of the columns beside the headline; many, medium and few only where they matter.

    Kang's three groups were made for many classes; among few classes they repeat major and minor or say less.
    """
    kang = [name for name in ("many", "medium", "few") if any(group.statistic(name) for group in groups)]
    if len(kang) < 2 or max(len(group.classes) for group in groups) < FEWEST_CLASSES_FOR_MANY_MEDIUM_FEW:
        kang = []
    return [(name, name) for name in ("major", "minor", *kang)] + [("macro_f1", "macro-F1")]


def best_marks(statistics: Sequence[Statistic | None], blocks: Sequence[str]) -> list[bool]:
    """The highest mean of each block of settings, as displayed; none where there is nothing to compare with."""
    shown = [None if statistic is None else f"{100 * statistic.mean:.1f}" for statistic in statistics]
    best = []
    for text, block in zip(shown, blocks, strict=True):
        rivals = [float(other) for other, b in zip(shown, blocks, strict=True) if b == block and other is not None]
        best.append(text is not None and len(rivals) > 1 and float(text) == max(rivals) > min(rivals))
    return best


def measured_cells(
    statistics: Sequence[Statistic | None], groups: Sequence[Group], images: Sequence[str], *, marked: bool
) -> list[Cell]:
    """A cell per group; the best among those on the same images is marked, if it is to be."""
    best = best_marks(statistics, images) if marked else [False] * len(groups)
    return [
        measured_cell(statistic, runs=len(group.results), best=is_best)
        for statistic, group, is_best in zip(statistics, groups, best, strict=True)
    ]


def _p_values(statistics: Sequence[Statistic | None], images: Sequence[str], *, shown: bool) -> list[str]:
    """Of every row against the best of those on the same images (Welch's t-test); empty where there is none."""
    if not shown:
        return [""] * len(statistics)
    rivals: dict[str, dict[str, Mean]] = {}
    for row, (statistic, own) in enumerate(zip(statistics, images, strict=True)):
        if statistic is not None:
            rivals.setdefault(own, {})[str(row)] = Mean.of(statistic)
    texts = [""] * len(statistics)
    for means in rivals.values():
        best = leader(means)
        for name, mean in means.items():
            p = None if name == best else means[best].p_value(mean)
            texts[int(name)] = "" if p is None else repr(p)
    return texts


def _data_texts(blocks: Sequence[Sequence[Group]]) -> tuple[str, list[str], list[str]]:
    """What all blocks share of their data, and for each group the rest and the whole.

    The texts differ between blocks even where two data sets go by the same name.
    """
    parts = [data_parts(block[0]) for block in blocks]
    common = {name: text for name, text in parts[0].items() if all(other.get(name) == text for other in parts)}
    whole = [joined_data(part) for part in parts]
    differing, complete = [], []
    for block, part, text in zip(blocks, parts, whole, strict=True):
        rest = joined_data({name: own for name, own in part.items() if name not in common})
        if whole.count(text) > 1:
            digest = block[0].data.source_hash[:8]
            remark = f"{sum(block[0].counts)} images, source {digest}"
            rest, text = f"{rest}, {remark}" if rest else remark, f"{text}, {remark}"
        differing += [rest or "as in the title"] * len(block)
        complete += [text] * len(block)
    return joined_data(common), differing, complete


def repeats_note(groups: Sequence[Group], of: str = "rows") -> str:
    """What the means are of, and which of the rows or columns compare."""
    runs = sorted({len(group.results) for group in groups})
    if runs == [1]:
        note = "One run each (n=1), so no spread is known."
    else:
        number = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        note = f"Mean ± sample standard deviation over n={number} runs."
    if len({group.data_seeds for group in groups}) > 1:
        note += f" Other data seeds are other images of the same data: compare {of} that share them."
    return note

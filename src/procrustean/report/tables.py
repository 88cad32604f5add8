"""The tables that compare methods, made from groups of results."""

from __future__ import annotations

from collections.abc import Sequence

from procrustean.errors import RunError
from procrustean.report.formats import (
    Cell,
    Column,
    Table,
    measured_cell,
    to_csv,
    to_latex,
    to_markdown,
    to_rich,
)
from procrustean.report.results import Group, Selection, Statistic, data_text, distinct_labels, split_by_data

__all__ = [
    "Cell",
    "Column",
    "Table",
    "comparison",
    "per_class",
    "to_csv",
    "to_latex",
    "to_markdown",
    "to_rich",
]

FEWEST_CLASSES_FOR_MANY_MEDIUM_FEW = 20
HEADLINES = {"accuracy": "accuracy", "balanced_accuracy": "balanced accuracy"}
SELECTIONS: dict[Selection, str] = {
    "last": "last epoch",
    "held_out": "held-out selected",
    "oracle": "oracle",
}


def comparison(groups: Sequence[Group]) -> Table:
    """One row per setting, with the mean and sample standard deviation over its seeds.

    The headline metric stands under each of the three ways to choose an epoch; the other columns are of the
    last epoch. What all rows share of data and network is in the title, what differs gets a column. The best
    mean of each column is marked among the rows with the same data; these stand together.
    """
    groups = _at_least_one(groups)
    blocks = split_by_data(groups)
    groups = [group for block in blocks for group in block]
    block_of = [number for number, block in enumerate(blocks) for _ in block]
    metric = _common_headline(groups)

    texts: list[tuple[Column, list[str]]] = [
        (
            Column("method", "method", numeric=False),
            distinct_labels(groups, shown_beside=("recipe", "epochs", "net")),
        ),
        (
            Column("recipe", "recipe", numeric=False),
            [group.recipe for group in groups],
        ),
        (Column("epochs", "epochs"), [str(group.epochs) for group in groups]),
        (Column("seeds", "seeds"), [str(len(group.results)) for group in groups]),
    ]
    data = _data_texts(blocks)
    nets = [group.net for group in groups]
    shared = []
    for position, (name, values) in enumerate((("data", data), ("network", nets))):
        if len(set(values)) == 1:
            shared.append((name, values[0]))
        else:
            texts.insert(position, (Column(name, name, numeric=False), values))

    numbers = [
        (Column(name, heading, measured=True), [group.statistic(metric, name) for group in groups])
        for name, heading in SELECTIONS.items()
    ]
    for name, heading in _last_epoch_columns(groups):
        numbers.append((Column(name, heading, measured=True), [group.statistic(name) for group in groups]))

    columns = [column for column, _ in texts] + [column for column, _ in numbers]
    cells = [[Cell(text) for text in values] for _, values in texts]
    for _, statistics in numbers:
        best = _best(statistics, block_of)
        cells.append(
            [
                measured_cell(statistic, runs=len(group.results), best=is_best)
                for statistic, group, is_best in zip(statistics, groups, best, strict=True)
            ]
        )
    setting = ", ".join(text for _, text in shared)
    heading = f"Test {HEADLINES[metric]} in %"
    return Table(
        title=f"{heading}: {setting}" if setting else heading,
        columns=tuple(columns),
        rows=tuple(zip(*cells, strict=True)),
        note=_note(groups)
        + " Columns right of the oracle are of the last epoch; group columns are mean recalls. The oracle is"
        " the epoch that was best on the test set, so it is not a fair estimate.",
        shared=tuple(shared),
    )


def per_class(groups: Sequence[Group], selection: Selection = "last") -> Table:
    """One row per class with its recall under each setting; the best of each row is marked.

    Raises:
        RunError: when the groups were not trained on the same data; use `split_by_data` first.
    """
    groups = _at_least_one(groups)
    if len(split_by_data(groups)) > 1:
        found = "; ".join(sorted({data_text(group) for group in groups}))
        raise RunError(
            "A table per class needs runs on the same data with the same counts, but these differ: "
            f"{found}. Compare the runs of one data setting at a time."
        )
    first = groups[0]
    labels = distinct_labels(groups)
    columns = [Column("class", "class", numeric=False), Column("train_images", "training images")]
    columns += [Column(f"{label} recall", label, measured=True) for label in labels]
    recalls = [group.recall(selection) for group in groups]
    rows = []
    for index, (name, count) in enumerate(zip(first.classes, first.counts, strict=True)):
        statistics = [recall[index] for recall in recalls]
        best = _best(statistics, [0] * len(groups))
        cells = [
            measured_cell(statistic, runs=len(group.results), best=is_best)
            for statistic, group, is_best in zip(statistics, groups, best, strict=True)
        ]
        rows.append((Cell(name), Cell(str(count)), *cells))
    return Table(
        title=f"Test recall per class in %, {SELECTIONS[selection]}: {data_text(first)}",
        columns=tuple(columns),
        rows=tuple(rows),
        note=_note(groups),
        shared=(("data", data_text(first)),),
    )


def _at_least_one(groups: Sequence[Group]) -> list[Group]:
    if not groups:
        raise RunError("There are no results to compare. Give at least one finished run.")
    return list(groups)


def _common_headline(groups: Sequence[Group]) -> str:
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


def _best(statistics: Sequence[Statistic | None], blocks: Sequence[int]) -> list[bool]:
    """The highest mean of each block of rows, as displayed; none where there is nothing to compare with."""
    shown = [None if statistic is None else f"{100 * statistic.mean:.1f}" for statistic in statistics]
    best = []
    for text, block in zip(shown, blocks, strict=True):
        rivals = [float(other) for other, b in zip(shown, blocks, strict=True) if b == block and other is not None]
        best.append(text is not None and len(rivals) > 1 and float(text) == max(rivals) > min(rivals))
    return best


def _data_texts(blocks: Sequence[Sequence[Group]]) -> list[str]:
    """One text per group that differs between blocks even where two data sets go by the same name."""
    plain = [data_text(block[0]) for block in blocks]
    texts = []
    for block, text in zip(blocks, plain, strict=True):
        if plain.count(text) > 1:
            digest = str(block[0].data.get("source_hash", "unknown"))[:8]
            text += f", {sum(block[0].counts)} images, source {digest}"
        texts += [text] * len(block)
    return texts


def _note(groups: Sequence[Group]) -> str:
    runs = sorted({len(group.results) for group in groups})
    if runs == [1]:
        return "One run each (n=1), so no spread is known."
    number = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    return f"Mean ± sample standard deviation over n={number} runs."

"""docs/reproduction.md: our tables beside the paper's, made from result files."""

from __future__ import annotations

from collections import Counter

from procrustean.base.table_formats import Table, table_of, to_markdown
from procrustean.paper.cell_tables import column_table, held_out_note, legend, measured_columns, overview_table
from procrustean.paper.comparison import SIGNS, Beside, Mark, table_cells
from procrustean.paper.definitions import Definitions, TableSpec
from procrustean.paper.judging import judge, judgement_table, overall
from procrustean.paper.page_parts import by_hand, paragraph, wrapped
from procrustean.paper.result_store import Store
from procrustean.records.best_of_many import RULE
from procrustean.runs.choosing import standard_error

INTRODUCTION = """\
# Reproduction

The tables of the MFW paper, run again, each cell beside the paper's number. `procrustean paper reproduce --pages docs`
writes this page from the files in [results/](../results/), one per run; nothing in it is typed in but the discussion.
"""
WORDS = (
    "ERM is plain training. DRW, deferred re-weighting, weights the classes in the last fifth of the epochs; MFW-DRW "
    "is MFW with it. Long-tailed (lt): the class sizes fall steadily from the first class to the last. Step: half of "
    "the classes are large and half are small. The ratio is that of the largest class to the smallest, so "
    "cifar10-lt100 is CIFAR-10 with 5000 to 50 training images per class. Differences are those of the "
    "rounded numbers. " + RULE
)
AGAIN = """\
## Do it yourself

`procrustean paper reproduce` lists the tables and the suites, which are parts of tables in the order in which they are
worth measuring. A command plans the cells as runs, leaves out those that are in `results/` already, and trains the
others side by side. With `--minutes` it stops in time with everything saved; the same command goes on where it left
off, also after a kill. `--dry-run` prints the plan and the predicted time:

```console
$ procrustean paper reproduce
$ procrustean paper reproduce rho100 --seeds 3 --minutes 9 --dry-run
$ procrustean paper reproduce cifar --rows MFW 'MFW-*' --columns 'cifar10-*' --held-out --dry-run
$ procrustean paper reproduce ablations --rows 'MFW*' 'alpha*' --columns 'cifar10-*' --dry-run
$ procrustean paper reproduce fidelity --seeds 3 --minutes 9 --dry-run
$ procrustean paper reproduce cifar --show
$ procrustean paper reproduce alpha --show --format latex
```

Every run leaves one JSON file in `results/` with its settings, both seeds (that of the data and that of the training),
counts, curves, confusion matrices, times and versions. [tables.md](tables.md) has the details.
"""


def reproduction_page(definitions: Definitions, store: Store, previous: str = "") -> str:
    """The whole page; parts of the previous one that were written by hand stay."""
    cells = {name: table_cells(spec, store) for name, spec in _pages(definitions).items() if not spec.judged}
    parts = [
        INTRODUCTION,
        "## How to read this page\n",
        paragraph(WORDS),
        paragraph(legend()),
        "## At a glance\n",
        _glance(definitions, cells),
        "## Discussion\n",
        by_hand(previous, "discussion"),
        *(_section(definitions.tables[name], store, found) for name, found in cells.items() if _seen(found)),
        _readings(definitions, store),
        _missing(definitions, store, cells),
        AGAIN,
    ]
    return "\n".join(part for part in parts if part).rstrip("\n") + "\n"


def _pages(definitions: Definitions) -> dict[str, TableSpec]:
    return {name: spec for name, spec in definitions.tables.items() if not spec.aside}


def _seen(cells: list[Beside]) -> bool:
    return any(cell.seeds for cell in cells)


def _glance(definitions: Definitions, cells: dict[str, list[Beside]]) -> str:
    lines = [
        "How many of the cells for which the paper has a number have been measured, and how they compare with it at "
        "oracle selection. Tables share cells: ERM and MFW at ratio 100 are in several."
    ]
    main = [c for c in cells.get("cifar", []) if c.difference is not None and c.cell.row in ("MFW", "MFW-DRW")]
    if main:
        differences = [c.difference for c in main if c.difference is not None]
        seeds = sorted({c.seeds for c in main})
        lines.append(
            f"In the {len(main)} measured cells of the main table, MFW and MFW-DRW differ from the paper by "
            f"{min(differences):+.1f} to {max(differences):+.1f} points ({' or '.join(map(str, seeds))} seeds each)."
        )
    text = paragraph(" ".join(lines)) + "\n" + to_markdown(_tally(definitions, cells))
    if _seen(cells.get("cifar", [])):
        text += "\n" + to_markdown(overview_table(definitions.tables["cifar"], cells["cifar"]))
    return text


def _tally(definitions: Definitions, cells: dict[str, list[Beside]]) -> Table:
    order: tuple[Mark, ...] = ("reproduced", "within noise", "higher", "lower", "higher once", "lower once")
    rows = []
    for name, found in cells.items():
        if definitions.tables[name].target:  # other settings beside a number that its own table counts
            continue
        published = [cell for cell in found if cell.paper is not None]
        if published:
            marks = Counter(cell.mark for cell in published)
            measured = sum(cell.seeds > 0 for cell in published)
            rows.append((name, str(len(published)), str(measured), *(str(marks[mark]) for mark in order)))
    headings = ("table", "cells", "measured", *(SIGNS[mark] for mark in order))
    return table_of("Cells of the paper's tables", dict(zip(headings, headings, strict=True)), rows)


def _section(spec: TableSpec, store: Store, cells: list[Beside]) -> str:
    lines = [f"## {spec.title}\n", f"`{spec.name}` ({spec.place}).\n"]
    for metric in spec.metrics:
        found = cells if metric == "top1" else table_cells(spec, store, metric=metric)
        lines += [to_markdown(column_table(spec, name, part)) for name, part in measured_columns(spec, found).items()]
    remarks = [f"{c.cell.row}, {c.cell.column}: {c.paper.note}" for c in cells if c.paper and c.paper.note and c.seeds]
    if remarks:
        lines.append(paragraph("Of the paper's numbers: " + "; ".join(remarks) + "."))
    for note in (held_out_note(cells), spec.note):
        if note:
            lines.append(paragraph(note))
    return "\n".join(lines)


def _readings(definitions: Definitions, store: Store) -> str:
    lines = []
    for spec in _pages(definitions).values():
        judgements = judge(spec, store) if spec.judged else []
        if not judgements:
            continue
        lines.append(f"### {spec.title}\n\n`{spec.name}` ({spec.place}).\n")
        for judgement in judgements:
            lines += [to_markdown(judgement_table(spec, judgement)), paragraph(judgement.text())]
        if finding := overall(spec, judgements):
            lines.append(paragraph(finding))
        if spec.note:
            lines.append(paragraph(spec.note))
    if not lines:
        return ""
    many, few = (100 * standard_error(0.75, [images] * 10) for images in (500, 3))
    head = (
        "## Which reading of the paper\n\n"
        + paragraph(
            "Where the text leaves a choice, each reading is trained on what is left after 5000 images were cut from "
            "the source, equally of all classes, and judged on those: the standard error of an accuracy near 75 % is "
            f"then {many:.1f} points, while the paper's three images per class would give {few:.1f}. The test columns "
            "stand beside for information; nothing was chosen on them. Since a tenth of the images is missing from "
            "training, they are not comparable with the paper's."
        )
        + "\n"
    )
    return head + "\n".join(lines)


def _missing(definitions: Definitions, store: Store, cells: dict[str, list[Beside]]) -> str:
    """All cells without a result, also of the tables that are not the paper's."""
    lines = []
    for name, spec in _pages(definitions).items():
        found = cells[name] if name in cells else table_cells(spec, store)
        left = [cell for cell in found if not cell.seeds]
        if left:
            columns = Counter(cell.cell.column for cell in left)
            listed = ", ".join(f"{column} ({count})" for column, count in columns.items())
            lines.append(wrapped(f"- `{name}`: {len(left)} of {len(found)} cells: {listed}", indent="  "))
    text = "\n".join(lines)
    return f"## Not measured yet\n\n{text}\n" if text else ""

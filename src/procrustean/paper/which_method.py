"""docs/which-method.md: which method did best where, from our own result files."""

from __future__ import annotations

from dataclasses import dataclass

from procrustean.base.table_formats import Statistic, Table, measured_cell, table_of, to_markdown
from procrustean.methods.make import entry as method_entry
from procrustean.paper.definitions import Definitions
from procrustean.paper.page_parts import by_hand, paragraph
from procrustean.paper.result_store import Store
from procrustean.records.best_of_many import RULE, Mean, above, doubts, leader
from procrustean.records.groups import Group

INTRODUCTION = """\
# Which method

For which kind of imbalance, budget and network, as far as this project has measured it. `procrustean paper reproduce
--pages docs` writes the numbers on this page from the files in [results/](../results/); what is between them was
written by hand and says nothing that they do not.
"""
READ = (
    "Test accuracy (on the digits balanced accuracy) of the last epoch in %, mean ± standard deviation over the "
    "training seeds, all on the published sets (data seed 0), in the order of the means. *Own*: by the schedule of the "
    "method's publication, in its length unless said; the others by that of the MFW paper, a cosine, and on the digits "
    "all by one. *Cost* is the training time relative to ERM in the paper's recipe, from the epochs and the price of a "
    "step, not measured. *Minor* is the mean recall of the smaller half of the classes. A method with one seed has no "
    "±, and is not called the first. Differences are those of the rounded numbers. Three methods do not train on the "
    "same images as the others: tau-norm on CIFAR-10 holds out three of each class, by which it chooses tau (on the "
    "digits it holds none out and tau is 1), and Meta-Weight and DA learn from a balanced set of 100 images beside the "
    "imbalanced one, 50 to 90 of which the others never see. " + RULE
)


@dataclass(frozen=True)
class Entry:
    """A method in one setting."""

    name: str
    group: Group

    @property
    def last(self) -> Statistic:
        statistic = self.group.statistic("headline")
        assert statistic is not None
        return statistic

    @property
    def points(self) -> float:
        return Mean.of(self.last).points


@dataclass(frozen=True)
class Ranking:
    """A setting and the methods measured in it, the best first."""

    column: str
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        data, net = self.entries[0].group.data, self.entries[0].group.net
        kind = data.kind.replace("_", "-")
        ratio = "" if kind == "natural" else f", ratio {data.rho:g}"
        counts = self.entries[0].group.counts
        return f"{data.source}, {kind}{ratio} ({max(counts)} to {min(counts)} images per class), {net}"

    @property
    def first(self) -> Entry:
        """The best of those that were repeated; of all, if none was."""
        name = leader({entry.name: Mean.of(entry.last) for entry in self.entries})
        return next(entry for entry in self.entries if entry.name == name)

    def named(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.name == name), None)


def rankings(definitions: Definitions, store: Store) -> list[Ranking]:
    """Settings in which at least two methods have been measured."""
    found: dict[tuple[str, str], dict[str, Entry]] = {}  # by column and network
    for spec in definitions.tables.values():
        for cell in spec.cells() if spec.ranked else []:
            results = store.repeats(cell.config())
            if results:
                entry = Entry(cell.row, Group(tuple(results)))
                found.setdefault((cell.column, entry.group.net), {}).setdefault(cell.row, entry)
    return [
        Ranking(column, tuple(sorted(entries.values(), key=lambda entry: -entry.last.mean)))
        for (column, _), entries in found.items()
        if len(entries) > 1
    ]


def advice_page(definitions: Definitions, store: Store, previous: str = "") -> str:
    """The whole page; parts of the previous one that were written by hand stay."""
    parts = [INTRODUCTION, "## What to choose\n", by_hand(previous, "choice")]
    parts += ["## The numbers\n", paragraph(READ)]
    for ranking in rankings(definitions, store):
        parts += [to_markdown(ranking_table(ranking)), paragraph(finding(ranking))]
    parts += ["## What is not known\n", by_hand(previous, "limits")]
    return "\n".join(parts).rstrip("\n") + "\n"


def ranking_table(ranking: Ranking) -> Table:
    """The methods of a setting with their price."""
    rows = []
    for entry in ranking.entries:
        seeds = len(entry.group.results)
        last = measured_cell(entry.last, runs=seeds, best=seeds > 1 and entry is ranking.first)
        minor = measured_cell(entry.group.statistic("minor"), runs=seeds)
        rows.append((entry.name, entry.group.length, f"{relative_cost(entry.group):.1f}", str(seeds), last, minor))
    measured = {"last": "last epoch", "minor": "minor"}
    headings = {"method": "method", "epochs": "epochs", "cost": "cost", "seeds": "seeds", **measured}
    return table_of(ranking.title, headings, rows, measured=measured)


def relative_cost(group: Group) -> float:
    """Training time relative to ERM in the paper's recipe, from epochs and the price of a step."""
    from procrustean.data.recipes import recipe_for

    step = method_entry(group.results[0].record.method.name).relative_cost
    return step * group.epochs / recipe_for(group.data.source).epochs


def finding(ranking: Ranking) -> str:
    """What can be said about the best of a setting, and how MFW compares with ERM there."""
    best = ranking.first
    means = {entry.name: Mean.of(entry.last) for entry in ranking.entries if entry is not best}
    # Of single runs only those above it are named; those below would make a long list.
    rivals = {name: mean for name, mean in means.items() if mean.error is not None or best.last.sd is None}
    sentences = [
        f"{'Highest' if best.last.sd is None else 'First'}: {best.name}, {best.points:.1f}.",
        above(Mean.of(best.last), means),
        doubts(Mean.of(best.last), rivals),
    ]
    erm = ranking.named("ERM")
    for name in ("MFW", "MFW-DRW"):
        entry = ranking.named(name)
        if erm is not None and entry is not None:
            sentences.append(f"{name} against ERM: {entry.points - erm.points:+.1f}.")
    return " ".join(filter(None, sentences))

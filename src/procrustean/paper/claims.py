"""What the paper claims about its figures, beside what was measured; "not measured yet" where there is no run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from procrustean.base.table_formats import NOTHING, Table, table_of, to_markdown
from procrustean.paper.claims_list import CLAIMS, KINDS, Claim, Setting
from procrustean.paper.mfw_lines import Line, Option, families, lines_of, names, settings_of, values_of
from procrustean.paper.page_parts import placed
from procrustean.records.identity import comparable
from procrustean.records.run_record import Result

NOT_YET = "not measured yet"
ABOUT = (
    "CIFAR-10 at ratio 100, erm or mfw without --drw: ResNet-32 with the paper's recipe, all classes and no images "
    "held out, or four classes as procrustean paper toy trains them; and mfw with several values of alpha or beta, all "
    "else being equal"
)
#: The options whose best values the paper names, and the standard deviation under which they are looked for.
ALONG: tuple[tuple[Option, str], ...] = (("alpha", "geometric"), ("beta", "geometric"), ("beta", "arithmetic"))
#: In the place of the best value where a single setting stands for all of them.
ONE_FOR_ALL = "one run for all"
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"


@dataclass(frozen=True)
class Runs:
    """The runs that the claims are about, by setting and method; repeats are averaged."""

    results: dict[tuple[Setting, str], list[Result]] = field(default_factory=dict)
    mfw: list[Result] = field(default_factory=list)  # all of MFW on ten classes, with any options and held-out images

    def values(self, setting: Setting, method: str, of: Callable[[Result], float | None]) -> list[float]:
        """What was measured on the runs of one kind."""
        found = (of(result) for result in self.results.get((setting, method), []))
        return [value for value in found if value is not None]


def sorted_runs(results: Sequence[Result]) -> Runs:
    """The runs that belong to the paper's figures: CIFAR-10 at ratio 100, defaults of the methods, no DRW.

    The illustration of four classes has options of its own, and counts with images held out, too. Runs that were not
    measured on their way tell accuracies alone; of two with the same seeds the measured one counts.
    """
    from procrustean.methods.make import option_defaults
    from procrustean.paper import toy

    defaults = {method: option_defaults(method) for method in ("erm", "mfw")}
    of_toy = {settings["method"]: settings.get("options", {}) for settings in toy.METHODS}
    runs, seen = Runs(), set()
    for result in sorted(results, key=lambda result: result.record.probes is None):
        record, config = result.record, result.config
        data, method, net = record.data, record.method, record.recipe.net
        if data.source != "cifar10" or data.rho != 100 or config.drw:
            continue
        if method.name not in defaults:
            continue
        own = defaults[method.name]
        options = {n: v for n, v in method.options.items() if v is not None and v != own.get(n)}
        setting: Setting
        if net == "resnet32-2d" and len(data.classes) == 4 and data.kind == "step":
            setting = "toy"
            usual = options == of_toy[method.name] and record.recipe.epochs == toy.SETTING["epochs"]
        elif net == "resnet32" and len(data.classes) == 10 and data.kind in KINDS:
            if method.name == "mfw":
                runs.mfw.append(result)
            setting = data.kind
            usual = not options and config.epochs is None and not config.hold_out
        else:
            continue
        usual = usual and config.recipe in ("auto", "paper")
        run = (setting, method.name, config.seed, config.data_seed, bool(config.hold_out))
        if usual and run not in seen:
            seen.add(run)
            runs.results.setdefault((setting, method.name), []).append(result)
    return runs


def coverage(results: Sequence[Result]) -> str:
    """How many of the runs the claims are about, and which runs those would be."""
    if not results:
        return f"no runs were given; the claims are about {ABOUT}"
    runs = sorted_runs(results)
    judged = {id(run) for own in runs.results.values() for run in own}
    along = [line for option, std in ALONG for (_, own), line in _lines(runs, option).items() if own == std]
    judged |= {id(run) for line in along for point in line.points for run in point.group.results}
    read = f"{len(results)} run{'s were' if len(results) > 1 else ' was'} read"
    if len(judged) == len(results):
        return f"{read}, and the claims are about {'all of them' if len(results) > 1 else 'it'}"
    return f"{read}, of which {len(judged)} count{'s' * (len(judged) == 1)}: the claims are about {ABOUT}"


def claims_table(results: Sequence[Result]) -> Table:
    """Every claim with the values of ERM and MFW and whether it was seen."""
    runs = sorted_runs(results)
    headings = {"place": "paper", "claim": "claim", "measured": "measured", "erm": "ERM", "mfw": "MFW"}
    headings |= {"published": "published", "seen": "seen"}
    rows = [_row(claim, runs) for claim in CLAIMS]
    rows += [_best_of(runs, option, std) for option, std in ALONG]
    return table_of("The paper's claims", headings, rows, words=("place", "claim", "measured", "seen"))


#: The figures of the analyses, by the names of their files -> what they show.
PICTURES = {
    "progress-long-tailed": "Training accuracy and classification ratio of the largest and the smallest class along "
    "the epochs, long-tailed CIFAR-10 at ratio 100, ERM and MFW",
    "progress-step": "The same on step-imbalanced CIFAR-10",
    "gradients-long-tailed": "Norm of the loss gradient at the mixing layer along the epochs, long-tailed, ERM and MFW",
    "gradients-step": "The same on step imbalance",
    "deviation": "Feature deviation along the epochs, long-tailed and step, ERM and MFW",
    "tsne": "t-SNE of training and test features of the largest and the smallest class after the last epoch",
    "bars-step": "Training and test accuracy of every class, step, ERM above MFW",
    "toy-erm": "Features in the plane and decision regions along the epochs, ERM, training above test",
    "toy-mfw": "The same for MFW",
    "alpha": "Test accuracy of MFW along alpha",
    "beta": "Weight function and test accuracy of MFW along beta, under both standard deviations; where markers are "
    "hollow, the strengths and the runs are those of a filled one",
}


def block_for(page: Path, results: Sequence[Result]) -> str:
    """What stands between the marks of a page: the table, and the pictures in figures/analysis beside the page."""
    lines = [to_markdown(claims_table(results)).strip()]
    for stem, text in PICTURES.items():
        if (page.parent / "figures" / "analysis" / f"{stem}.png").exists():
            lines.append(f"![{text}.](figures/analysis/{stem}.png)")
    return "\n\n".join(lines)


def replaced(page: str, block: str) -> str:
    """A page with the block put between its two marks."""
    return placed(page, BEGIN, END, f"\n{block.strip()}\n")


def _row(claim: Claim, runs: Runs) -> list[str]:
    values = {method: runs.values(claim.setting, method, claim.of) for method in claim.methods}
    texts = [_text(values[method], claim.form) if method in values else NOTHING for method in ("erm", "mfw")]
    if all(values.values()):
        means = [statistics.fmean(values[m]) if m in values else float("nan") for m in ("erm", "mfw")]
        seen = "yes" if claim.seen(*means) else "no"
    else:
        seen = NOT_YET
    return [claim.place, claim.text, claim.measured, *texts, claim.published, seen]


def _text(values: Sequence[float], form: str) -> str:
    if not values:
        return NOTHING
    mean = format(statistics.fmean(values), form)
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):{form}}"


def _lines(runs: Runs, option: Option) -> dict[tuple[str, str], Line]:
    """The lines along an option by kind of imbalance and standard deviation; of several those of most settings."""
    if not any(names(run, option) for run in runs.mfw):
        return {}
    # Of two with the same seeds the one that was not measured on its way counts, as the other runs of a line and the
    # figure have it.
    once: dict[tuple[str, object], Result] = {}
    for run in sorted(runs.mfw, key=lambda run: run.record.probes is not None):
        once.setdefault((comparable(settings_of(run)), run.repeat), run)
    made = families(once.values(), option)
    found: dict[tuple[str, str], Line] = {}
    for line in (line for family in made if family.varies for line in lines_of(family, values_of(made))):
        other = found.setdefault((line.kind, line.std), line)
        if _weight(line) > _weight(other):
            found[line.kind, line.std] = line
    return found


def _weight(line: Line) -> tuple[int, int, bool]:
    """How much a line says: settings, points, and whether all images were trained on."""
    return line.settings, len(line.points), not line.points[0].group.config.hold_out


def _best_of(runs: Runs, option: Option, std: str) -> list[str]:
    """Where the accuracy is best along an option under one reading of the standard deviation, long-tailed and step."""
    text, published = {
        "alpha": ("long-tailed counts prefer a smaller alpha than step counts", "1 and 5"),
        "beta": ("long-tailed counts prefer a larger beta than step counts", "2 and 0.01"),
    }[option]
    measured = f"best {option}, long-tailed and step, by the last epoch; {std} standard deviation"
    known = _lines(runs, option)
    lines = [line for kind in KINDS if (line := known.get((kind, std))) is not None and len(line.points) > 1]
    if len(lines) < 2:
        return ["supplement", text, measured, NOTHING, NOTHING, published, NOT_YET]
    tail, step = (line.best for line in lines)
    flat = [line for line in lines if line.is_one_setting]  # where nothing is preferred
    seen = not flat and (max(tail) < min(step) if option == "alpha" else min(tail) > max(step))
    best = [ONE_FOR_ALL if line in flat else "/".join(f"{value:g}" for value in line.best) for line in lines]
    found = " and ".join(best) if len(flat) < 2 else ONE_FOR_ALL
    return ["supplement", text, measured + _flat_text(flat), NOTHING, found, published, "yes" if seen else "no"]


def _flat_text(lines: Sequence[Line]) -> str:
    """Why there is nothing to choose along lines that are one setting."""
    if not lines:
        return ""
    from procrustean.methods.mfw import SAME_POINT

    first = max(line.points[0].value for line in lines)
    last = min(line.points[-1].value for line in lines)
    counts = f"{lines[0].kind.replace('_', '-')} counts " if len(lines) == 1 else ""
    return f": every beta from {first:g} to {last:g} gives {counts}the same strengths to {SAME_POINT:g}"

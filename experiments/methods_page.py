"""Sum up the runs of experiments/methods-cifar10-lt100.yaml: results/methods-cifar10-lt100.json and docs/methods.md.

python experiments/methods_page.py

A row has all seeds that were run with its settings, by whatever command: those of other folders of results too. Run
it again whenever there are new results. Every row of the grid has a line in both, those that have not been run too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro

from procrustean.balance import Problem
from procrustean.base import ConfigError
from procrustean.base.table_formats import Statistic
from procrustean.base.yaml_files import read_yaml
from procrustean.engine.stage_order import stage_epochs
from procrustean.methods import make_method
from procrustean.paper import Store, canonical, paper_number, placed
from procrustean.records import RunSpec
from procrustean.records.groups import summarise
from procrustean.records.run_record import Result
from procrustean.runs import expand
from procrustean.runs.preparing import recipe_of

PROJECT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- methods: begin -->", "<!-- methods: end -->"
FORMAT = 1
COLUMN = "cifar10-lt100"  # of the paper's tables
FAR = 3.0  # points below every reference, from which on a row is marked
FAR_FROM_ERM = 1.0  # the same below ERM, where there is no reference
VERSIONS = ("machine", "precision", "engine", "kernels", "torch", "python", "procrustean")
MISSING = "missing"
#: Rows that would have the name of another one; named as in the tables of `procrustean paper reproduce`.
OTHER_NAMES = {"deconfound --options tde=true": "plain De-confound-TDE"}


@dataclass(frozen=True)
class Page:
    """Write the summary and the table; nothing is trained."""

    grid: Path = PROJECT / "experiments" / "methods-cifar10-lt100.yaml"
    """The runs that there should be."""
    references: Path = PROJECT / "experiments" / "methods-references.yaml"
    """What they are compared with."""
    results: Path = PROJECT / "results" / "methods-cifar10-lt100"
    """Where the JSON files of the runs of the grid are."""
    every: Path = PROJECT / "results"
    """Where further seeds of the same settings are, in any folders below."""
    costs: Path = PROJECT / "results" / "method-costs-h200.json"
    """Time per image of the methods, as `python benchmarks/method_costs.py` writes it."""
    summary: Path = PROJECT / "results" / "methods-cifar10-lt100.json"
    """The summary that is written."""
    page: Path = PROJECT / "docs" / "methods.md"
    """What the table is written into, between its two marks."""


def main(page: Page) -> int:
    summary = summary_of(page, say=lambda text: sys.stderr.write(text + "\n"))
    text = page.page.read_text()
    made = with_section(text, summary)
    page.summary.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    if made != text:
        page.page.write_text(made)
    rows, missing = len(summary["rows"]), len(summary["missing"])
    sys.stderr.write(f"{rows - missing} of {rows} rows measured; written: {page.summary}, {page.page}\n")
    return 0


def with_section(text: str, summary: Mapping[str, Any]) -> str:
    """The page with the section of a summary."""
    return placed(text, BEGIN, END, f"\n\n{section(summary)}\n")


def summary_of(page: Page, say: Any = lambda text: None) -> dict[str, Any]:
    """All that is known about every row of the grid, as plain data."""
    # As for which-method.md and reproduction.md: of two runs with equal settings and seeds the same one counts.
    store, own = Store(page.every, None), Store(page.results, None, say)
    references = read_yaml(page.references)
    costs = cost_by_method(page.costs)
    configs = rows_of(page.grid)
    known = {settings(config): config for config in configs}
    if len(known) < len(configs):
        raise ConfigError(f"{page.grid}: rows differ in more than method, options, drw, hold_out and recipe")
    compared = dict(reference_rows(references, known))
    found = {key: runs_of(config, store) for key, config in known.items()}
    rows = [measured_row(page, config, found[key], compared.get(key), costs) for key, config in known.items()]
    judge(rows)
    used = [result for results in found.values() for result in results]
    return {
        "format": FORMAT,
        "what": "CIFAR-10, long-tailed at ratio 100, ResNet-32, every method by its own recipe; test accuracies as "
        "fractions (last epoch, and best epoch on the test set: oracle), references in percent",
        "command": "python experiments/methods_page.py",
        "runs": {
            "files": len(used),
            "commands": sorted({result.record.command for result in used if result.record.command}),
            "environments": environments(used),
        },
        "left_out": left_out(page.results, [result for config in configs for result in own.repeats(config)]),
        "sources": references["sources"],
        "marks": {"points_below_every_reference": FAR, "points_below_erm_without_reference": FAR_FROM_ERM},
        "rows": rows,
        "missing": [row["settings"] for row in rows if not row["seeds"]],
        "marked": [row["settings"] for row in rows if row["mark"]],
    }


def rows_of(grid: Path) -> list[RunSpec]:
    """The kinds of runs in a grid, whatever their training seeds, in its order."""
    kinds: dict[str, RunSpec] = {}
    for config in expand(read_yaml(grid), Path("runs"), origin=str(grid)):
        one = replace(config, seed=0)
        kinds.setdefault(canonical(one).hash, one)
    return list(kinds.values())


def runs_of(config: RunSpec, store: Store) -> list[Result]:
    """The runs of a row with any seed; where its own recipe is the paper's, as MFW's is, those by that name if more."""
    found, by_paper = store.repeats(config), replace(config, recipe="paper")
    if recipe_of(by_paper) == recipe_of(config):
        found = max(found, store.repeats(by_paper), key=len)
    return found


def settings(config: RunSpec) -> str:
    """What a row adds to the settings of all, as one would write it on the command line."""
    words = [config.method]
    if config.options:
        words += ["--options", *(f"{name}={_word(value)}" for name, value in config.options.items())]
    words += ["--drw"] * config.drw
    words += [f"--hold-out {config.hold_out:g}"] * bool(config.hold_out)
    words += [f"--recipe {config.recipe}"] * (config.recipe != "own")
    return " ".join(words)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def label_of(config: RunSpec) -> str:
    """The name of the method in tables; it depends on the options alone."""
    problem = Problem(counts=(2, 1), kind="long_tailed", source=config.source)
    made = make_method(config.method, problem, {**config.options, **({"drw": True} if config.drw else {})})
    return OTHER_NAMES.get(settings(config)) or made.label


def reference_rows(references: Mapping[str, Any], known: Mapping[str, RunSpec]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What rows of the grid are compared with, by their settings."""
    for line in references["rows"]:
        wanted = (line["method"], line.get("options") or {}, line.get("drw", False))
        keys = [key for key, config in known.items() if (config.method, config.options, config.drw) == wanted]
        if not keys:
            raise ConfigError(f"there are references for {wanted}, which is no row of the grid")
        paper = None
        if "paper" in line:
            paper = paper_number(line["paper"][0], line["paper"][1], COLUMN)
            if paper is None:
                raise ConfigError(f"the paper has no number at {line['paper']}, {COLUMN}")
        unknown = set(line.get("reruns", {})) - set(references["sources"])
        if unknown:
            raise ConfigError(f"a reference of {line['method']} is from {sorted(unknown)}, which is no source")
        for key in keys:
            reruns = [{"source": source, "percent": value} for source, value in line.get("reruns", {}).items()]
            yield key, {"paper": paper and paper.value, "reruns": reruns, "note": line.get("note")}


def cost_by_method(path: Path) -> dict[str, float]:
    """Time per image with the default options, relative to ERM, by the shares that stages and phases have today."""
    if not path.exists():
        return {}
    times = {row["method"]: _time_per_image(row) for row in json.loads(path.read_text())["methods"]}
    return {name: round(time / times["erm"], 3) for name, time in times.items()}


def _time_per_image(row: Mapping[str, Any]) -> float:
    """Mean over a training of the times that were measured for every stage and phase of a method."""
    config = RunSpec("cifar10", "long_tailed", 100, method=row["method"])
    method = make_method(config.method, Problem(counts=(2, 1), kind="long_tailed", source=config.source))
    lengths = stage_epochs(method, recipe_of(config).epochs)
    measured = {(part["stage"], part["phase"]): part["microseconds_per_image"] for part in row["parts"]}
    times = [
        measured[stage.name, stage.objective.phase_at(epoch, epochs)]
        for stage, epochs in zip(method.stages, lengths, strict=True)
        for epoch in range(epochs)
    ]
    return sum(times) / len(times)


def measured_row(
    page: Page,
    config: RunSpec,
    results: Sequence[Result],
    compared: Mapping[str, Any] | None,
    costs: Mapping[str, float],
) -> dict[str, Any]:
    compared = compared or {"paper": None, "reruns": [], "note": None}
    cost = costs.get(config.method) if not config.options else None  # other options have not been timed
    return {
        "label": label_of(config),
        "settings": settings(config),
        "method": config.method,
        "options": config.options,
        "drw": config.drw,
        "recipe": config.recipe,
        "epochs": results[0].record.recipe.epochs if results else recipe_of(config).epochs,
        "seeds": [result.config.seed for result in results],
        "files": [
            result.path.relative_to(page.every.resolve()).as_posix() for result in results if result.path is not None
        ],
        "last": _plain(_statistic(results, "last")),
        "oracle": _plain(_statistic(results, "oracle")),
        "paper": compared["paper"],
        "reruns": compared["reruns"],
        "note": compared["note"],
        "cost": 1.0 if config.method == "erm" and costs else cost,
    }


def _statistic(results: Sequence[Result], selection: Literal["last", "oracle"]) -> Statistic | None:
    return summarise(metrics.accuracy for result in results if (metrics := result.metrics(selection)) is not None)


def _plain(statistic: Statistic | None) -> dict[str, Any] | None:
    if statistic is None:
        return None
    return {name: round(value, 8) if isinstance(value, float) else value for name, value in asdict(statistic).items()}


def judge(rows: Sequence[dict[str, Any]]) -> None:
    """Mark the rows whose oracle accuracy is far below every reference, or below ERM where they have none."""
    erm = next((row["oracle"] for row in rows if row["settings"] == "erm"), None)
    for row in rows:
        numbers = [*([row["paper"]] if row["paper"] is not None else []), *(r["percent"] for r in row["reruns"])]
        row["compared_with"], row["below"], row["mark"] = None, None, None
        if row["oracle"] is None:
            continue
        if numbers:
            row["compared_with"], lowest, far = "references", min(numbers), FAR
        elif erm is not None:
            row["compared_with"], lowest, far = "erm", _shown(erm), FAR_FROM_ERM
        else:
            continue
        # Rounded as it is shown, so that it is the difference that a reader computes from the table.
        row["below"] = round(lowest - _shown(row["oracle"]), 2)
        if row["below"] > far:
            than = "every reference" if numbers else "ERM"
            row["mark"] = f"more than {far:g} point{'s' * (far != 1)} below {than}"


def _shown(statistic: Mapping[str, Any]) -> float:
    return float(f"{100 * statistic['mean']:.1f}")


def environments(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Machines and versions of the runs, and how many runs each had."""
    counts: dict[tuple[Any, ...], int] = {}
    for result in results:
        key = tuple(getattr(result.record.environment, name) for name in VERSIONS)
        counts[key] = counts.get(key, 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    return [{**dict(zip(VERSIONS, key, strict=True)), "runs": count} for key, count in ordered]


def left_out(folder: Path, used: Sequence[Result]) -> list[str]:
    """Files of the folder that are no run of the grid, or one with other defaults than today's."""
    counted = {result.path for result in used}
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*.json") if path.resolve() not in counted
    )


def section(summary: Mapping[str, Any]) -> str:
    """The generated part of the page."""
    rows = summary["rows"]
    done = sorted((row for row in rows if row["seeds"]), key=lambda row: -row["last"]["mean"])
    absent = [row for row in rows if not row["seeds"]]
    numbers = {name: place for place, name in enumerate(summary["sources"], start=1)}
    lines = [
        f"{len(done)} of the {len(rows)} rows of the grid have been run, {summary['runs']['files']} runs"
        + f" on {_where(summary)}." * bool(done),
        *([f"Rows marked *{MISSING}* have not been run."] if absent else []),
        "",
        "| method | `--method` | epochs | seeds | last | oracle | paper | re-runs elsewhere | time | mark |",
        "|---|---|---:|---:|---:|---:|---:|---|---:|---|",
        *(_line(row, numbers) for row in [*done, *absent]),
        "",
        f"Mark: the oracle accuracy is more than {FAR:g} points below every reference of its row, or, where it has",
        f"none, more than {FAR_FROM_ERM:g} point below that of ERM. {_verdict(done)}",
        "",
        "Re-runs:",
        "",
        *(f"- [{numbers[name]}] {_source(of)}" for name, of in summary["sources"].items()),
    ]
    if summary["left_out"]:
        names = ", ".join(f"`{name}`" for name in summary["left_out"])
        lines += ["", f"Left out, since they are no runs of the grid as it is today: {names}."]
    return "\n".join(lines) + "\n"


def _where(summary: Mapping[str, Any]) -> str:
    return " and ".join(dict.fromkeys(f"{e['machine']} in {e['precision']}" for e in summary["runs"]["environments"]))


def _source(source: Mapping[str, str]) -> str:
    return f"{source['title']} ({source['place']})"


def _verdict(done: Sequence[Mapping[str, Any]]) -> str:
    marked = [row["label"] for row in done if row["mark"]]
    unjudged = [row["label"] for row in done if row["compared_with"] is None]
    text = f"Marked: {', '.join(marked)}." if marked else "No row is marked."
    return text + f" Not judged, for want of ERM: {', '.join(unjudged)}." * bool(unjudged)


def _line(row: Mapping[str, Any], numbers: Mapping[str, int]) -> str:
    reruns = ", ".join(f"{_value(rerun['percent'])} [{numbers[rerun['source']]}]" for rerun in row["reruns"])
    reruns += f" ({row['note']})" if row["note"] else ""
    mark = f"**{row['below']:.1f} below{' ERM' * (row['compared_with'] == 'erm')}**" if row["mark"] else ""
    cells = [
        row["label"],
        f"`{row['settings']}`",
        str(row["epochs"]),
        str(len(row["seeds"])),
        _percent(row["last"], absent=not row["seeds"]),
        _percent(row["oracle"], absent=not row["seeds"]),
        "" if row["paper"] is None else _value(row["paper"]),
        reruns,
        "" if row["cost"] is None else f"{row['cost']:.2f}",
        mark,
    ]
    return "| " + " | ".join(cells) + " |"


def _value(percent: float) -> str:
    """A reference as it was published."""
    return f"{percent:.1f}" if round(percent, 1) == percent else f"{percent:g}"


def _percent(statistic: Mapping[str, Any] | None, *, absent: bool) -> str:
    if statistic is None:
        return f"*{MISSING}*" if absent else "—"
    spread = "" if statistic["sd"] is None else f" ± {100 * statistic['sd']:.1f}"
    return f"{100 * statistic['mean']:.1f}{spread}"


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Page, description=__doc__)))

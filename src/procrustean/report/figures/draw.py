"""Draw a figure of the table from finished runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from procrustean.base.errors import ConfigError, RunError, did_you_mean
from procrustean.engine.stored_features import kept_epochs, load_features
from procrustean.records.run_record import Result
from procrustean.report.figures.figure_table import FIGURES, Entry, Need

if TYPE_CHECKING:
    from procrustean.report.figures.canvas import Figure
    from procrustean.report.figures.panels import Panel


def draw_figure(
    name: str,
    results: Iterable[Result],
    output: str | Path,
    *,
    stem: str | None = None,
    table: Mapping[str, Entry] = FIGURES,
    say: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> list[Path]:
    """Draw a figure and write it as PNG and SVG; returns the files.

    Args:
        name: of the figure.
        results: finished runs; repeats of a setting are drawn as mean and spread. Those that lack what the figure
            shows are left out, unless all do.
        output: folder.
        stem: name of the files without their ending; by default that of the figure, with the option it is drawn along.
        table: where the figure stands.
        say: told which runs are left out, and what the others lack for a fuller figure.
        options: further arguments of the figure, such as `all_classes=True`.
    """
    if name not in table:
        raise ConfigError(f"there is no figure {name!r}. {did_you_mean(name, table)}")
    from procrustean.report.figures.canvas import save
    from procrustean.report.figures.panels import panels_of

    if not (results := list(results)):
        raise RunError("There are no results to draw. Give at least one finished run.")
    entry = table[name]
    if other := set(options) - options_of(name, table):
        flags = ", ".join(f"--{option.replace('_', '-')}" for option in sorted(other))
        raise ConfigError(f"{flags} received; the figure {name!r} does not take it")
    kept = _with_what_it_shows(results, entry.needs, say)
    target = Path(output) / (stem or "-".join(filter(None, (name, options.get("over")))))
    if not entry.each_run:
        shown = panels_of(kept) if "probes" in entry.needs else kept
        return save(drawing(name, shown, table=table, say=say, **options), target)
    files = []
    for number, result in enumerate(kept):
        own = result.record.method.name
        same = sum(other.record.method.name == own for other in kept[:number])
        place = target.with_name(f"{target.name}-{own}{f'-{same + 1}' * bool(same)}")
        files += save(drawing(name, [result], table=table, say=say, **options), place)
    return files


def drawing(
    name: str,
    shown: Sequence[Panel] | Sequence[Result],
    *,
    table: Mapping[str, Entry] = FIGURES,
    say: Callable[[str], None] = lambda text: None,
    **options: Any,
) -> Figure:
    """A figure of the table, drawn and not yet written.

    Args:
        name: of the figure.
        shown: panels where it needs probes, else results.
        table: where the figure stands.
        say: told what is missing for a fuller figure, by functions that take it.
        options: further arguments of the figure.
    """
    function = _function(name, table)
    if "say" in _parameters(function):
        options["say"] = say
    return function(shown, **options)


def options_of(name: str, table: Mapping[str, Entry] = FIGURES) -> set[str]:
    """The options of a figure: the keyword-only arguments of its function."""
    return _parameters(_function(name, table)) - {"say"}


def _function(name: str, table: Mapping[str, Entry]) -> Callable[..., Figure]:
    module = import_module(f"{table[name].folder}.{table[name].file}")
    function: Callable[..., Figure] = getattr(module, name)
    return function


def _parameters(function: Callable[..., Figure]) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    return {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def _with_what_it_shows(results: list[Result], needs: Sequence[Need], say: Callable[[str], None]) -> list[Result]:
    """The runs that have what a figure shows; all of them where none has it, and drawing them says what to do."""
    having: list[Result] = []
    lacking: dict[str, list[Result]] = {}
    for result in results:
        what = what_it_lacks(result, needs)
        (lacking.setdefault(what, []) if what else having).append(result)
    if not having:
        return results
    for what, left_out in lacking.items():
        say(f"left out {', '.join(result.place for result in left_out)}: {what}")
    return having


def what_it_lacks(result: Result, needs: Sequence[Need]) -> str:
    """What keeps a run out of a figure, and what to do about it; empty where nothing does."""
    if "probes" in needs and result.record.probes is None:
        return "not measured in training; to measure the weights they have kept, from here: procrustean diagnose RUN"
    if "tracking" in needs and not any(result.record.curves.train_recall):
        return "training accuracy was not measured; train with --track-training"
    return what_its_folder_lacks(None if result.path is None else result.path.parent, needs)


def what_its_folder_lacks(folder: Path | None, needs: Sequence[Need]) -> str:
    """The same, as far as it is about the features that a run has kept."""
    if "features" in needs and (folder is None or not kept_epochs(folder)):
        return "no features kept; training with --probes keeps those of the last epoch"
    if "plane" in needs and folder is not None and load_features(folder).train.shape[1] != 2:
        return "features of more than two numbers; train with --net resnet32-2d or small-2d"
    return ""

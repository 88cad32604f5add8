"""Settings of runs: those in which rows of a table differ, and all of them with how the runs were carried out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from procrustean.base.console import duration_text, number_of
from procrustean.base.own_code import SHOWN, short_name
from procrustean.records.groups import Group
from procrustean.records.identity import comparable, setting_of
from procrustean.records.run_labels import data_text, named_settings
from procrustean.records.run_record import Result
from procrustean.records.run_spec import CHANGES_OF_RECIPE, RunSpec

#: Settings that a table tells by itself: the data by their text, the method by its label.
TOLD = frozenset({"method", "imbalance", "rho", "hold_out", "recipe", "drw"})
#: Says how often results were looked at; in a title it would only be in the way.
NOT_IN_TITLES = frozenset({"evaluate_every"})

_DEFAULTS = {field.name: field.default for field in fields(RunSpec) if field.default is not MISSING}


@dataclass(frozen=True)
class GivenSettings:
    """What the rows of a table were given.

    Args:
        differing: the value that each row was trained with, in settings that some rows were given and others not, or
            given otherwise; None where it is not known.
        shared: what all rows were given alike.
        remark: a sentence that names the differing settings of each row, but for those that its label names.
    """

    differing: dict[str, list[Any]]
    shared: dict[str, Any]
    remark: str


def given_settings(
    groups: Sequence[Group], labels: Sequence[str], *, shown_beside: Collection[str] = ()
) -> GivenSettings:
    """What was given to the groups of a table.

    Args:
        groups: the rows.
        labels: what they are called; a label names a setting as `lr=0.1`.
        shown_beside: settings that have a column of their own, or are in the title.
    """
    given = [_given(group) for group in groups]
    used = [named_settings(group) for group in groups]
    recipes = {comparable([group.recipe, group.results[0].record.recipe.name]) for group in groups}
    names = [name for name in dict.fromkeys(name for one in given for name in one) if name not in shown_beside]
    differing, shared = {}, {}
    for name in names:
        values = [own.get(name, one.get(name)) for own, one in zip(used, given, strict=True)]
        if len({comparable(one.get(name)) for one in given}) == 1:
            if name not in NOT_IN_TITLES and name != "precision":
                shared[name] = given[0][name]
        # Given or left to one and the same recipe, it comes to the same.
        elif len({comparable(value) for value in values}) > 1 or len(recipes) > 1:
            differing[name] = values
    unnamed = [
        {name: one[name] for name in differing if name in one and f"{name}=" not in label}
        for one, label in zip(given, labels, strict=True)
    ]
    return GivenSettings(differing, shared, _remark(groups, labels, [settings_text(one) for one in unnamed]))


def settings_text(settings: dict[str, Any]) -> str:
    """Settings as they are written in labels and notes.

    >>> settings_text({"lr": 0.2, "augment": "none"})
    'lr=0.2, augment=none'
    """
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _given(group: Group) -> dict[str, Any]:
    """The settings of a group that are not what they are where nobody says anything."""
    config, setting = group.config, setting_of(group.results[0])
    found = {name: value for name in CHANGES_OF_RECIPE if (value := getattr(config, name)) is not None}
    for name, value in setting.config.items():
        if name in TOLD or name in CHANGES_OF_RECIPE or value in (None, _DEFAULTS.get(name)):
            continue
        if name != "hold_out_from" or config.hold_out:
            found[name] = value
    if config.drw and "DRW" not in group.label:  # methods of one's own are called what their file says
        found["drw"] = True
    if config.recipe != "auto":
        found["recipe"] = group.recipe
    # Chosen by the machine where it was left open, and it counts all the same.
    found["precision"] = setting.precision
    return found


def _remark(groups: Sequence[Group], labels: Sequence[str], texts: Sequence[str]) -> str:
    """Which rows have which settings; rows with the same ones are named together."""
    rows: dict[str, dict[str, None]] = {}
    for group, label, text in zip(groups, labels, texts, strict=True):
        alike = {other for other, named in zip(texts, labels, strict=True) if named == label}
        if text:
            name = label if len(alike) == 1 else f"{label} ({data_text(group)})"
            rows.setdefault(text, {})[name] = None
    listed = "; ".join(f"{', '.join(names)} with {text}" for text, names in rows.items())
    return f" Settings that differ: {listed}." if listed else ""


#: Settings that differ from run to run or only say where files are.
NOT_SHOWN = frozenset({"seed", "run_dir", "data_dir", "options", "method", "imbalance", "recipe"})
PARTS = ("method", "recipe", "data", "run")


def configuration(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Every setting with its value in each group: part, name, values (None for a group that does not have it)."""
    described = [_settings(group.results[0]) for group in groups]
    names = dict.fromkeys(name for one in described for name in one)
    return [
        {"part": part, "name": name, "values": [one.get((part, name)) for one in described]}
        for part, name in sorted(names, key=lambda name: PARTS.index(name[0]))
    ]


def run_rows(groups: Sequence[Group], labels: Sequence[str]) -> list[dict[str, str]]:
    """One row per run: where it is, how long it took, on what machine, with which versions."""
    return [
        {"method": label, **_provenance(result)}
        for group, label in zip(groups, labels, strict=True)
        for result in group.results
    ]


def _settings(result: Result) -> dict[tuple[str, str], str]:
    record, method = result.record, result.record.method
    found = {("method", "name"): method.name}
    if method.sha256 is not None:
        found["method", "sha256"] = method.sha256[:SHOWN]
    for name, value in method.options.items():
        found["method", name.replace("_", " ")] = _text(value)
    found["method", "stages"] = ", ".join(
        f"{stage.name} ({number_of(stage.epochs, 'epoch')})" for stage in method.stages
    )
    for name, value in method.finish.items():
        found["method", f"{name} (set after training)"] = _text(value)
    found["method", "parameters"] = f"{method.parameters:,}"
    for name, value in {**record.recipe.to_json(), "changed_from": record.recipe.name}.items():
        found["recipe", name.replace("_", " ")] = _text(value)
    found["recipe", "name"] = record.recipe_name
    for name in ("source", "kind", "rho", "train", "held_out", "test", "source_hash", "split_hash"):
        found["data", name.replace("_", " ")] = _text(getattr(record.data, name))
    for name, value in result.config.to_json().items():
        # What a setting resolves to is shown in its part.
        if name not in NOT_SHOWN and not any((part, name.replace("_", " ")) in found for part in PARTS):
            found["run", name.replace("_", " ")] = _text(value)
    return found


def _provenance(result: Result) -> dict[str, str]:
    record, environment = result.record, result.record.environment
    versions = (f"{name} {getattr(environment, name)}" for name in ("procrustean", "torch", "python"))
    return {
        "seed": str(result.config.seed),
        "data seed": str(result.config.data_seed),
        "time": duration_text(record.seconds["total"]),
        "images/s": f"{record.images_per_second:,.0f}",
        "machine": environment.machine,
        "engine": f"{environment.precision}, {environment.engine}",
        "versions": ", ".join(versions),
        "split": record.data.split_hash[:12],
        "command": record.command,
        "file": "" if result.path is None else str(result.path),
    }


def _text(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(one)}" for name, one in value.items()) or "none"
    return short_name(str(value))

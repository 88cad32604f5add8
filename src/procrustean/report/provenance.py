"""How the runs of a report were set up, and on what they were carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from procrustean.base.console import duration_text
from procrustean.records.groups import Group
from procrustean.records.run_record import Result

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
        found["method", "sha256"] = method.sha256
    for name, value in method.options.items():
        found["method", name.replace("_", " ")] = _text(value)
    found["method", "stages"] = ", ".join(f"{stage.name} ({stage.epochs} epochs)" for stage in method.stages)
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
    return str(value)

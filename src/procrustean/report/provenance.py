"""How the runs of a report were set up, and on what they were carried out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from procrustean.base.console import duration_text
from procrustean.records.groups import Group, Result

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
    record = result.record
    method = record["method"]
    found = {("method", "name"): str(method.get("name"))}
    if method.get("sha256"):
        found["method", "sha256"] = str(method["sha256"])
    for name, value in (method.get("options") or {}).items():
        found["method", name.replace("_", " ")] = _text(value)
    if method.get("stages"):
        found["method", "stages"] = ", ".join(
            f"{stage.get('name')} ({stage.get('epochs')} epochs)" for stage in method["stages"]
        )
    for name, value in (method.get("finish") or {}).items():
        found["method", f"{name} (set after training)"] = _text(value)
    if method.get("parameters"):
        found["method", "parameters"] = f"{method['parameters']:,}"
    for name, value in record["recipe"].items():
        found["recipe", name.replace("_", " ")] = _text(value)
    for name in ("source", "kind", "rho", "train", "held_out", "test", "source_hash", "split_hash"):
        if record["data"].get(name) is not None:
            found["data", name.replace("_", " ")] = _text(record["data"][name])
    for name, value in result.config.items():
        # What a setting resolves to is shown in its part.
        if name not in NOT_SHOWN and not any((part, name.replace("_", " ")) in found for part in PARTS):
            found["run", name.replace("_", " ")] = _text(value)
    return found


def _provenance(result: Result) -> dict[str, str]:
    record, environment = result.record, result.record.get("environment") or {}
    seconds = (record.get("seconds") or {}).get("total")
    speed = record.get("images_per_second")
    versions = ((name, environment.get(name)) for name in ("procrustean", "torch", "python"))
    engine = ", ".join(str(environment[name]) for name in ("precision", "engine") if environment.get(name))
    return {
        "seed": str(result.repeat[0]),
        "data seed": str(result.repeat[1]),
        "time": "" if seconds is None else duration_text(seconds),
        "images/s": "" if speed is None else f"{speed:,.0f}",
        "machine": str(environment.get("machine", "")),
        "engine": engine,
        "versions": ", ".join(f"{name} {version}" for name, version in versions if version),
        "split": str(result.data.get("split_hash") or "")[:12],
        "command": str(record.get("command", "")),
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

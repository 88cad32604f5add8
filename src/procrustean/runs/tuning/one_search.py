"""A folder holds one search: another would replace its scores and lay its final runs among the first one's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from procrustean.base.code_files import code_identity, short_identity
from procrustean.base.errors import ConfigError
from procrustean.base.json_files import FORMAT, read_object
from procrustean.base.whole_files import write_json
from procrustean.records.finding_runs import CANDIDATES
from procrustean.records.run_spec import RunSpec
from procrustean.runs.tuning.choice import value_text
from procrustean.runs.tuning.spaces import Range, Space

STUDY = "tuning.json"
UNFINISHED = "Not all candidates are finished; everything is saved. Give the same command again."
#: What older records do not say, so that it is taken to have been the same; in the words of the command line.
CAME_LATER = {"trials": "--trials is", "at_once": "--width, so many suggestions at once, is", "repeats": "--repeats is"}


@dataclass(frozen=True)
class Search:
    """All that decides which candidates are tried, and which of them is chosen.

    Args:
        base: the settings that all candidates share.
        space: what they are chosen from; its order decides between equals.
        final_source: data set that is trained on with the chosen options.
        repeats: training seeds per candidate.
        trials: candidates that Optuna suggests; None tries the whole grid.
        at_once: how many of them are suggested before the first of them is judged.
    """

    base: RunSpec
    space: Space
    final_source: str
    repeats: int
    trials: int | None
    at_once: int

    def to_json(self) -> dict[str, Any]:
        """As it is kept beside the scores."""
        return {
            "config": self.base.to_json(),
            **({"final_source": self.final_source} if self.final_source != self.base.source else {}),
            "space": {n: f"{v.low}..{v.high}" if isinstance(v, Range) else list(v) for n, v in self.space.items()},
            "repeats": self.repeats,
            "trials": self.trials,
            **({} if self.trials is None else {"at_once": self.at_once}),
        }


def write_down(output: Path, search: Search) -> None:
    """Say whose folder it is before the first candidate is trained; what stands there of the same search stays."""
    if not (output / STUDY).exists():
        write_study(output, search, {"scores": [], "chosen": {}, "retrained": [], "text": UNFINISHED})


def write_study(output: Path, search: Search, found: Mapping[str, Any]) -> None:
    """Keep a search with what it has found so far."""
    output.mkdir(parents=True, exist_ok=True)
    record = {"format": FORMAT, **search.to_json(), **found}
    write_json(output / STUDY, record)


def is_decided(output: Path) -> bool:
    """Whether the search in a folder has come to a choice."""
    return bool(_record(output).get("scores"))


def refuse_another_search(output: Path, search: Search) -> None:
    """ConfigError where the folder holds a search that is not this one; the same one goes on.

    Args:
        output: the folder; it need not be there yet.
        search: what is to be kept in it.
    """
    if not (output / STUDY).exists():
        return
    differing = _differences(_record(output), search, str(output / STUDY))
    if differing:
        raise ConfigError(
            f"{output} holds another search, whose {STUDY} would be replaced, and whose final runs would lie among "
            f"this one's: {'; '.join(differing)}. Give another --output, or the settings of that search to go on with "
            f"it. Runs that both have need not be trained again: copy {output / CANDIDATES} into the new folder "
            "first"
        )


def _record(output: Path) -> dict[str, Any]:
    return read_object(output / STUDY, "remove it to go on with the runs beside it")


def _differences(record: Mapping[str, Any], search: Search, origin: str) -> list[str]:
    """What the kept search and the new one do not have in common, in words."""
    new = search.to_json()
    texts = _settings(RunSpec.from_record(record.get("config", {}), origin=origin), search.base)
    old_final = record.get("final_source", record["config"]["source"])
    if old_final != search.final_source:
        texts.append(_text("the final training is on", old_final, search.final_source))
    if record.get("space") != new["space"]:
        texts.append(_text("the values are", _space(record.get("space")), _space(new["space"])))
    texts += [
        _text(words, record[name], new[name])
        for name, words in CAME_LATER.items()
        if name in record and name in new and record[name] != new[name]
    ]
    return texts


def _settings(old: RunSpec, new: RunSpec) -> list[str]:
    if old.hash == new.hash:
        return []
    texts = []
    for name, value in new.computed.items():
        before = old.computed.get(name)
        if name == "method" and code_identity(old.method) != code_identity(new.method):
            texts.append(_text("the method is", short_identity(old.method), short_identity(new.method)))
        elif name != "method" and before != value:
            texts.append(_text(f"{name} is", before, value))
    return texts or ["other settings"]


def _text(what: str, old: Any, new: Any) -> str:
    old, new = ("not given" if value is None else value for value in (old, new))
    return f"{what} {old} there and {new} here"


def _space(space: Any) -> str:
    """As one writes it on the command line; what else a damaged record holds, as it is."""
    if not isinstance(space, dict):
        return str(space)
    lists = {name: values if isinstance(values, list) else [values] for name, values in space.items()}
    return " ".join(f"{name}={','.join(map(value_text, values))}" for name, values in lists.items()) or "none"

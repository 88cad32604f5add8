"""A search: what decides it, how much it may take, and what its folder keeps of it. A folder holds one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from procrustean.base.errors import ConfigError
from procrustean.base.files import write_atomically
from procrustean.base.json_files import FORMAT, read_typed, typed_json
from procrustean.records.finding_runs import CANDIDATES
from procrustean.records.identity import changed_settings
from procrustean.records.run_spec import RunSpec
from procrustean.runs.choosing import Score, value_text
from procrustean.runs.option_spaces import Range, Space

STUDY = "tuning.json"
UNFINISHED = "Not all candidates are finished; everything is saved. Give the same command again."
#: What else decides which candidates are tried, in the words of the command line.
DECIDING = {"trials": "--trials is", "at_once": "--width, so many suggestions at once, is", "repeats": "--repeats is"}


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

    @property
    def values(self) -> dict[str, str | list[Any]]:
        """The space as it is kept beside the scores."""
        return {n: f"{v.low}..{v.high}" if isinstance(v, Range) else list(v) for n, v in self.space.items()}


@dataclass(frozen=True)
class Budget:
    """How much is tried, and how.

    Args:
        repeats: training seeds per candidate.
        final_seeds: training seeds on all images with the chosen options; 0 stops after the choice.
        trials: candidates that Optuna suggests; None tries the whole grid.
        width: runs at a time.
        minutes: stop after so long with everything saved.
    """

    repeats: int = 1
    final_seeds: int = 1
    trials: int | None = None
    width: int | None = None
    minutes: float | None = None

    def search(self, base: RunSpec, space: Space, final_source: str) -> Search:
        """What is searched for with this budget."""
        return Search(base, space, final_source, self.repeats, self.trials, at_once=self.width or 1)


class Study(Struct, frozen=True, kw_only=True):
    """The content of tuning.json: a search, and what it has found so far."""

    format: Literal[1] = FORMAT
    config: RunSpec
    final_source: str | None = None  # where it is another one than is searched on
    space: dict[str, str | list[Any]]
    repeats: int
    trials: int | None
    at_once: int | None = None  # of suggestions by Optuna
    scores: list[Score]
    chosen: dict[str, Any]
    held_out_images: int = 0
    ties: list[dict[str, Any]] = []
    within_one_standard_error: list[dict[str, Any]] = []
    standard_error: float = 0.0
    retrained: list[str] = []
    text: str = UNFINISHED

    @classmethod
    def of(cls, search: Search, **found: Any) -> Study:
        elsewhere = search.final_source != search.base.source
        return cls(
            config=search.base,
            final_source=search.final_source if elsewhere else None,
            space=search.values,
            repeats=search.repeats,
            trials=search.trials,
            at_once=None if search.trials is None else search.at_once,
            **{"scores": [], "chosen": {}, **found},
        )


def write_down(output: Path, search: Search) -> None:
    """Say whose folder it is before the first candidate is trained; what stands there of the same search stays."""
    if not (output / STUDY).exists():
        write_study(output, Study.of(search))


def write_study(output: Path, study: Study) -> None:
    """Keep a search with what it has found so far."""
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / STUDY, typed_json(study))


def is_decided(output: Path) -> bool:
    """Whether the search in a folder has come to a choice."""
    return bool(_kept(output).scores)


def refuse_another_search(output: Path, search: Search) -> None:
    """ConfigError where the folder holds a search that is not this one; the same one goes on.

    Args:
        output: the folder; it need not be there yet.
        search: what is to be kept in it.
    """
    if not (output / STUDY).exists():
        return
    differing = _differences(_kept(output), Study.of(search))
    if differing:
        raise ConfigError(
            f"{output} holds another search, whose {STUDY} would be replaced, and whose final runs would lie among "
            f"this one's: {'; '.join(differing)}. Give another --output, or the settings of that search to go on with "
            f"it. Runs that both have need not be trained again: copy {output / CANDIDATES} into the new folder "
            "first"
        )


def _kept(output: Path) -> Study:
    return read_typed(output / STUDY, Study, "remove it to go on with the runs beside it")


def _differences(kept: Study, new: Study) -> list[str]:
    """What the kept search and the new one do not have in common, in words."""
    texts = _settings(kept.config, new.config)
    finals = [study.final_source or study.config.source for study in (kept, new)]
    if finals[0] != finals[1]:
        texts.append(_text("the final training is on", *finals))
    if kept.space != new.space:
        texts.append(_text("the values are", _space(kept.space), _space(new.space)))
    for name, words in DECIDING.items():
        if getattr(kept, name) != getattr(new, name):
            texts.append(_text(words, getattr(kept, name), getattr(new, name)))
    return texts


def _settings(old: RunSpec, new: RunSpec) -> list[str]:
    changed = changed_settings(old, new)
    return [_text("the method is" if name == "method" else f"{name} is", *both) for name, both in changed.items()]


def _text(what: str, old: Any, new: Any) -> str:
    old, new = ("not given" if value is None else value for value in (old, new))
    return f"{what} {old} there and {new} here"


def _space(space: Mapping[str, str | list[Any]]) -> str:
    """As one writes it on the command line."""
    lists = {name: values if isinstance(values, list) else [values] for name, values in space.items()}
    return " ".join(f"{name}={','.join(map(value_text, values))}" for name, values in lists.items()) or "none"

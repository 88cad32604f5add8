"""Names that tell the runs of one fleet apart in its progress."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from procrustean.base.epochs import EpochRecord
from procrustean.base.progress import PassingOn, Reporter
from procrustean.records.run_spec import RunSpec

#: Settings that a run's own name is made of.
_SAID = ("method", "drw", "imbalance", "rho", "seed")
#: Settings that no reader wants to see there.
_QUIET = ("run_dir", "data_dir", "checkpoint_every", "evaluate_every")


def differences(configs: Sequence[RunSpec]) -> list[str]:
    """For each run the settings in which it differs from others of the same name; empty where it has none.

    Runs that these do not tell apart are named by their folders.

    >>> runs = [RunSpec("digits", method="mfw", options={"alpha": a}) for a in (0.5, 2)]
    >>> differences([*runs, RunSpec("digits", method="erm")])
    ['alpha=0.5', 'alpha=2', '']
    """
    settings = [_named(config) for config in configs]
    said = [tuple(getattr(config, name) for name in _SAID) for config in configs]
    texts = []
    for own, name in zip(settings, said, strict=True):
        twins = [other for other, other_name in zip(settings, said, strict=True) if other_name == name]
        keys = list(dict.fromkeys(key for twin in twins for key in twin))
        differing = [key for key in keys if len({json.dumps(twin.get(key)) for twin in twins}) > 1]
        texts.append(", ".join(_text(key, own[key]) for key in differing if own.get(key) is not None))
    names = list(zip(said, texts, strict=True))
    times = Counter(names)
    return [
        text if times[name] == 1 else ", ".join(filter(None, [text, str(config.run_dir or config.slug)]))
        for name, text, config in zip(names, texts, configs, strict=True)
    ]


def _named(config: RunSpec) -> dict[str, Any]:
    kept = {key: value for key, value in config.to_json().items() if key not in (*_SAID, *_QUIET, "options")}
    return {**kept, **config.options}


def _text(name: str, value: Any) -> str:
    if name == "source":
        return Path(value).stem or str(value)
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"


class Distinct(PassingOn):
    """Passes the progress of one run on under a name that no other run of the fleet has."""

    def __init__(self, inner: Reporter, addition: str) -> None:
        super().__init__(inner)
        self._addition = addition

    def _name(self, name: str) -> str:
        return f"{name} ({self._addition})" if self._addition else name

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        super().run_started(self._name(name), epochs, first_epoch)

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        super().epoch_done(self._name(name), epoch, record)

    def within_epoch(self, name: str, epoch: int, share: float) -> None:
        super().within_epoch(self._name(name), epoch, share)

    def run_finished(self, name: str, summary: str) -> None:
        super().run_finished(self._name(name), summary)

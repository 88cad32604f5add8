"""What runs, groups of runs and their data are called beside others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from procrustean.records.groups import Group
from procrustean.records.identity import comparable, data_setting, setting_of
from procrustean.records.run_spec import RunSpec

NAMED_CLASSES = 6  # so many names of chosen classes can be read in a row of a table


def data_parts(group: Group) -> dict[str, str]:
    """The data of a group in words, part by part: source, imbalance, ratio, images held out.

    Classes are named if they were chosen, held-out images because they were not trained on.
    """
    data = group.data
    held_out = group.config.hold_out
    parts = {"source": data.source, "imbalance": data.kind.replace("_", "-")}
    if group.config.classes:
        parts["source"] += f" ({_classes_text(group.classes)})"
    if data.kind != "natural":
        parts["rho"] = f"\N{GREEK SMALL LETTER RHO}={data.rho:g}"
    if held_out:
        up_to = "up to " * bool(data.left_out_of_hold_out)  # a class that is too small gives none
        parts["held_out"] = f"{up_to}{_held_out_text(held_out)} held out"
    return parts


def some_classes(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMED_CLASSES} more" * (len(names) > NAMED_CLASSES)
    return ", ".join(names[:NAMED_CLASSES]) + more


def _classes_text(classes: Sequence[str]) -> str:
    """Chosen classes by name, of many the first few.

    >>> _classes_text(["cat", "dog"])
    '2 classes: cat, dog'
    """
    return f"{len(classes)} class{'es' * (len(classes) != 1)}: {some_classes(classes)}"


def _held_out_text(hold_out: float) -> str:
    """How many images were set aside, from the setting: a share below 1, a number of images from 1 on.

    >>> _held_out_text(0.15), _held_out_text(1), _held_out_text(3)
    ('15 % of each class', '1 image of each class', '3 images of each class')
    """
    if hold_out < 1:
        return f"{100 * hold_out:g} % of each class"
    return f"{hold_out:g} image{'s' * (hold_out != 1)} of each class"


def data_text(group: Group) -> str:
    """The data of a group in words."""
    return joined_data(data_parts(group))


def joined_data(parts: Mapping[str, str]) -> str:
    """Some or all of the parts of `data_parts` as one text.

    >>> joined_data({"source": "digits", "imbalance": "step", "rho": "\N{GREEK SMALL LETTER RHO}=20"})
    'digits, step \N{GREEK SMALL LETTER RHO}=20'
    """
    made = " ".join(parts[name] for name in ("imbalance", "rho") if name in parts)
    return ", ".join(text for text in (parts.get("source"), made, parts.get("held_out")) if text)


def _same_data(group: Group) -> Any:
    return data_setting(group.results[0])


def distinct_labels(
    groups: Sequence[Group], *, shown_beside: Collection[str] = (), alike: Callable[[Group], Any] = _same_data
) -> list[str]:
    """One label per group; groups of the same label and data get the settings in which they differ added.

    Args:
        groups: the groups that appear together.
        shown_beside: settings that the reader sees elsewhere, such as recipe, epochs or net; never added.
        alike: what groups share whose labels have to differ; by default their data.
    """
    settings = [named_settings(group) for group in groups]
    rows = [comparable([group.label, alike(group)]) for group in groups]
    labels = []
    for group, own, row in zip(groups, settings, rows, strict=True):
        twins = [other for other, other_row in zip(settings, rows, strict=True) if other_row == row]
        names = sorted({name for twin in twins for name in twin} - set(shown_beside))
        differing = [name for name in names if any(twin.get(name, ...) != own.get(name, ...) for twin in twins)]
        if len(differing) > 1 or shown_beside:  # it follows the epochs, and says nothing beside another difference
            differing = [name for name in differing if name != "evaluate_every"]
        added = ", ".join(f"{name}={_option_text(own[name]) if name in own else 'unknown'}" for name in differing)
        labels.append(f"{group.label} ({added})" if added else group.label)
    return labels


def _option_text(value: Any) -> str:
    return "default" if value is None else str(value)


def named_settings(group: Group) -> dict[str, Any]:
    """The settings of a group under the names by which a reader knows them."""
    setting = setting_of(group.results[0])
    named = {
        **setting.config,
        **setting.recipe,
        **setting.options,
        "precision": setting.precision,
    }
    named.pop("name", None)
    settled = {"recipe": group.recipe, "epochs": group.epochs, "net": group.net, "data_seed": group.data_seeds}
    return {**named, **settled}


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

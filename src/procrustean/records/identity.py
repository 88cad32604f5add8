"""Whether two runs are the same one. Three questions, and nobody else answers them:

- Do two settings ask for the same computation? `changed_settings`, by the hash of `RunSpec`.
- May an interrupted run go on with the images and the library there are now? `change_since`, by its `Identity`.
- Are two finished runs repeats of one setting? `setting_of`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from msgspec import Struct

from procrustean.base.json_files import FORMAT, to_plain
from procrustean.base.own_code import short_identity
from procrustean.data.recipe import Recipe
from procrustean.data.sources import place_of
from procrustean.records.run_record import Result
from procrustean.records.run_spec import CARRIED_OUT, RunSpec, without_idle

# Settings


def changed_settings(before: RunSpec, now: RunSpec, source_path: str | None = None) -> dict[str, tuple[Any, Any]]:
    """What two settings do not compute alike, by name: before and now; empty where they are of the same run.

    Args:
        before, now: the settings.
        source_path: where the images of the earlier ones are: `images/` is `images`.
    """
    place = place_of(now.source)
    if place is not None and place == source_path:
        now = replace(now, source=before.source)
    if before.hash == now.hash:
        return {}
    then, today = _with_code(before), _with_code(now)
    return {name: (then.get(name), value) for name, value in today.items() if then.get(name) != value}


def _with_code(config: RunSpec) -> dict[str, Any]:
    """What settings compute, with code by its text and not by its place."""
    return {**config.computed, **{name: short_identity(code) for name, code in config.code.items()}}


# Runs that go on


class Identity(Struct, frozen=True, kw_only=True):
    """What must not change between the parts of an interrupted run."""

    classes: list[str]
    counts: list[int]
    split_hash: str
    source_hash: str
    images: dict[str, int]  # of each class of the source
    method: str
    options: dict[str, Any]
    stages: list[str]
    seed: int
    recipe: Recipe
    precision: Literal["fp32", "bf16"]
    pretrained: str | None = None  # hash of the weights it starts from
    plain_network: bool = False  # of a method in a file: its network can be built without it


class Trial(Struct, frozen=True, kw_only=True):
    """A way to train that was tried on held-out images before the run."""

    name: str
    balanced_accuracy: float
    log_loss: float  # with the best temperature, every class counting the same
    held_out: int  # images
    seconds: float


class Beginning(Struct, frozen=True, kw_only=True):
    """The content of config.json."""

    format: Literal[1] = FORMAT
    hash: str  # of the settings
    config: RunSpec
    identity: Identity
    why: list[str] = []  # reasons for settings that were chosen for the user
    trials: list[Trial] = []  # what these rest on, where they were tried
    final: bool = False  # whether one more training follows, on all images, for the network in use
    source_path: str | None = None  # where the images are, whatever the current folder will be


#: Parts of an identity that are those of its images; and those that follow from them and tell nobody anything.
OF_THE_IMAGES = ("classes", "counts", "split_hash")
FROM_THE_IMAGES = ("split_hash", "recipe.mean", "recipe.std")
#: Parts that differ only where these do.
MORE_ABOUT_THE_IMAGES = ("source_hash", "images")


@dataclass(frozen=True)
class Change:
    """What has changed since a run began, in words."""

    of_images: bool
    text: str


def change_since(before: Identity, now: Identity, besides: Collection[str] = ()) -> Change | None:
    """What has changed since a run began; None where it may go on.

    Args:
        before, now: what the run began with, and what it would be today.
        besides: parts that make no difference.
    """
    then, today = _flat(before), _flat(now)
    compared = [k for k in {**then, **today} if k.partition(".")[0] not in (*besides, *MORE_ABOUT_THE_IMAGES)]
    changed = [k for k in compared if then.get(k) != today.get(k)]
    of_images = any(name in OF_THE_IMAGES for name in changed)
    shown = [k for k in changed if not (of_images and k in FROM_THE_IMAGES)]
    told = "; ".join(difference(k, then.get(k), today.get(k)) for k in shown)
    if of_images:
        recounted = image_counts_difference(before.images, now.images)
        return Change(of_images, recounted or told or "as many as before, but others")
    return Change(of_images, told) if changed else None


def _flat(identity: Identity) -> dict[str, Any]:
    """Nested settings under dotted names, so that a difference is told by the one that differs."""
    flat: dict[str, Any] = {}
    for key, value in to_plain(identity).items():
        if isinstance(value, dict):
            flat |= {f"{key}.{inner}": v for inner, v in value.items()}
        else:
            flat[key] = value
    return flat


#: Characters of a value, and places of a list, that a message shows.
LONGEST, SHOWN = 60, 3


def difference(name: str, before: Any, now: Any) -> str:
    """How a value differs from what it was; of long lists, the places where they do.

    >>> difference("counts", [24, 18], [23, 18])
    'counts: [24, 18] when it began, [23, 18] now'
    >>> difference("counts", list(range(100)), [*range(99), 7])
    'counts, place 99: 99 when it began, 7 now'
    """
    if len(str(before)) <= LONGEST and len(str(now)) <= LONGEST:
        return _told(name, before, now)
    if not isinstance(before, list) or not isinstance(now, list):
        return _told(name, _short(before), _short(now))
    texts = [] if len(before) == len(now) else [_told(f"{name}, how many", len(before), len(now))]
    places = [place for place, (a, b) in enumerate(zip(before, now, strict=False)) if a != b]
    texts += [_told(f"{name}, place {i}", _short(before[i]), _short(now[i])) for i in places[:SHOWN]]
    if len(places) > SHOWN:
        texts.append(f"and {len(places) - SHOWN} more places of {name}")
    return "; ".join(texts)


def image_counts_difference(before: Mapping[str, int], now: Mapping[str, int]) -> str:
    """Of which classes there are more or fewer images than there were, and how many in all; empty if of none.

    Empty as well where there are other classes: then these are what has changed.

    >>> image_counts_difference({"RBC": 700, "WBC": 30}, {"RBC": 699, "WBC": 30})
    '729 in all, were 730: RBC 699, was 700'
    """
    if set(before) != set(now) or before == now:
        return ""
    classes = [name for name in before if before[name] != now[name]]
    texts = [f"{name} {now[name]}, was {before[name]}" for name in classes[:SHOWN]]
    if len(classes) > SHOWN:
        texts.append(f"and {len(classes) - SHOWN} more classes")
    return f"{sum(now.values())} in all, were {sum(before.values())}: {'; '.join(texts)}"


def _told(name: str, before: Any, now: Any) -> str:
    return f"{name}: {before} when it began, {now} now"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


# Repeats


#: What is measured or kept while a run is trained, and changes none of its weights.
ON_THE_WAY = ("track_training", "probes", "probe_every", "features_at", "keep_weights_every")
#: Settings that do not tell two settings apart: seeds number the repeats, and the record has the final value of others:
#: the data by name and hash, the precision used, the options of the method.
NOT_PART_OF_THE_SETTING = frozenset(
    {*CARRIED_OUT, *ON_THE_WAY, "seed", "data_seed", "source", "precision", "options", "classes"}
)
#: Numbers of a recipe that may be measured on the training images and then differ with the data seed; and its name,
#: which says where the numbers began.
NOT_PART_OF_THE_RECIPE = frozenset({"mean", "std", "name"})


class DataSetting(Struct, frozen=True, kw_only=True):
    """What two runs must share to be trained and tested on the same images, whatever their folder is called."""

    source_hash: str
    kind: str
    rho: float | None
    classes: list[str]
    counts: list[int]
    hold_out: float | None


class Setting(Struct, frozen=True, kw_only=True):
    """All that two runs must share to be repeats of each other."""

    label: str
    data: DataSetting
    config: dict[str, Any]
    recipe: dict[str, Any]
    method: str
    options: dict[str, Any]
    precision: str
    headline: str


def data_setting(result: Result) -> DataSetting:
    """The images of a run."""
    data = result.data
    return DataSetting(
        source_hash=data.source_hash,
        kind=data.kind,
        rho=data.rho,
        classes=data.classes,
        counts=data.counts,
        hold_out=result.config.hold_out,
    )


def setting_of(result: Result) -> Setting:
    """The setting that a run is a repeat of."""
    record, config = result.record, result.config
    recipe = {name: value for name, value in record.recipe.to_json().items() if name not in NOT_PART_OF_THE_RECIPE}
    recipe |= {"net": short_identity(record.recipe.net), "name": record.recipe_name}
    code = {name: short_identity(own) for name, own in config.code.items()}
    settings = {**without_idle(config.to_json()), **code}
    return Setting(
        label=result.label,
        data=data_setting(result),
        # What the recipe has the final value of is compared there.
        config={k: v for k, v in settings.items() if k not in NOT_PART_OF_THE_SETTING and k not in (*recipe, "recipe")},
        recipe=recipe,
        method=code.get("method", record.method.name),
        options=record.method.options,
        precision=record.environment.precision,
        headline=record.selections.last.metrics.headline,
    )


def comparable(value: Any) -> str:
    """The same text for equal settings."""
    return json.dumps(to_plain(value), sort_keys=True)

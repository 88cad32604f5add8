"""Whether two runs are the same one: what must not change while it goes on, and what its repeats share."""

from __future__ import annotations

import json
from typing import Any, Literal

from msgspec import Struct

from procrustean.base.code_files import file_code, short_identity
from procrustean.base.json_files import FORMAT, to_plain
from procrustean.data.recipe import Recipe
from procrustean.records.run_record import Result
from procrustean.records.run_spec import RunSpec, without_idle


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


class Beginning(Struct, frozen=True, kw_only=True):
    """The content of config.json."""

    format: Literal[1] = FORMAT
    hash: str  # of the settings
    config: RunSpec
    identity: Identity
    why: list[str] = []  # reasons for settings that were chosen for the user
    source_path: str | None = None  # where the images are, whatever the current folder will be


#: Settings that do not tell two runs apart. `seed` and `data_seed` number the repeats; the others say where and how a
#: run is carried out, or stand in the record with their final value: the data by name and hash, the precision used,
#: the options of the method.
NOT_PART_OF_THE_SETTING = frozenset(
    {
        "seed",
        "data_seed",
        "source",
        "data_dir",
        "run_dir",
        "device",
        "engine",
        "kernels",
        "images",
        "workers",
        "precision",
        "options",
        "checkpoint_every",
        "on_bad_image",
        "track_training",
        "classes",
        "probes",
        "probe_every",
        "features_at",
        "keep_weights_every",
    }
)
#: Numbers of a recipe that may be measured on the training images and then differ with the data seed; and its name,
#: which says where the numbers began.
NOT_PART_OF_THE_RECIPE = frozenset({"mean", "std", "name"})


def data_setting(result: Result) -> dict[str, Any]:
    """What two runs must share to be trained and tested on the same images, whatever their folder is called."""
    data = result.data
    names = ("source_hash", "kind", "rho", "classes", "counts")
    return {**{name: getattr(data, name) for name in names}, "hold_out": result.config.hold_out}


def setting_of(result: Result) -> dict[str, Any]:
    """All that two runs must share to be repeats of each other."""
    record = result.record
    recipe = {name: value for name, value in record.recipe.to_json().items() if name not in NOT_PART_OF_THE_RECIPE}
    recipe |= {"net": short_identity(record.recipe.net), "name": record.recipe_name}
    config = {
        name: value
        for name, value in without_idle(result.config.to_json()).items()
        # What the recipe has the final value of is compared there.
        if name not in NOT_PART_OF_THE_SETTING and name not in (*recipe, "recipe")
    }
    method = record.method.name
    if file_code(result.config.method) is not None:
        # Its code counts, not the place of the file.
        config["method"] = method = short_identity(result.config.method)
    return {
        "label": result.label,
        "data": data_setting(result),
        "config": config,
        "recipe": recipe,
        "method": method,
        "options": record.method.options,
        "precision": record.environment.precision,
        "headline": record.selections.last.metrics.headline,
    }


def comparable(value: Any) -> str:
    """The same text for equal settings."""
    return json.dumps(to_plain(value), sort_keys=True)

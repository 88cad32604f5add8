"""What sets the settings of two runs apart, whatever their seeds and wherever they were carried out."""

from __future__ import annotations

import json
from typing import Any

from procrustean.base.code_files import file_code, short_identity
from procrustean.records.run_record import Result
from procrustean.records.run_spec import CAME_LATER, without_idle

#: Fields of a config that do not tell two settings apart. `seed` and `data_seed` number the repeats; the
#: others say where and how a run is carried out, or stand in the record with their final value: the data by
#: name and hash, the precision used, the options of the method.
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
#: Fields of a recipe that may be measured on the training images and then differ with the data seed.
MEASURED_ON_THE_IMAGES = frozenset({"mean", "std"})
#: The recipe whose numbers a recipe began with. It says where they are from; the numbers themselves are compared.
WHERE_NUMBERS_ARE_FROM = "changed_from"
#: Parts of a recipe and options that came later, with what the records from before them stand for: `CAME_LATER` has
#: the settings. What a record does not name must not set it apart from one that names it.
ADDED_TO_RECIPES: dict[str, Any] = {
    "augment": "pad_crop_flip",
    "crop": None,
    "evaluation_crop": None,
    "colour_jitter": 0.0,
}
ADDED_OPTIONS: dict[str, dict[str, Any]] = {
    "mfw": {"reduction": "weighted_mean", "keep_mixing": True},
    "class_balanced": {"reduction": None},
}


def data_setting(result: Result) -> dict[str, Any]:
    """What two runs must share to be trained and tested on the same data.

    That is the images, whatever their folder is called; records from before there was a hash have its name alone.
    """
    names = ("source_hash", "kind", "rho", "classes", "counts")
    found = {name: result.data.get(name) for name in names}
    source = result.data["source"] if found["source_hash"] is None else None
    return {**found, "source": source, "hold_out": result.config.get("hold_out")}


def setting_of(result: Result) -> dict[str, Any]:
    """All that two runs must share to be repeats of each other."""
    record = result.record
    recipe = {
        name: value
        for name, value in {**ADDED_TO_RECIPES, **record["recipe"]}.items()
        if name not in MEASURED_ON_THE_IMAGES and name != WHERE_NUMBERS_ARE_FROM
    }
    if isinstance(recipe.get("net"), str):
        recipe["net"] = short_identity(recipe["net"])
    settled = {*recipe, "recipe"} if "name" in recipe else recipe.keys()  # what the recipe has the final value of
    config = {
        name: value
        for name, value in without_idle({**CAME_LATER, **result.config}).items()
        if name not in NOT_PART_OF_THE_SETTING and name not in settled
    }
    method = record["method"].get("name")
    named = config.get("method")
    if isinstance(named, str) and file_code(named) is not None:
        # Its code counts, not the place of the file.
        config["method"] = method = short_identity(named)
    options = record["method"].get("options", result.config.get("options"))
    return {
        "label": result.label,
        "data": data_setting(result),
        "config": config,
        "recipe": recipe,
        "method": method,
        "options": {**ADDED_OPTIONS.get(method, {}), **(options or {})},
        "precision": (record.get("environment") or {}).get("precision"),
        "headline": record["selections"]["last"]["metrics"]["headline"],
    }


def comparable(value: Any) -> str:
    """The same text for equal settings."""
    return json.dumps(value, sort_keys=True, default=str)

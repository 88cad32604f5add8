"""The settings of a run: one frozen record that the command line, YAML files and Python share."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

from procrustean.base.errors import ConfigError
from procrustean.base.own_code import code_identity, file_code, folder_name, pinned_name
from procrustean.base.yaml_files import fits
from procrustean.data.recipe import CHOICES, Tune
from procrustean.records.setting_types import typed_settings

#: Settings that say where and how a run is carried out, not what it computes.
CARRIED_OUT = (
    "run_dir",
    "data_dir",
    "device",
    "engine",
    "kernels",
    "images",
    "workers",
    "checkpoint_every",
    "on_bad_image",
)
#: Settings that change the recipe. Left open, their values are the recipe's.
CHANGES_OF_RECIPE = ("net", "epochs", "batch_size", "lr", "weight_decay", "augment")
#: Settings with the values at which they are no part of the hash: names of runs that do without them stay as they are.
UNHASHED: dict[str, Any] = {
    "pretrained": None,
    "tune": "all",
    "augment": None,
    "classes": [],
    "probes": False,
    "probe_every": None,
    "features_at": [],
    "keep_weights_every": None,
    "hold_out_from": "training",
    "group": None,
    "fold": None,
    "average": "none",
    "swa_from": "last_quarter",
}
#: What stands for a method that is chosen from the measurements, and for one that is chosen by comparing.
ADVISED, AUTO = "advised", "auto"
#: Characters of a source's or a method's name in the name of a run's folder: systems allow 255 bytes in all.
LONGEST_NAME = 40


@dataclass(frozen=True)
class RunSpec:
    """Everything that determines a training run. None means: taken from the recipe or decided from the data."""

    source: str
    """Data set: a name of `procrustean list sources`, a folder of images (one folder per class), a .csv, .parquet or
    .npz file."""
    imbalance: Literal["natural", "long_tailed", "step"] = "natural"
    """Make the training set imbalanced: long_tailed, step, or natural to take it as it is."""
    rho: float | None = None
    """Imbalance ratio, largest over smallest class; needed with long_tailed and step."""
    classes: tuple[str, ...] = ()
    """Use only these classes of the data set, in this order; all of them by default."""
    method: str = "mfw"
    """Training method; `procrustean list methods` lists them. One of your own: FILE.py:NAME."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the method, as KEY=VALUE; `procrustean list methods NAME` explains them."""
    drw: bool = False
    """Deferred re-weighting: weight the classes by effective numbers in the last 20 % of the epochs."""
    recipe: str = "auto"
    """Numbers of training: auto (the data set's), paper, own (the method's) or a name; `procrustean list recipes` lists
    them."""
    net: str | None = None
    """Network: resnet32, resnet18-s1, resnet50, timm:NAME, torchvision:NAME, hf:ORGANISATION/MODEL, ...;
    `procrustean list nets` lists them. One of your own: FILE.py:NAME."""
    pretrained: str | None = None
    """Weights to start from: a file with a state dict, or published for the network's own, fetched if missing."""
    tune: Tune = "all"
    """What learns of a network with pretrained weights: all of it, the head alone, on features that are computed once,
    or the head and an adapter of a vision transformer: lora (low-rank changes of its linear layers), scale_shift (a
    factor and a summand for each channel) or bitfit (its biases)."""
    epochs: int | None = None
    """Passes over the training data; default the recipe's."""
    batch_size: int | None = None
    """Images per step; default the recipe's."""
    lr: float | None = None
    """Peak learning rate; default the recipe's."""
    weight_decay: float | None = None
    """L2 penalty; default the recipe's."""
    augment: str | None = None
    """How training images are changed at random, default the recipe's: pad_crop_flip, random_resized_crop, strong,
    none, or parts joined with +: pad_crop, resized_crop, flip, vertical_flip, rotate, colour, randaugment, erase."""
    seed: int = 0
    """Seed of the training: weights, order, augmentation, mixing."""
    data_seed: int = 0
    """Seed of the data: which images of a class are kept and held out."""
    hold_out: float | None = None
    """Training images per class set aside to choose and calibrate on, or below 1 their share; 0 trains on all. By
    default 0 of known data sets, and 15 % of your own images, unless there is a validation split."""
    hold_out_from: Literal["training", "source"] = "training"
    """Set them aside from the imbalanced training set, or from the source before it is made imbalanced."""
    image_size: int | None = None
    """Side length to which images of a folder are resized, or at which a data set was prepared."""
    on_bad_image: Literal["error", "skip"] = "error"
    """Refuse a folder with files that are no complete images, or leave them out and count the classes again."""
    group: str | None = None
    """What images that belong together have in common, such as those of a patient: a column of a table, a regular
    expression on the path, or parent for the folder they are in. No split is made through a group."""
    fold: str | None = None
    """Test on one fold of the images of one's own, as 2/5, or train on all: the runs of train --folds."""
    evaluate_every: int | None = None
    """Epochs between evaluations; by default about a hundred evaluations in all."""
    average: Literal["none", "ema", "swa", "both"] = "none"
    """Also keep averaged weights: ema along all steps, swa over the last quarter of the epochs, or both."""
    swa_from: Literal["drw", "last_quarter"] = "drw"
    """Whether swa waits for deferred re-weighting, where that is on, or begins with the last quarter all the same."""
    track_training: bool = False
    """Also measure the accuracy on clean training images per class at every evaluation."""
    probes: bool = False
    """Measure progress, classification ratio, gradient norms and feature deviation per class; `diagnose` shows them."""
    probe_every: int | None = None
    """Epochs between these measurements; implies --probes. Default: so many that they take under 10 % of the time."""
    features_at: tuple[int, ...] = ()
    """Epochs, from 1, after which features of up to 250 images per class are kept, for pictures."""
    keep_weights_every: int | None = None
    """Epochs between weights that are kept, for `diagnose`; by default only the last ones are."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to train."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Number format of the network; auto takes bf16 where the hardware computes in it."""
    engine: Literal["auto", "eager", "captured", "compiled"] = "auto"
    """How steps are carried out: one by one, as a captured CUDA graph, or compiled and captured."""
    kernels: Literal["auto", "on", "off"] = "auto"
    """Hand-written GPU kernels for small residual networks; auto uses them where they apply."""
    images: Literal["auto", "resident", "streamed"] = "auto"
    """Where the images are: resident on the device, or streamed to it; auto keeps them there while there is room."""
    workers: int | None = None
    """Threads and processes that feed streamed images; default all cores but one."""
    data_dir: Path | None = None
    """Where data sets are found or downloaded to; default $PROCRUSTEAN_DATA or the user's cache."""
    run_dir: Path | None = None
    """Where the run is kept; default runs/ with a name made from the settings."""
    checkpoint_every: float = 30.0
    """Seconds between checkpoints."""

    def __post_init__(self) -> None:
        if isinstance(self.source, os.PathLike):
            object.__setattr__(self, "source", os.fspath(self.source))
        if self.rho is not None:
            # 100 and 100.0 are the same setting and must have the same hash.
            object.__setattr__(self, "rho", float(self.rho))
        if self.hold_out is not None and float(self.hold_out).is_integer():
            object.__setattr__(self, "hold_out", int(self.hold_out))
        if self.augment is not None:
            object.__setattr__(self, "augment", self.augment.replace("-", "_"))
        object.__setattr__(self, "options", {name: _plain_option(value) for name, value in self.options.items()})
        self.check()
        self.settle()

    def settle(self) -> None:
        """Say what is held out of a known data set, and which code a method of one's own is: its file may be edited."""
        if self.hold_out is None and self.method not in (ADVISED, AUTO):
            from procrustean.data.recipes import PAPER
            from procrustean.data.sources import is_named

            if is_named(self.source) or self.source in PAPER:
                object.__setattr__(self, "hold_out", 0)
        object.__setattr__(self, "method", pinned_name(self.method))
        if self.net is not None:
            object.__setattr__(self, "net", pinned_name(self.net, "network"))

    def check(self) -> None:
        """ConfigError for settings that contradict each other or cannot be."""
        if self.imbalance == "natural" and self.rho is not None:
            raise ConfigError(
                f"rho = {self.rho} received with imbalance 'natural', which keeps the images as they are; "
                "choose --imbalance long_tailed or step, or leave rho out"
            )
        if self.imbalance != "natural" and self.rho is None:
            raise ConfigError(f"imbalance {self.imbalance!r} needs its ratio: give rho, for example --rho 100")
        if self.tune not in ("all", "head") and self.pretrained is None:
            raise ConfigError(
                f"tune {self.tune!r} received without weights that stay as they are; give --pretrained published, or a "
                "file"
            )
        if self.recipe not in CHOICES:
            from procrustean.data.recipes import check_recipe

            check_recipe(self.recipe)
        for name in _HINTS:
            value = getattr(self, name)
            if isinstance(value, int) and not fits(value):
                raise ConfigError(f"{name} of {value.bit_length()} bits received; whole numbers have at most 64")
            if isinstance(value, str | Path) and "\0" in str(value):
                raise ConfigError(f"{name} = {str(value)!r:.80} received; no name or path has a null character in it")
        for name, least in (
            ("hold_out", 0),
            ("evaluate_every", 1),
            ("checkpoint_every", 0),
            ("image_size", 1),
            ("workers", 1),
            ("probe_every", 1),
            ("keep_weights_every", 1),
        ):
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise ConfigError(f"{name} = {value} received; it has to be at least {least}, and finite")
        if self.hold_out is not None and self.hold_out >= 1 and not isinstance(self.hold_out, int):
            raise ConfigError(
                f"hold_out = {self.hold_out} received; it has to be a whole number of images per class, or a share "
                "below 1, for example 0.15"
            )
        if self.fold is not None:
            from procrustean.data.fold_splits import checked_fold

            checked_fold(self.fold)
        if not 0 <= self.data_seed < 2**32:
            raise ConfigError(f"data_seed = {self.data_seed} received; it lies in 0..{2**32 - 1}")
        if any(epoch < 1 for epoch in self.features_at):
            raise ConfigError(f"features_at = {list(self.features_at)} received; epochs count from 1")

    @property
    def probing(self) -> bool:
        """Whether the run is measured on its way: asked for by itself, or by saying when."""
        return self.probes or self.probe_every is not None or bool(self.features_at)

    @property
    def code(self) -> dict[str, str]:
        """The method and the network, as far as they are code in files of the user's."""
        named = {"method": self.method, "net": self.net}
        return {name: code for name, code in named.items() if code is not None and file_code(code) is not None}

    @property
    def computed(self) -> dict[str, Any]:
        """The settings that say what the run computes, as plain data."""
        return {k: v for k, v in without_idle(self.to_json()).items() if k not in CARRIED_OUT}

    @property
    def hash(self) -> str:
        """Twelve hexadecimal digits that name what the run computes."""
        kept = {k: v for k, v in self.computed.items() if v != UNHASHED.get(k, ...)}
        kept["method"] = code_identity(self.method)
        kept["net"] = None if self.net is None else code_identity(self.net)
        kept["hold_out"] = self.hold_out or 0  # open, it has the name it had before it could be
        # The recipe of a data set is the paper's where there is one: two names for the same computation.
        kept["recipe"] = "paper" if self.recipe == "auto" else self.recipe
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def slug(self) -> str:
        """A readable, unique folder name."""
        name = Path(self.source).stem[:LONGEST_NAME] or "images"
        setting = self.imbalance if self.rho is None else f"{self.imbalance}{self.rho:g}"
        return (
            f"{name}-{setting}-{folder_name(self.method)[:LONGEST_NAME]}{'-drw' * self.drw}-seed{self.seed}-{self.hash}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON and YAML."""

        def plain(value: Any) -> Any:
            if isinstance(value, Path):
                return str(value)
            if isinstance(value, tuple):
                return list(value)
            return deepcopy(value) if isinstance(value, dict) else value

        # `asdict` would search every number and text for what may be inside; tables ask for thousands of these.
        return {f.name: plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, origin: str = "the configuration") -> RunSpec:
        """The reverse of `to_json`; refuses unknown keys and wrong types by name."""
        source = data.get("source") if isinstance(data, Mapping) else None
        if source is not None and not isinstance(source, str | os.PathLike):
            raise ConfigError(
                f"{origin}: source of type {type(source).__name__} received; give a data set's name or a path. Images "
                "in memory are for procrustean.Classifier().fit(images, labels)"
            )
        if source is None:
            raise ConfigError(f"{origin} names no data set; add source, for example `source: digits`")
        return cls(**cls.typed(data, origin=origin))

    @classmethod
    def typed(cls, data: Mapping[str, Any], *, origin: str) -> dict[str, Any]:
        """Some settings with their types; refuses unknown keys and wrong types by name."""
        return typed_settings(data, _HINTS, origin)


def check_known(content: Mapping[str, Any]) -> None:
    """Refuse what is kept of a run with a setting that there is not here: it is another run than one without it."""
    unknown = content["config"].keys() - {setting.name for setting in fields(RunSpec)}
    if unknown:
        raise ConfigError(f"unknown settings of a newer version: {', '.join(sorted(unknown))}")


def _plain_option(value: Any) -> Any:
    """The value of an option as JSON holds it, with whole numbers like all others: 1 and 1.0 have the same hash."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a number of numpy or torch
        value = value.item()
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def without_idle(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run without those that make no difference beside the others.

    >>> settings = {"method": "mfw", "drw": True, "average": "swa", "swa_from": "drw"}
    >>> without_idle(settings) == settings, without_idle({**settings, "drw": False})
    (True, {'method': 'mfw', 'drw': False, 'average': 'swa'})
    """
    swa_waits = settings.get("average") in ("swa", "both") and _may_defer(settings)
    return {name: value for name, value in settings.items() if name != "swa_from" or swa_waits}


def _may_defer(settings: Mapping[str, Any]) -> bool:
    """Whether class weights may set in late; a method of one's own need not be told to do so."""
    options = settings.get("options") or {}
    return bool(settings.get("drw") or options.get("drw")) or file_code(str(settings.get("method", ""))) is not None


#: The type of each setting.
_HINTS = {**get_type_hints(RunSpec), "source": str | None}  # a file need not name it, the command line may

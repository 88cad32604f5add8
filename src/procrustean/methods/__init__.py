"""The table of methods, and how one is made from its name and options.

Adding a method is one file in this folder and one line in METHODS. Methods of a user's own files are in neither: they
are named FILE.py:NAME.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from typing import Any

from ..errors import ConfigError, did_you_mean
from ..method_files import file_method, plain_name
from ..types import Problem
from .base import Method


@dataclass(frozen=True)
class Entry:
    """A line of the table: the file and function have the method's name."""

    rows: tuple[str, ...]  # the paper's row names that this method stands for; none for methods it does not have
    source: str  # publication
    cost: str = "1"  # training time relative to ERM at the same number of epochs, on an H200; what else is to be said
    refused: Mapping[str, str] = field(default_factory=dict)  # options one might expect -> why it has none

    @property
    def relative_cost(self) -> float:
        """The number of `cost`."""
        return float(self.cost.partition(" ")[0])


_COUNTED_TWICE = {
    "drw": "its loss corrects for the class sizes already, and class weights on top would count them twice"
}

_BALANCED_TWICE = {
    "drw": "it balances the classes by what it shows or by its last stage, and class weights would do so twice over"
}
_WEIGHTED_BY_META = {
    "drw": "a balanced set decides the weights of its samples, and class weights on top would overrule it"
}
_TAKEN_OUT_LATER = {
    "drw": "it trains without a correction for the class sizes and takes their effect out of the scores by tde when it "
    "predicts, and class weights would correct for them twice"
}
_DECOUPLING = "Kang et al., Decoupling representation and classifier for long-tailed recognition, ICLR 2020"

METHODS: dict[str, Entry] = {
    "erm": Entry(("ERM",), "empirical risk minimisation, the usual training"),
    "focal": Entry(("Focal",), "Lin et al., Focal loss for dense object detection, ICCV 2017"),
    "class_balanced": Entry(("CB",), "Cui et al., Class-balanced loss based on effective number of samples, CVPR 2019"),
    "ldam": Entry(("LDAM", "LDAM-DRW"), "Cao et al., Label-distribution-aware margin loss, NeurIPS 2019"),
    "cdt": Entry(("CDT",), "Ye et al., Identifying and compensating for feature deviation, arXiv:2001.01385, 2020"),
    "seql": Entry(("SEQL",), "Tan et al., Equalization loss for long-tailed object recognition, CVPR 2020"),
    "mixup": Entry(
        ("mixup",),
        "Zhang et al., mixup: Beyond empirical risk minimization, ICLR 2018",
        cost="1 (2 with its own 400 epochs)",
    ),
    "manifold_mixup": Entry(
        ("manifold mixup",),
        "Verma et al., Manifold mixup: Better representations by interpolating hidden states, ICML 2019",
        cost="1 (2 with its own 400 epochs)",
    ),
    "remix": Entry(("Remix", "Remix-DRW"), "Chou et al., Remix: Rebalanced mixup, ECCV workshops 2020"),
    "tau_norm": Entry(("tau-norm",), _DECOUPLING, cost="1", refused=_BALANCED_TWICE),
    "crt": Entry(("cRT",), _DECOUPLING, cost="1 (30 more epochs forward only)", refused=_BALANCED_TWICE),
    "lws": Entry(("LWS",), _DECOUPLING, cost="1 (30 more epochs forward only)", refused=_BALANCED_TWICE),
    "bbn": Entry(
        ("BBN",),
        "Zhou et al., BBN: Bilateral-branch network with cumulative learning, CVPR 2020",
        cost="2.1",
        refused=_BALANCED_TWICE,
    ),
    "deconfound": Entry(
        ("De-confound", "De-confound-TDE"),
        "Tang et al., Long-tailed classification by keeping the good and removing the bad momentum, NeurIPS 2020",
        refused=_TAKEN_OUT_LATER,
    ),
    "oltr": Entry(
        ("OLTR",),
        "Liu et al., Large-scale long-tailed recognition in an open world, CVPR 2019",
        cost="1.1 (1.5 in the second stage; 30 % more epochs on CIFAR)",
        refused=_BALANCED_TWICE,
    ),
    "meta_weight": Entry(
        ("Meta-Weight",),
        "Shu et al., Meta-Weight-Net: Learning an explicit mapping for sample weighting, NeurIPS 2019",
        cost="7.9 (about 4 passes, one of them on slower kernels)",
        refused=_WEIGHTED_BY_META,
    ),
    "domain_adaptation": Entry(
        ("DA",),
        "Jamal et al., Rethinking class-balanced methods from a domain adaptation perspective, CVPR 2020",
        cost="2.4 (1 in the first 80 % of the epochs, then 7.7)",
        refused=_WEIGHTED_BY_META,
    ),
    "m2m": Entry(
        ("M2m",),
        "Kim et al., M2m: Imbalanced classification via major-to-minor translation, CVPR 2020",
        cost="3.6 (7.2 with its 400 epochs, half of them for a first network)",
        refused=_BALANCED_TWICE,
    ),
    "mfw": Entry(
        ("MFW", "MFW w/ DRW"),
        "Ye, Zhan, Chao, Procrustean training for imbalanced deep learning, ICCV 2021",
        cost="1 (1.5 with the paper's 300 epochs)",
    ),
    "balanced_softmax": Entry(
        (),
        "Ren et al., Balanced meta-softmax for long-tailed visual recognition, NeurIPS 2020",
        refused=_COUNTED_TWICE,
    ),
    "logit_adjustment": Entry(
        (),
        "Menon et al., Long-tail learning via logit adjustment, ICLR 2021",
        cost="1 (6 to 7 with its own 1241 or 1419 epochs)",
        refused=_COUNTED_TWICE,
    ),
    "vs": Entry(
        (),
        "Kini et al., Label-imbalanced and group-sensitive classification under overparameterization, NeurIPS 2021",
        refused=_COUNTED_TWICE,
    ),
    "label_aware_smoothing": Entry(
        (), "Zhong et al., Improving calibration for long-tailed recognition (MiSLAS), CVPR 2021"
    ),
    "mislas": Entry(
        (),
        "Zhong et al., Improving calibration for long-tailed recognition, CVPR 2021",
        cost="1 (10 more epochs forward only)",
        refused=_BALANCED_TWICE,
    ),
    "cmo": Entry((), "Park et al., The majority can help the minority, CVPR 2022"),
    "mamix": Entry((), "Cheng, Lin, From SMOTE to mixup for deep imbalanced classification, TAAI 2023"),
}


def entry(name: str) -> Entry:
    """What is known about a method, the library's or one of a file, which is not imported for it."""
    own = file_method(name)
    if own is not None:
        return Entry((), own.path, cost="1 (not measured)")
    check_name(name)
    return METHODS[name]


def check_name(name: str) -> None:
    """ConfigError for a name that is not in the table, with the one that was probably meant."""
    if name == "auto":
        raise ConfigError(
            "method 'auto' received, which compares methods and is for procrustean train alone; one method is needed "
            "here: name it, for example --method mfw. See: procrustean methods"
        )
    if name not in METHODS:
        plain = name.lower().replace("-", "_").removesuffix("_drw")
        if plain in METHODS and plain != name:
            drw = " --drw" * name.lower().endswith("drw")
            raise ConfigError(f"there is no method {name!r}; write --method {plain}{drw}")
        known = (*METHODS, "auto")  # the latter is for `train`, which compares methods
        raise ConfigError(f"there is no method {name!r}. {did_you_mean(name, known)} See: procrustean methods")


def factory(name: str) -> Callable[..., Method]:
    """The function that builds the method; one of a file only where the user has named the file (`use_file`)."""
    if file_method(name) is not None:
        from .from_file import factory_in_file

        return factory_in_file(name)
    check_name(name)
    made: Callable[..., Method] = getattr(import_module(f".{name}", __name__), name)
    return made


def make_method(name: str, problem: Problem, options: Mapping[str, Any] | None = None) -> Method:
    """Build a method from its name and options; options may be strings, as they come from the command line.

    >>> problem = Problem(counts=(50, 5), kind="step", layers=("input", "group1", "group2"))
    >>> make_method("focal", problem, {"gamma": "2"}).label
    'Focal'
    """
    checked = checked_options(name, options or {})
    if file_method(name) is None:
        return factory(name)(problem, **checked)
    from .from_file import build_from_file, check_parts

    made = build_from_file(name, problem, checked)
    if not isinstance(made, Method):
        raise ConfigError(
            f"{plain_name(name)} returned {type(made).__name__}, not a Method; end it with return Method(stages=..., "
            "label=...), from procrustean.methods.base"
        )
    check_parts(made, plain_name(name))
    return made


def option_defaults(name: str) -> dict[str, Any]:
    """The method's options and their defaults, in the order of its signature."""
    return {p.name: p.default for p in _parameters(factory(name)) if p.kind is p.KEYWORD_ONLY}


# A table of results asks about the same few functions a thousand times over.
@lru_cache(maxsize=128)
def _parameters(made: Callable[..., Method]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(made).parameters.values())


@lru_cache(maxsize=128)
def _hints(made: Callable[..., Method]) -> Mapping[str, Any]:
    return types.MappingProxyType(typing.get_type_hints(made))


def checked_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with their types, or a ConfigError that names the one at fault."""
    known, refused, shown = option_defaults(name), entry(name).refused, plain_name(name)
    hints = _hints(factory(name))
    checked = {}
    for key, value in options.items():
        if key in refused:
            raise ConfigError(f"method {shown!r} takes no {key}: {refused[key]}")
        if key not in known:
            listed = ", ".join(f"{k}={v!r}" for k, v in known.items()) or "none"
            raise ConfigError(f"method {shown!r} has no option {key!r}. {did_you_mean(key, known)} Options: {listed}")
        try:
            checked[key] = _converted(value, hints[key])
        except ValueError:
            wanted = _type_name(hints[key])
            raise ConfigError(
                f"option {key} = {value!r} of method {shown!r} is not {wanted}; default {known[key]!r}"
            ) from None
    return checked


def _converted(value: Any, hint: Any) -> Any:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        for choice in sorted(typing.get_args(hint), key=lambda c: c is str):  # str last: it accepts anything
            try:
                return _converted(value, choice)
            except ValueError:
                continue
        raise ValueError
    if typing.get_origin(hint) is typing.Literal:
        if value in typing.get_args(hint):
            return value
        raise ValueError
    if hint is type(None):
        if value is None or value in ("none", "None", "null"):
            return None
        raise ValueError
    if hint is bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
            return value.lower() in ("true", "yes")
        raise ValueError
    if hint in (int, float) and not isinstance(value, bool) and isinstance(value, str | int | float):
        number = float(value)
        if hint is int and not number.is_integer():
            raise ValueError
        return hint(number)
    if hint is str and isinstance(value, str):
        return value
    raise ValueError


def _type_name(hint: Any) -> str:
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(map(repr, typing.get_args(hint)))
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return " or ".join(_type_name(choice) for choice in typing.get_args(hint))
    names = {
        type(None): "none",
        float: "a number",
        int: "a whole number",
        bool: "true or false",
        str: "a text",
    }
    return names.get(hint) or str(hint.__name__)

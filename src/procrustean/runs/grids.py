"""Grids: many runs described in one file, as every combination of some settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.records.run_spec import RunSpec

_KEYS = ("base", "runs", "grid")


def expand(grid: Mapping[str, Any], output: Path, *, origin: str = "the grid") -> list[RunSpec]:
    """All runs of a grid, each kept in a folder of its own below `output`.

    A grid has three parts: `base`, settings of all runs; `runs`, a list of settings, one for each kind of run; `grid`,
    lists of values that every kind is combined with. A run that names its folder (run_dir) gets it below `output`.

    >>> grid = {"base": {"source": "digits"}, "runs": [{"method": "erm"}, {"method": "mfw"}], "grid": {"seed": [0, 1]}}
    >>> [(c.method, c.seed) for c in expand(grid, Path("runs"))]
    [('erm', 0), ('erm', 1), ('mfw', 0), ('mfw', 1)]
    """
    for key in grid:
        if key not in _KEYS:
            raise ConfigError(f"{origin} has an unknown part {key!r}. {did_you_mean(str(key), _KEYS)}")
    base, kinds, axes = grid.get("base") or {}, grid.get("runs") or [{}], grid.get("grid") or {}
    if not isinstance(base, dict) or not isinstance(axes, dict) or not isinstance(kinds, list):
        raise ConfigError(f"{origin}: base and grid have to be mappings, runs a list of mappings")
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(f"{origin}: grid.{name} = {values!r} received; give a list of values")
    configs = []
    for kind, values in product(kinds, product(*axes.values())):
        if not isinstance(kind, dict):
            raise ConfigError(f"{origin}: {kind!r} received under runs; each has to be a mapping of settings")
        settings = {**base, **dict(zip(axes, values, strict=True)), **kind}
        config = RunSpec.from_json(settings, origin=origin)
        configs.append(replace(config, run_dir=output / (config.run_dir or config.slug)))
    return configs

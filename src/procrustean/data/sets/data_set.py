"""What a data set that can be named is; its file says what it is, what it is trained by and where its files are."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from procrustean.data.imageset import Splits
    from procrustean.data.recipe import Recipe


def silent(line: str) -> None:
    """For what is said while nobody listens."""


@dataclass(frozen=True)
class Request:
    """How a data set is asked for."""

    data_dir: Path | None = None  # where data sets are looked for first
    image_size: int | None = None  # side in pixels
    data_seed: int = 0  # which images are for what, where the data set leaves that open
    download: bool = True
    say: Callable[[str], None] = silent

    @property
    def roots(self) -> list[Path]:
        return data_roots(self.data_dir)


@dataclass(frozen=True, kw_only=True)
class DataSet(ABC):
    """A data set that can be named. Its images are loaded by what kind of data set it is."""

    name: str
    title: str  # as publications call it
    about: str  # in a line: how many images of what
    recipe: Recipe  # that it is trained by where nothing else is said
    variants: Mapping[str, Recipe] = field(default_factory=dict)  # what for -> another recipe
    in_paper: bool = False  # whether the recipe is that of the MFW paper's main tables
    counts: Mapping[str, Sequence[int]]  # split -> images of each class, as published
    totals: Mapping[str, int] = field(default_factory=dict)  # split -> images, where those of each class are not known
    size: int | None = None  # side of its images in pixels, where plans are to reckon with another than 32
    tuning_of: str = ""  # the data set whose options are chosen on this one

    #: Whether training downloads it by itself, and what else `procrustean list sources` says about its files.
    downloads = False
    how = ""

    @abstractmethod
    def load(self, request: Request) -> Splits:
        """Its images; DataError, with what to do, where they are not on this machine."""

    @abstractmethod
    def absent(self, data_dir: Path | None = None) -> str | None:
        """Why its images are not on this machine; None if they are."""

    def images(self, split: str) -> int:
        """How many images a split has."""
        return self.totals[split] if split in self.totals else sum(self.counts[split])


def data_roots(data_dir: Path | None = None) -> list[Path]:
    """Folders in which data sets are looked for, the first being the one that downloads go to."""
    asked = [data_dir, os.environ.get("PROCRUSTEAN_DATA")]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "procrustean"
    return list(dict.fromkeys(Path(root).expanduser() for root in (*asked, cache) if root))


def published_list(file: str) -> str:
    """The text of a list that the package carries because it decides what a data set is."""
    return (Path(__file__).parent / "lists" / file).read_text(encoding="utf-8")


def published_counts(file: str) -> tuple[int, ...]:
    """Images of each class, from a list of the package."""
    return tuple(json.loads(published_list(file)))

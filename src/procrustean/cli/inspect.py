"""procrustean inspect"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro


@dataclass(frozen=True)
class Inspect:
    """Look at images before training: counts, damage, duplicates, advice.

    Names broken files, duplicates across splits, what is advised and why (or the recipe of a known data set), and how
    long it would take here.

    The exit code is 2 if training would refuse the images as they are.

    Example: procrustean inspect my_images
    """

    source: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SOURCE")]
    """A folder of images (one folder per class), a .csv, .parquet or .npz file, or a known data set."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where one would train."""
    on_bad_image: Literal["error", "skip"] = "error"
    """Whether one would train without files that cannot be used; all of them are named in any case, up to 200 of
    a kind."""

    group: str | None = None
    """What images that belong together have in common: a column of a table, a regular expression on the path, or
    parent for the folder they are in."""

    duplicates: bool = False
    """Name all near-duplicates, those within a class too."""

    def run(self) -> int:
        from procrustean.base.console import write_result
        from procrustean.base.progress import reporting
        from procrustean.runs.inspect_source import inspect_source

        with reporting() as reporter:
            found = inspect_source(
                self.source,
                device=self.device,
                on_bad_image=self.on_bad_image,
                group=self.group,
                duplicates=self.duplicates,
                reporter=reporter,
            )
        write_result(found.text)
        return 2 if found.refused else 0

"""The images that the settings of a run name: listed once, loaded once for all runs that name the same."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

from procrustean.base.errors import ProcrusteanError
from procrustean.base.progress import Reporter
from procrustean.data.fold_splits import in_fold
from procrustean.data.image_lists import FileListing
from procrustean.data.imageset import Splits
from procrustean.data.sources import is_files, list_source, load_source
from procrustean.records.run_spec import RunSpec

#: Sources that are kept in memory.
KEPT = 4


def source_settings(config: RunSpec) -> dict[str, Any]:
    """The settings that decide what is loaded, as arguments of `load_source`."""
    return {
        "source": config.source,
        "data_dir": config.data_dir,
        "image_size": config.image_size,
        "data_seed": config.data_seed,
        "on_bad_image": config.on_bad_image,
        "group": config.group,
        "fold": config.fold,
    }


class Sources:
    """Loads the images of runs; those loaded last are kept, and so are all reasons why some could not be loaded.

    Files are listed, and their headers read, once for planning and loading. Of listings the last one is kept.
    """

    def __init__(self, reporter: Reporter | None = None) -> None:
        self._reporter = reporter or Reporter()
        self._kept: OrderedDict[tuple[Any, ...], Splits] = OrderedDict()
        self._failed: dict[tuple[Any, ...], ProcrusteanError] = {}
        self._listed: tuple[tuple[Any, ...], FileListing] | None = None

    def __call__(self, config: RunSpec) -> Splits:
        settings = source_settings(config)
        key = tuple(settings.values())
        if key in self._failed:
            raise self._failed[key]
        if key not in self._kept:
            try:
                self._kept[key] = self._loaded(config)
            except ProcrusteanError as error:  # the next run is not to try a failed download again
                self._failed[key] = error
                raise
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]

    def listing(self, config: RunSpec) -> FileListing:
        """The files of a source of image files, not decoded."""
        key = config.source, config.on_bad_image, config.group
        if self._listed is None or self._listed[0] != key:
            self._listed = key, replace(list_source(*key), progress=self._reporter.reading)
        return self._listed[1]

    def take(self, config: RunSpec, listing: FileListing) -> None:
        """Take the files of a source from somebody who has listed them already."""
        key = config.source, config.on_bad_image, config.group
        self._listed = key, replace(listing, on_bad_image=config.on_bad_image)

    def _loaded(self, config: RunSpec) -> Splits:
        if is_files(config.source):
            splits = self.listing(config).load(config.image_size)
            return splits if config.fold is None else in_fold(splits, config.fold)
        return load_source(**source_settings(config), say=self._reporter.say)

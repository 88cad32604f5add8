"""procrustean inspect, and procrustean data: describe, prepare and verify"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from procrustean.base.console import command_text, duration_text, number_of, write_result
from procrustean.base.errors import ConfigError, DataError
from procrustean.base.progress import make_reporter, reporting
from procrustean.cli.outputs import check_folder
from procrustean.cli.values import DataDir, SourceArgument

if TYPE_CHECKING:
    from procrustean.data.stores.prepare import Plan


@dataclass(frozen=True)
class Inspect:
    """Look at images before training: counts, damage, duplicates, advice.

    Names broken files, duplicates across splits, what is advised and why (or the recipe of a known data set), and how
    long it would take here.

    The exit code is 2 if training would refuse the images as they are.

    Example: procrustean inspect my_images
    """

    source: SourceArgument
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


@dataclass(frozen=True)
class Describe:
    """Print counts, ratio, groups and hash of a data set.

    As it is or made imbalanced, with a bar per class.

    Example: procrustean data describe cifar10 --imbalance long_tailed --rho 100
    """

    source: SourceArgument
    """Data set: a name of `procrustean list sources`, a folder of images (one folder per class), a .csv, .parquet or
    .npz file."""
    imbalance: Literal["natural", "long_tailed", "step"] = "natural"
    """Make the training set imbalanced: long_tailed, step, or natural to take it as it is."""
    rho: float | None = None
    """Imbalance ratio, largest over smallest class."""
    data_seed: int = 0
    """Which images of a class are kept."""
    hold_out: float = 0
    """Training images per class set aside, or below 1 their share."""
    image_size: int | None = None
    """Side length to which images of a folder are resized, or at which a data set was prepared."""
    on_bad_image: Literal["error", "skip"] = "error"
    """Refuse a folder with files that are no complete images, or leave them out and count the classes again."""
    data_dir: DataDir = None

    def run(self) -> int:
        from procrustean.data.describe import describe
        from procrustean.data.imbalance import build
        from procrustean.data.sources import load_source

        reporter = make_reporter()
        splits = load_source(
            self.source,
            data_dir=self.data_dir,
            image_size=self.image_size,
            data_seed=self.data_seed,
            on_bad_image=self.on_bad_image,
            say=reporter.say,
        )
        data = build(splits, imbalance=self.imbalance, rho=self.rho, data_seed=self.data_seed, hold_out=self.hold_out)
        write_result(describe(splits, data))
        return 0


@dataclass(frozen=True)
class Prepare:
    """Check an official data set and decode it, once, for training.

    Its counts have to be the published ones. Says where to get the data set if no --source is given. A call that was
    stopped goes on where it was.

    Example: procrustean data prepare tiny-imagenet --source ~/tiny-imagenet-200
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """Data set, one of those that `procrustean list sources` lists so."""
    source: Path | None = None
    """Folder of the unpacked data set."""
    lists: Path | None = None
    """Folder of the list files, where they are not in the source."""
    download: bool = False
    """Download it first, where its licence allows that and its publisher gives checksums."""
    size: int | None = None
    """Side length of the stored images; default what is usual for the data."""
    resize: Literal["crop", "stretch"] | None = None
    """How images become square: the middle of them, or all of them stretched; default what is usual for the data."""
    on_bad_image: Literal["error", "skip"] = "error"
    """Refuse a data set with missing, damaged or wrongly labelled images, or leave them out and count again."""
    workers: int | None = None
    """Processes that decode; default all cores."""
    data_dir: Path | None = None
    """Where the store is kept; default $PROCRUSTEAN_DATA or the user's cache."""
    dry_run: bool = False
    """Only check and estimate."""

    def run(self) -> int:
        from procrustean.data.image_lists import named
        from procrustean.data.sets.data_set import data_roots
        from procrustean.data.sets.prepared_files import prepared_set
        from procrustean.data.stores.prepare import SHOWN, plan, prepare

        layout, root = prepared_set(self.name), data_roots(self.data_dir)[0]
        for name, value in (("size", self.size), ("workers", self.workers)):
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value} received; it has to be at least 1")
        reporter = make_reporter()
        source = self.source.expanduser() if self.source else None
        if self.download:
            source = layout.fetch(root, reporter.say)
        if source is None:
            raise DataError(f"no --source received. {layout.obtain}\nThen: {layout.command}")
        size, workers = self.size, self.workers
        planned = plan(layout, source, root=root, lists=self.lists, size=size, resize=self.resize, workers=workers)
        reporter.say(_estimate(planned))
        if self.dry_run:
            write_result("\n".join(named(planned.problems, SHOWN)) or "complete: every image that is expected is there")
            return 2 if planned.problems and self.on_bad_image == "error" else 0
        if not planned.target.exists():  # a complete one may be where nothing can be written
            check_folder(planned.target.parent, "--data-dir")
        decoded = partial(reporter.reading, "decoding")
        with closing(reporter):
            store = prepare(planned, on_bad_image=self.on_bad_image, say=reporter.say, progress=decoded)
        counts = ", ".join(f"{count:,} {split}" for split, count in store.manifest["splits"].items())
        at = ["--image-size", planned.size] if planned.size != layout.size else []
        place = ["--data-dir", self.data_dir] if self.data_dir else []
        write_result(
            f"{layout.title}: {counts} images of {len(store.classes):,} classes, sha256 {store.digest[:16]}, in\n"
            f"{store.path}\nTrain on it with: {command_text('train', layout.name, *at, *place)}"
        )
        return 0


@dataclass(frozen=True)
class Verify:
    """Compare a prepared data set with the hashes it was written with.

    Example: procrustean data verify tiny-imagenet
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """Data set, one of those that `procrustean list sources` lists so."""
    size: int | None = None
    """Side length at which it is stored; default that of the data set."""
    data_dir: Path | None = None
    """Where the store is; default $PROCRUSTEAN_DATA or the user's cache."""

    def run(self) -> int:
        from procrustean.data.sets.data_set import data_roots
        from procrustean.data.sets.prepared_files import prepared_set
        from procrustean.data.stores.store import verify

        path = prepared_set(self.name).found(data_roots(self.data_dir), self.size)
        images = verify(path)
        write_result(f"{path}: all {images:,} images are as they were written")
        return 0


def _estimate(planned: Plan) -> str:
    return (
        f"{planned.layout.title}: {planned.images:,} images of {len(planned.listing.classes):,} classes, "
        f"{planned.gigabytes:.3g} GB at {planned.size} x {planned.size} in {planned.target} "
        f"({planned.free_gigabytes:.3g} GB free), about {duration_text(planned.seconds)} with "
        f"{number_of(planned.workers, 'process')}"
    )

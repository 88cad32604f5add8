"""procrustean data prepare and procrustean data verify"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from procrustean.data.stores.prepare import Plan


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
        from procrustean.base.console import command_text, write_result
        from procrustean.base.errors import ConfigError, DataError
        from procrustean.base.progress import make_reporter
        from procrustean.cli.counting import counting
        from procrustean.cli.outputs import check_folder
        from procrustean.data.sets.base import data_roots
        from procrustean.data.sets.prepared import prepared_set
        from procrustean.data.stores.listing import told
        from procrustean.data.stores.prepare import plan, prepare

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
        planned = plan(
            layout,
            source,
            root=root,
            lists=self.lists,
            size=self.size,
            resize=self.resize,
            workers=self.workers,
        )
        reporter.say(_estimate(planned))
        if self.dry_run:
            write_result("\n".join(told(planned.problems)) or "complete: every image that is expected is there")
            return 2 if planned.problems and self.on_bad_image == "error" else 0
        if not planned.target.exists():  # a complete one may be where nothing can be written
            check_folder(planned.target.parent, "--data-dir")
        with counting("decoding", reporter.say) as progress:
            store = prepare(planned, on_bad_image=self.on_bad_image, say=reporter.say, progress=progress)
        counts = ", ".join(f"{count:,} {split}" for split, count in store.manifest["splits"].items())
        size = ["--image-size", planned.size] if planned.size != layout.size else []
        place = ["--data-dir", self.data_dir] if self.data_dir else []
        write_result(
            f"{layout.title}: {counts} images of {len(store.classes):,} classes, sha256 {store.digest[:16]}, in\n"
            f"{store.path}\nTrain on it with: {command_text('train', layout.name, *size, *place)}"
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
        from procrustean.base.console import write_result
        from procrustean.data.sets.base import data_roots
        from procrustean.data.sets.prepared import prepared_set
        from procrustean.data.stores.store import verify

        path = prepared_set(self.name).found(data_roots(self.data_dir), self.size)
        images = verify(path)
        write_result(f"{path}: all {images:,} images are as they were written")
        return 0


def _estimate(planned: Plan) -> str:
    from procrustean.base.console import duration_text

    return (
        f"{planned.layout.title}: {planned.images:,} images of {len(planned.listing.classes):,} classes, "
        f"{planned.gigabytes:.3g} GB at {planned.size} x {planned.size} in {planned.target} "
        f"({planned.free_gigabytes:.3g} GB free), about {duration_text(planned.seconds)} with {planned.workers} "
        f"process{'es' * (planned.workers > 1)}"
    )

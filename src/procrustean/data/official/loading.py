"""The prepared data sets as splits to train and test on."""

from __future__ import annotations

from pathlib import Path

from procrustean.base.errors import DataError
from procrustean.data.cifar import data_roots
from procrustean.data.imageset import Splits
from procrustean.data.official.fetch import command
from procrustean.data.official.layouts import LAYOUTS, Layout
from procrustean.data.official.step_tiered import step_tiered
from procrustean.data.official.store import Store, open_store, store_path

TUNING = "-tuning"


def load_prepared(
    name: str, *, data_dir: Path | None = None, image_size: int | None = None, data_seed: int = 0
) -> Splits:
    """A data set that `procrustean data prepare` has stored; its images stay in their file.

    Args:
        name: of the data set; "tiered-imagenet" is the paper's step-imbalanced set of 351 large and 160 small classes,
            "tiered-imagenet-tuning" the one with the 97 other small classes.
        data_dir: folder of data sets that is searched first.
        image_size: side at which it was stored; by default the data set's own.
        data_seed: which images of a class are taken, for Tiered-ImageNet.
    """
    layout = LAYOUTS[name.removesuffix(TUNING)]
    store = open_store(found_store(layout, data_roots(data_dir), image_size))
    if layout.name == "tiered-imagenet":
        drawn = step_tiered(store, "val" if name.endswith(TUNING) else "test", data_seed)
        return Splits(name, drawn.train, drawn.test, drawn.val, _notes(drawn.note, store))
    val = store.split("val") if "val" in store.manifest["splits"] else None
    return Splits(name, store.split("train"), store.split("test"), val, _notes("", store))


def found_store(layout: Layout, roots: list[Path], image_size: int | None = None) -> Path:
    """Where the store of a data set is, in the first folder that has it; the error says how to get one."""
    sizes = {int(path.name.rpartition("-")[2]): path for root in reversed(roots) for path in _stores(root, layout)}
    wanted = image_size or (layout.size if layout.size in sizes or len(sizes) != 1 else next(iter(sizes)))
    if wanted in sizes:
        return sizes[wanted]
    places = ", ".join(str(root / "stores") for root in roots)
    if sizes:
        raise DataError(
            f"{layout.title} is prepared at {', '.join(map(str, sorted(sizes)))} pixels, not at {wanted}, in {places}; "
            f"name one with --image-size, or prepare it: {command(layout)} --size {wanted}"
        )
    raise DataError(f"{layout.title} has not been prepared, in {places}. {layout.obtain}\nThen: {command(layout)}")


def _stores(root: Path, layout: Layout) -> list[Path]:
    folder = store_path(root, layout.name, layout.size).parent
    try:
        found = sorted(folder.glob(f"{layout.name}-*")) if folder.is_dir() else []
        return [path for path in found if path.is_dir() and path.name.rpartition("-")[2].isdigit()]
    except OSError:  # a folder that may not be read, such as the cache of another user, is no place of stores
        return []


def _notes(note: str, store: Store) -> str:
    problems = len(store.manifest["problems"])
    plural = "s" * (problems > 1)
    skipped = f"prepared with --on-bad-image skip in spite of {problems:,} problem{plural}" if problems else ""
    return "; ".join(text for text in (note, skipped) if text)

"""How many training images each class of a user's source has, counted by their labels: no image is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from procrustean.data.huggingface_disk import is_hf_dataset
from procrustean.data.image_lists import OnBadImage
from procrustean.data.npz import npz_counts
from procrustean.data.sources import list_source, place_of
from procrustean.data.test_split import shares_for_test

#: Sources whose counts are kept: the runs of a plan ask for the same ones again and again.
KEPT = 16


def label_counts(source: str, on_bad_image: OnBadImage = "error") -> Mapping[str, int] | None:
    """Training images by class of a folder or an .npz file, without those that are set aside for tests.

    None for other sources, and for what cannot be read, which is said when it is loaded. Near-duplicates, which stay
    together, and files that turn out to be no images may change a count a little.
    """
    place = place_of(source)
    if place is None:
        return None
    return _counts(place, on_bad_image, Path(place).stat().st_mtime_ns)


@lru_cache(maxsize=KEPT)
def _counts(place: str, on_bad_image: OnBadImage, changed: int) -> Mapping[str, int] | None:
    path = Path(place)
    try:
        if path.suffix.lower() == ".npz":
            counts, tested = npz_counts(path)
        elif path.is_dir() and not is_hf_dataset(path):
            counts, tested = _folder_counts(place, on_bad_image)
        else:
            return None
    except Exception:  # of damaged files nearly anything; loading them names it
        return None
    for_test = np.zeros(len(counts), int) if tested else shares_for_test(np.array([*counts.values()]))
    return {name: count - int(given) for (name, count), given in zip(counts.items(), for_test, strict=True)}


def _folder_counts(place: str, on_bad_image: OnBadImage) -> tuple[dict[str, int], bool]:
    """Training images of each class, and whether there are test images."""
    files = list_source(place, on_bad_image).files
    return Counter(file.label for file in files if file.split == "train"), any(file.split == "test" for file in files)

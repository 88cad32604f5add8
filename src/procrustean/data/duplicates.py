"""Images that are there twice, as they are or nearly: resized, compressed again, a little brighter."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from procrustean.base.stop_signals import heed_stop
from procrustean.data.imageset import Images, StoredImages

Fingerprints = npt.NDArray[np.float32]  # [N, 72], of values 0..255
Groups = npt.NDArray[np.int64]  # [N], equal for images that are near-duplicates

#: Near-duplicates differ by no more than this, of 255, in any number of their fingerprints. JPEG compression of small
#: images stays below it; different blood cells of one kind do not.
TOLERANCE = 6.0
#: Where no part of any image is as bright as this, of 255, different images are within that tolerance.
DARK = 32.0
#: Beyond this many images only equal ones are searched for: the search for near ones would take minutes.
MOST_COMPARED = 50_000
#: Images whose fingerprints are computed together, and their bytes: it takes several times that.
MOST_AT_ONCE, BYTES_AT_ONCE = 4096, 1 << 24


def fingerprints(images: Images | StoredImages) -> Fingerprints:
    """Each image as 8 x 8 grey values and 2 x 2 values of red and blue less grey, all of them means over its parts.

    Args:
        images: uint8 [N, H, W, channels].
    """
    made = np.empty((len(images), 8 * 8 + 2 * 2 * 2), np.float32)
    step = min(MOST_AT_ONCE, max(1, BYTES_AT_ONCE // math.prod(images.shape[1:])))
    for start in range(0, len(images), step):
        heed_stop()
        part = np.asarray(images[slice(start, start + step)])
        grey = part[..., 0].astype(np.float32)  # numpy's mean over so short an axis takes six times as long
        for channel in range(1, part.shape[3]):
            grey += part[..., channel]
        grey /= part.shape[3]
        colour = np.concatenate([part[..., 0] - grey, part[..., -1] - grey], axis=1)  # one below the other
        made[start : start + step] = np.concatenate([_means(grey, 8, 8), _means(colour, 4, 2)], axis=1)
    return made


def near_duplicates(found: Fingerprints) -> Groups:
    """Groups of images that look the same; an image without such another is a group of its own.

    A is near C if it is near B and B is near C, so that a chain of frames is one group.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import KDTree

    if len(found) > MOST_COMPARED:
        return equal_images(found)
    # Equal ones first: a pile of copies would otherwise make a pair of any two.
    equal = equal_images(found)
    _, firsts = np.unique(equal, return_index=True)
    pairs = KDTree(found[firsts]).query_pairs(TOLERANCE, p=np.inf, output_type="ndarray")
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(firsts), len(firsts)))
    _, joined = connected_components(links, directed=False)
    return np.asarray(joined[equal], dtype=np.int64)


def too_dark(found: Fingerprints) -> str:
    """Why different images look the same by their fingerprints, where they are nearly black; empty if they are not."""
    brightest = float(found[:, : 8 * 8].max())
    if brightest >= DARK:
        return ""
    return (
        f"the images are nearly black, no part of any brighter than {brightest:.0f} of 255, so that different ones "
        "look the same"
    )


def equal_images(found: Fingerprints) -> Groups:
    """Groups of images with the same fingerprint."""
    _, groups = np.unique(found, axis=0, return_inverse=True)
    return np.asarray(groups, dtype=np.int64).reshape(-1)


def _means(values: npt.NDArray[np.float32], rows: int, columns: int) -> npt.NDArray[np.float32]:
    """Means over equal parts, [N, rows * columns]."""
    down, across = _parts(values.shape[1], rows), _parts(values.shape[2], columns)
    small = np.einsum("rh,nhw,cw->nrc", down, values, across, optimize=True)
    return np.asarray(small.reshape(len(values), -1), np.float32)


def _parts(length: int, parts: int) -> npt.NDArray[np.float32]:
    """Weights [parts, length] that average a side over equal parts; borders may cut through pixels."""
    edges = np.linspace(0, length, parts + 1)
    pixels = np.arange(length)
    overlap = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    shares = np.clip(overlap, 0, None)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True), np.float32)

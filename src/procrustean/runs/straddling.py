"""Images that belong together on both sides of a split: what is measured on the one is too good."""

from __future__ import annotations

import shlex

from procrustean.data.describe import printable
from procrustean.data.imageset import ImageSet
from procrustean.engine.prepared import Prepared

#: Fewer images than this share of a side are passed over where it is only likely that they belong to trained ones.
PASSED_OVER = 0.02


def straddling(prepared: Prepared) -> list[str]:
    """Groups, given or likely, that have training images and held-out or test images."""
    data, likely = prepared.data, prepared.splits.likely
    found = []
    for side, images in (("held-out", data.held_out), ("test", data.test)):
        if images is None:
            continue
        if data.train.groups:
            both = set(data.train.groups) & set(images.groups)
            number = sum(group in both for group in images.groups)
            if number:
                found.append(
                    f"{number} of {len(images)} {side} images belong to groups that are trained on "
                    f"({', '.join(map(printable, sorted(both)[:3]))}{', ...' * (len(both) > 3)}): what is measured on "
                    "them is too good. Put every group on one side"
                )
        elif likely is not None:
            found += _probably(data.train, images, side, likely.of, likely.how, likely.option)
    return found


def _probably(
    train: ImageSet, images: ImageSet, side: str, group_of: dict[str, str], how: str, option: str
) -> list[str]:
    trained = {group_of[name]: name for name in train.names if name in group_of}
    pairs = [(name, trained[group_of[name]]) for name in images.names if group_of.get(name) in trained]
    if len(pairs) <= PASSED_OVER * len(images):
        return []
    shown = " and ".join(map(printable, pairs[0]))
    remedy = f"--group {shlex.quote(option)}" if option else "a table with a column for --group"
    return [
        f"{len(pairs)} of {len(images)} {side} images probably belong together with training images, by {how}, such as "
        f"{shown}: what is measured on them is then too good; {remedy} keeps "
        "them on one side"
    ]

"""Settings that are allowed and probably a mistake: said before training, in words."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

import numpy as np

from procrustean.balance.losses import shifts_scores, weights_classes
from procrustean.base.files import expanded
from procrustean.data.describe import printable, some_names
from procrustean.data.duplicates import Groups, fingerprints, near_duplicates, too_dark
from procrustean.data.image_groups import LikelyGroups
from procrustean.data.imageset import ImageSet, Indices, Labels
from procrustean.data.recipes import PAPER
from procrustean.data.sources import is_named
from procrustean.engine.prepared_run import Prepared
from procrustean.methods.method import Method, Stage
from procrustean.methods.tau_norm import Rescaling

#: More images than this are not compared before every training; `procrustean inspect` compares them.
MOST_IMAGES = 20_000
#: Groups of images under several labels that are named.
NAMED = 3
#: What was found in sets of images, by their hash and the names of their files, which it tells: the runs of a grid or a
#: comparison share them.
_FOUND: dict[tuple[object, ...], list[str]] = {}
_MOST_KEPT = 16
#: Which sides no test image may be on, and what it means.
SIDES = {
    "training": "the results are too good by as much",
    "validation": "what is chosen on these is not tested by them",
}
SAME = "are {side} images too, pixel for pixel, such as {pair}: {means}"
ALIKE = "look like {side} images, such as {pair}: if they are the same, {means}"


def corrected_twice(prepared: Prepared) -> list[str]:
    """Stages in which two of sampler, class weights and loss make up for the class sizes."""
    found = []
    for stage in prepared.method.stages:
        active = _within(stage)
        if len(active) > 1:
            found.append(
                f"{prepared.label}, stage {stage.name!r}: {' and '.join(active)}, so that the class sizes are "
                "corrected for twice and large classes suffer; keep one of them"
            )
    return found


def corrections(method: Method) -> list[str]:
    """How a method has made up for the class sizes by the time its network predicts; its last stage decides."""
    stage = method.stages[-1]
    found = _within(stage)
    if stage.extra_from == "meta":
        found.append("a balanced set decides the weights of its samples")
    elif stage.extra is not None:
        found.append("its second stream of images shows small classes more often")
    if isinstance(method.finish, Rescaling) and method.finish.tau != 0:
        found.append("its class vectors are brought to more equal lengths after training")
    return found


def _within(stage: Stage) -> list[str]:
    weighted = getattr(stage.objective, "weight", None) is not None
    in_effect = {
        "its sampler shows small classes more often": stage.sampler is not None,
        "its class weights count small classes more": weighted or weights_classes(stage.objective),
        "its loss shifts the scores by the class sizes": shifts_scores(stage.objective),
    }
    return [what for what, is_there in in_effect.items() if is_there]


#: What the MFW paper's schedules were made for.
AT_HOME = ("erm", "mfw")


def schedule_of_another(prepared: Prepared) -> list[str]:
    """A rival of MFW that trains by MFW's cosine because nothing was said; which costs some of them points."""
    config, own, recipe = prepared.config, prepared.method.own or {}, prepared.recipe
    # A user's own images have no paper, whatever their folder is called.
    published = config.recipe == "auto" and prepared.splits.name == config.source and config.source in PAPER
    schedule = own.get("schedule", recipe.schedule)
    if not published or config.method in AT_HOME or schedule == recipe.schedule:
        return []
    return [
        f"{prepared.label} trains by the MFW paper's schedule ({recipe.epochs} epochs, {recipe.schedule}), not "
        f"by the one it was published with ({own.get('epochs', recipe.epochs)} epochs, {schedule}), which may cost it "
        "points; take --recipe own, or --recipe paper if this is meant"
    ]


def untested(prepared: Prepared) -> list[str]:
    """Classes without a single test image."""
    data = prepared.data
    missing = [name for name, count in zip(data.test.classes, data.test.counts, strict=True) if count == 0]
    if not missing:
        return []
    return [f"there are no test images of {some_names(missing)}: the results say nothing about them"]


def leaks(prepared: Prepared) -> list[str]:
    """Near-duplicates of the user's own files across train, validation and test images, or under several labels."""
    data = prepared.data
    if is_named(prepared.config.source) or not expanded(prepared.config.source).exists():
        return []
    tested = data.test if prepared.splits.has_test else None
    sets = {"training": data.train, "validation": data.held_out, "test": tested}
    present = {name: images for name, images in sets.items() if images is not None}
    if sum(map(len, present.values())) > MOST_IMAGES:
        return []
    key = (data.split_hash, *(images.names for images in present.values()))
    if key not in _FOUND:
        if len(_FOUND) >= _MOST_KEPT:
            _FOUND.clear()
        _FOUND[key] = _look_at(present)
    return _FOUND[key]


def _look_at(present: Mapping[str, ImageSet]) -> list[str]:
    prints = np.concatenate([fingerprints(images.images) for images in present.values()])
    alike = near_duplicates(prints)
    copies = _copies(present, alike)
    ends = np.cumsum([len(images) for images in present.values()])
    rows = dict(zip(present, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    names = _as_labelled(present)
    labels = np.concatenate([images.labels for images in present.values()])
    found = _on_two_sides(rows, copies, np.arange(len(copies)), SAME, names)
    mixed = _under_several_labels(copies, labels)
    found += _contradicting("the same, pixel for pixel", copies, mixed, labels, names)
    if not (dark := too_dark(prints)):
        told = alike[np.isin(copies, mixed)]
        mixed = np.setdiff1d(_under_several_labels(alike, labels), told)
        found += _on_two_sides(rows, alike, copies, ALIKE, names)
        found += _contradicting("alike", alike, mixed, labels, names)
    elif len(np.unique(alike)) < len(np.unique(copies)):
        found.append(f"{dark}: whether some are on both sides of a split cannot be told. Give them all values")
    return found


def _copies(present: Mapping[str, ImageSet], groups: Groups) -> Groups:
    """Groups of images whose pixels agree, which are near-duplicates as well."""
    found: dict[bytes, int] = {}
    sizes, row, copies = np.bincount(groups), 0, np.arange(len(groups))
    for images in present.values():
        for position in range(len(images)):
            if sizes[groups[row]] > 1:
                copies[row] = found.setdefault(sha256(images.images[position].tobytes()).digest(), row)
            row += 1
    return copies


def _as_labelled(present: Mapping[str, ImageSet]) -> list[str]:
    """What each image is called, with its label."""
    return [
        f"{images.names[row] if images.names else f'{side} image {row}'} as {images.classes[label]}"
        for side, images in present.items()
        for row, label in enumerate(images.labels)
    ]


def _on_two_sides(
    rows: Mapping[str, Indices], groups: Groups, known: Groups, like: str, names: Sequence[str]
) -> list[str]:
    """Test images of a group that another side has images of as well.

    Args:
        rows: of the images of each side.
        groups: of the images, [N].
        known: closer groups, [N], of which it has been said.
        like: what is said of these images.
        names: of the images.
    """
    if "test" not in rows:
        return []
    found, test = [], rows["test"]
    for side, means in SIDES.items():
        there = rows.get(side, test[:0])
        both = test[np.isin(groups[test], groups[there]) & ~np.isin(known[test], known[there])]
        if len(both):
            pair = f"{names[both[0]]} and {names[there[groups[there] == groups[both[0]]][0]]}"
            found.append(f"{len(both)} of {len(test)} test images {like.format(side=side, pair=pair, means=means)}")
    return found


def _under_several_labels(groups: Groups, labels: Labels) -> Groups:
    """The groups whose images are not all of one label."""
    lowest, highest = np.full(groups.max() + 1, labels.max()), np.zeros(groups.max() + 1, np.int64)
    np.minimum.at(lowest, groups, labels)
    np.maximum.at(highest, groups, labels)
    return np.flatnonzero(lowest < highest)


def _contradicting(how: str, groups: Groups, mixed: Groups, labels: Labels, names: Sequence[str]) -> list[str]:
    """What is said of groups of images under several labels, with an image of each label of the first groups."""
    if not len(mixed):
        return []
    shown = []
    for group in mixed[:NAMED]:
        rows = np.flatnonzero(groups == group)
        _, first_of_each = np.unique(labels[rows], return_index=True)
        shown.append(", ".join(names[row] for row in rows[np.sort(first_of_each)]))
    more = f"; and {len(mixed) - NAMED} more" if len(mixed) > NAMED else ""
    return [
        f"images under different labels are {how}: {'; '.join(shown)}{more}. Look at them, keep those whose label is "
        "right; procrustean inspect names all"
    ]


def divided_groups(prepared: Prepared) -> list[str]:
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
            found += _probably(data.train, images, side, likely)
    return found


def _probably(train: ImageSet, images: ImageSet, side: str, likely: LikelyGroups) -> list[str]:
    trained = {likely.of[name]: name for name in train.names if name in likely.of}
    pairs = [(name, trained[likely.of[name]]) for name in images.names if likely.of.get(name) in trained]
    if len(pairs) <= likely.by_chance * len(images):
        return []
    shown = " and ".join(map(printable, pairs[0]))
    remedy = f"--group {shlex.quote(likely.option)}" if likely.option else "a table with a column for --group"
    return [
        f"{len(pairs)} of {len(images)} {side} images probably belong together with training images, by {likely.how}, "
        f"such as {shown}: what is measured on them is then too good; {remedy} keeps them on one side"
    ]


Rule = Callable[[Prepared], list[str]]

#: Each looks at a run that is about to start and names what it finds.
RULES: tuple[Rule, ...] = (
    corrected_twice,
    leaks,
    divided_groups,
    untested,
    schedule_of_another,
)


def lint(prepared: Prepared) -> list[str]:
    """What is probably wrong with a run, one sentence each; an empty list if nothing is."""
    return [finding for rule in RULES for finding in rule(prepared)]

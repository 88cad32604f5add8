from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from procrustean.base import ConfigError, DataError
from procrustean.data import ImageSet, Splits, build, hold_out, select
from procrustean.data.set_aside import hold_out_together, part, set_aside_test, shares


def images(counts: list[int], seed: int = 0) -> ImageSet:
    """Noise, no two images alike."""
    pixels = np.random.default_rng(seed).integers(0, 256, (sum(counts), 8, 8, 3), np.uint8)
    return ImageSet(pixels, np.repeat(np.arange(len(counts)), counts), tuple(f"c{i}" for i in range(len(counts))))


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(0, 5))
def test_without_duplicates_it_takes_what_select_takes(sizes: list[int], seed: int) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    counts = [size // 3 for size in sizes]
    taken = part(labels, np.arange(len(labels)), counts, seed)
    assert taken.tolist() == select(labels, counts, seed).tolist()


@given(st.integers(0, 50), st.integers(2, 5))
def test_groups_are_never_divided(seed: int, copies: int) -> None:
    labels = np.repeat([0, 1], [30, 12])
    groups = np.arange(42) // copies
    taken = part(labels, groups, [10, 4], seed)
    inside = np.isin(np.arange(42), taken)
    for group in np.unique(groups):
        assert inside[groups == group].all() or not inside[groups == group].any()
    assert (np.bincount(labels[taken], minlength=2) <= [10, 4]).all()
    assert len(set(taken.tolist())) == len(taken)


def test_the_same_image_under_two_labels_is_never_taken() -> None:
    labels, groups = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 2, 3, 4])
    for seed in range(20):
        assert not {2, 3} & set(part(labels, groups, [2, 2], seed).tolist())


@pytest.mark.parametrize("share", [0.05, 0.15, 0.5])
def test_shares_leave_every_class_most_of_its_images(share: float) -> None:
    counts = np.arange(0, 400)
    given_away = shares(counts, share)
    assert (given_away[counts < 4] == 0).all()
    assert (given_away[counts >= 4] >= 1).all()
    assert (given_away <= np.maximum(share * counts + 0.5, counts / 4)).all()


def test_a_test_set_has_no_near_duplicate_in_train() -> None:
    once = images([30, 10])
    twice = ImageSet(np.concatenate([once.images, once.images]), np.tile(once.labels, 2), once.classes)
    train, test, _, note = set_aside_test(twice, "pets")
    assert len(train) + len(test) == 80
    assert not {i.tobytes() for i in train.images} & {i.tobytes() for i in test.images}
    assert "80 images have near-duplicates, kept together" in note
    assert test.counts.tolist() == [12, 4]


def test_classes_of_copies_are_not_tested_and_named() -> None:
    made = images([10, 1])
    copies = ImageSet(made.images[[*range(10), 10, 10, 10]], np.repeat([0, 1], [10, 3]), made.classes)
    _, test, _, note = set_aside_test(copies, "pets")
    assert test.counts.tolist() == [2, 0]
    assert note.endswith("; without an image to spare and so not tested: c1")


def test_several_classes_that_are_not_tested_are_counted() -> None:
    *_, note = set_aside_test(images([9, 1, 1]), "pets")
    assert note.endswith("; without an image to spare and so not tested: c1, c2")


def test_an_example_and_a_way_out_are_named_where_all_are_alike() -> None:
    made = images([2, 1])
    alike = ImageSet(made.images[[0, 0, 0, 1, 1]] // 2, np.array([0, 0, 0, 1, 1]), made.classes)
    alike.images[1, ..., 0] += 3
    alike.images[2, ..., 0] += 2
    with pytest.raises(DataError) as error:
        set_aside_test(replace(alike, names=tuple("abcde")), "pets")
    message = (
        "no class has images to give that do not belong together with the others, for example a and b, which look the "
        "same. Add images that differ"
    )
    assert message in str(error.value)
    assert "part them yourself, into folders train and test" in str(error.value)
    with pytest.raises(ConfigError, match=r"stay together, .*--hold-out 3; or .*--hold-out 0"):
        build(Splits("pets", many_times(made, 4), images([2, 1])), imbalance="natural", hold_out=0.25)


def many_times(images: ImageSet, times: int) -> ImageSet:
    """Each image so many times."""
    return ImageSet(images.images.repeat(times, 0), images.labels.repeat(times), images.classes)


def test_a_held_out_share_of_each_class() -> None:
    splits = Splits("pets", images([100, 20, 3]), images([5, 5, 5], seed=1))
    built = build(splits, imbalance="natural", hold_out=0.15)
    assert built.held_out is not None
    assert built.held_out.counts.tolist() == [15, 5, 0]
    assert built.counts.tolist() == [85, 15, 3]
    assert built.left_out_classes == ("c2",)
    assert build(splits, imbalance="natural", hold_out=0.15).split_hash == built.split_hash
    assert build(splits, imbalance="natural", hold_out=0.15, data_seed=1).split_hash != built.split_hash


def test_shares_that_cannot_be_had() -> None:
    with pytest.raises(ConfigError, match=r"hold_out must be 0, a share below 1 .*got 1\.5"):
        build(Splits("pets", images([9, 9]), images([2, 2])), imbalance="natural", hold_out=1.5)
    instead = "train without a hold-out: --hold-out 0, with --method erm or another one in place of auto"
    with pytest.raises(ConfigError, match=rf"no class can give 0\.2 .* the largest has 3, .*; or {instead}"):
        hold_out_together(images([3, 2]), 0.2)
    with pytest.raises(ConfigError, match=rf"no class can give 2 images .* the largest has 1; {instead}"):
        hold_out([0, 1], 2, 2)

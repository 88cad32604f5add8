import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from procrustean.base import ConfigError, DataError
from procrustean.data import ImageSet, Splits, build, hold_out, long_tailed_counts, select, step_counts

LONG_TAILED_10 = {
    10: [5000, 3871, 2997, 2320, 1796, 1391, 1077, 834, 645, 500],
    50: [5000, 3237, 2096, 1357, 878, 568, 368, 238, 154, 100],
    100: [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50],
    200: [5000, 2775, 1540, 854, 474, 263, 146, 81, 45, 25],
    500: [5000, 2506, 1256, 629, 315, 158, 79, 39, 19, 10],
    1000: [5000, 2320, 1077, 500, 232, 107, 50, 23, 10, 5],
}


def ldam_drw(labels, counts, seed):
    """The published builder, which draws from numpy's global generator."""
    state = np.random.get_state()
    try:
        np.random.seed(seed)
        targets = np.array(labels, dtype=np.int64)
        chosen = []
        for label, count in zip(np.unique(targets), counts, strict=True):
            positions = np.where(targets == label)[0]
            np.random.shuffle(positions)
            chosen.extend(positions[:count].tolist())
        return chosen
    finally:
        np.random.set_state(state)


def image_set(labels, classes=None, side=2):
    """Every image carries its own number in its pixels."""
    labels = np.asarray(labels, np.int64)
    numbers = np.arange(len(labels), dtype=np.uint32).view(np.uint8).reshape(-1, side, side, 1)
    names = classes or tuple(f"class {i}" for i in range(labels.max() + 1))
    return ImageSet(numbers, labels, names)


def numbers(images):
    return images.images.reshape(len(images), 4).copy().view(np.uint32).ravel()


def toy(counts, shuffled_by=0, val=None):
    labels = np.repeat(np.arange(len(counts)), counts)
    np.random.RandomState(shuffled_by).shuffle(labels)
    names = tuple(f"class {i}" for i in range(len(counts)))
    test = image_set(np.repeat(np.arange(len(counts)), 2), names)
    return Splits("toy", image_set(labels, names), test, image_set(val, names) if val else None)


@pytest.mark.parametrize(("rho", "counts"), LONG_TAILED_10.items())
def test_long_tailed_cifar10(rho, counts):
    assert long_tailed_counts(5000, 10, rho) == counts


@pytest.mark.parametrize(
    ("rho", "total"), [(10, 20431), (50, 13996), (100, 12406), (200, 11203), (500, 10011), (1000, 9324)]
)
def test_long_tailed_cifar10_totals(rho, total):
    assert sum(long_tailed_counts(5000, 10, rho)) == total


@pytest.mark.parametrize(
    ("rho", "total", "smallest"), [(10, 19573, 50), (50, 12608, 10), (100, 10847, 5), (200, 9502, 2)]
)
def test_long_tailed_cifar100(rho, total, smallest):
    counts = long_tailed_counts(500, 100, rho)
    assert (sum(counts), counts[-1], len(counts)) == (total, smallest, 100)


def test_long_tailed_cifar100_ends():
    counts = long_tailed_counts(500, 100, 100)
    assert counts[:6] == [500, 477, 455, 434, 415, 396]
    assert counts[-6:] == [6, 6, 5, 5, 5, 5]


@pytest.mark.parametrize(("rho", "total", "smallest"), [(10, 39072, 50), (100, 21549, 5)])
def test_long_tailed_tiny_imagenet(rho, total, smallest):
    counts = long_tailed_counts(500, 200, rho)
    assert (sum(counts), counts[-1]) == (total, smallest)


@pytest.mark.parametrize(
    ("largest", "classes", "rho", "total", "smallest"),
    [
        (5000, 10, 10, 27500, 500),
        (5000, 10, 100, 25250, 50),
        (5000, 10, 200, 25125, 25),
        (500, 100, 10, 27500, 50),
        (500, 100, 100, 25250, 5),
        (500, 100, 200, 25100, 2),
        (500, 200, 10, 55000, 50),
        (500, 200, 100, 50500, 5),
    ],
)
def test_step_counts(largest, classes, rho, total, smallest):
    counts = step_counts(largest, classes, rho)
    assert counts == [largest] * (classes // 2) + [smallest] * (classes // 2)
    assert sum(counts) == total


def test_step_with_an_odd_number_of_classes_has_more_minor_ones():
    assert step_counts(100, 7, 10) == [100, 100, 100, 10, 10, 10, 10]


@given(st.integers(1, 10_000), st.integers(2, 300), st.floats(1, 10_000))
def test_counts_fall_and_never_reach_zero(largest, classes, rho):
    for rule in (long_tailed_counts, step_counts):
        try:
            counts = rule(largest, classes, rho)
        except ConfigError:
            assert largest / rho <= 1 + 1e-9
            continue
        assert len(counts) == classes
        assert counts[0] == largest
        assert counts[-1] == int(largest * (1 / rho)) >= 1
        assert counts == sorted(counts, reverse=True)


def test_the_refusal_names_the_setting():
    with pytest.raises(ConfigError, match=r"rho 1000 leaves a class without images .* 500; take a smaller one"):
        long_tailed_counts(500, 100, 1000)


@pytest.mark.parametrize("rule", [long_tailed_counts, step_counts])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((100, 10, 0.5), "at least 1, got 0.5"),
        ((100, 10, float("nan")), "got nan"),
        ((100, 10, float("inf")), "got inf"),
        ((100, 1, 10), "at least 2 classes, got 1"),
        ((0, 10, 1), "at least 1 image, got 0"),
    ],
)
def test_impossible_settings(rule, arguments, message):
    with pytest.raises(ConfigError, match=message):
        rule(*arguments)


@settings(max_examples=50)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 2**32 - 1), st.randoms())
def test_select_takes_the_images_of_the_published_builder(sizes, seed, random):
    labels = np.repeat(np.arange(len(sizes)), sizes).tolist()
    random.shuffle(labels)
    counts = [random.randint(0, size) for size in sizes]
    assert select(labels, counts, seed).tolist() == ldam_drw(labels, counts, seed)


def test_select_leaves_the_global_generator_alone():
    before = np.random.get_state()[1].copy()
    select([0, 0, 1], [1, 1])
    hold_out([0, 0, 1, 1], 1, 2, 0)
    assert np.array_equal(before, np.random.get_state()[1])


def test_select_gives_int64_grouped_by_class():
    labels = np.array([1, 0] * 20, np.int32)
    chosen = select(labels, [5, 3])
    assert chosen.dtype == np.int64
    assert labels[chosen].tolist() == [0] * 5 + [1] * 3


@pytest.mark.parametrize(
    ("labels", "counts", "message"),
    [
        ([0, 0, 1], [2, 2], "class 1 has 1 images, 2 were asked for"),
        ([0, 0, 1], [2, -1], "class 1 has 1 images, -1 were asked for"),
        ([0, 0, 1], [2, 1, 1], "class 2 has 0 images"),
        ([0, 0, 2], [1, 1], r"0\.\.1 for 2 classes, got 0\.\.2"),
        ([-1, 0], [1, 0], r"got -1\.\.0"),
        ([0.0, 1.0], [1, 1], "whole numbers, got float64"),
        ([], [1, 1], "non-empty"),
    ],
)
def test_select_errors(labels, counts, message):
    with pytest.raises(DataError, match=message):
        select(labels, counts)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seeds_out_of_range(seed):
    with pytest.raises(ConfigError, match="seed lies in"):
        select([0, 1], [1, 1], seed)
    with pytest.raises(ConfigError, match="seed lies in"):
        hold_out([0, 0, 1, 1], 1, 2, seed)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=8), st.integers(1, 5), st.integers(0, 100))
def test_hold_out_takes_equally_from_every_class_that_can_give(sizes, per_class, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    if max(sizes) <= per_class:
        with pytest.raises((ConfigError, DataError)):
            hold_out(labels, per_class, len(sizes), seed)
        return
    kept, held, left_out = hold_out(labels, per_class, len(sizes), seed)
    assert sorted([*kept, *held]) == list(range(len(labels)))
    assert left_out == tuple(c for c, size in enumerate(sizes) if size <= per_class)
    taken = np.bincount(labels[held], minlength=len(sizes))
    assert taken.tolist() == [0 if c in left_out else per_class for c in range(len(sizes))]
    remaining = np.bincount(labels[kept], minlength=len(sizes))
    assert all(remaining[c] >= 1 for c, size in enumerate(sizes) if size)
    assert (np.diff(kept) > 0).all()


def test_hold_out_depends_on_the_seed_alone():
    labels = np.repeat([0, 1], 50)
    draws = {tuple(hold_out(labels, 3, 2, seed).held) for seed in (0, 0, 1, 2)}
    assert len(draws) == 3


def test_hold_out_draws_the_same_images_on_every_machine():
    assert hold_out(np.repeat([0, 1], 10), 3, 2, 0).held.tolist() == [0, 7, 4, 17, 14, 12]


def test_hold_out_when_no_class_can_give():
    with pytest.raises(ConfigError, match="largest has 3; hold out 2 or fewer"):
        hold_out([0, 0, 0, 1], 3, 2, 0)
    with pytest.raises(ConfigError, match="train without a hold-out"):
        hold_out([0, 1], 1, 2, 0)
    with pytest.raises(ConfigError, match="at least 1 image per class, got 0"):
        hold_out([0, 1], 0, 2, 0)


def test_cifar100_hold_out_edge_cases():
    long_tailed = np.repeat(np.arange(100), long_tailed_counts(500, 100, 200))
    assert sum(count < 3 for count in long_tailed_counts(500, 100, 200)) == 4
    exactly_3 = [c for c, n in enumerate(long_tailed_counts(500, 100, 200)) if n <= 3]
    assert hold_out(long_tailed, 3, 100, 0).left_out == tuple(exactly_3)
    step = np.repeat(np.arange(100), step_counts(500, 100, 200))
    _, held, left_out = hold_out(step, 3, 100, 0)
    assert left_out == tuple(range(50, 100))
    assert len(held) == 150


@pytest.mark.parametrize("kind", ["long_tailed", "step"])
def test_build_takes_the_images_of_the_published_builder(kind):
    splits = toy([40] * 5)
    rule = long_tailed_counts if kind == "long_tailed" else step_counts
    built = build(splits, imbalance=kind, rho=10)
    expected = ldam_drw(splits.train.labels, rule(40, 5, 10), 0)
    assert built.indices.tolist() == expected
    assert numbers(built.train).tolist() == expected
    assert built.counts.tolist() == rule(40, 5, 10) == built.train.counts.tolist()
    assert np.array_equal(built.train.labels, splits.train.labels[expected])
    assert (built.kind, built.rho) == (kind, 10.0)
    assert built.held_out is None
    assert built.left_out_classes == ()
    assert sorted([*numbers(built.spare), *expected]) == list(range(200))


def test_build_starts_from_the_smallest_class():
    built = build(toy([40, 30, 50]), imbalance="step", rho=3)
    assert built.counts.tolist() == [30, 10, 10]


def test_natural_sorts_classes_by_size_and_keeps_ties_in_order():
    splits = toy([5, 20, 5, 11], val=[0, 1, 2, 3, 3])
    built = build(splits, imbalance="natural")
    assert built.train.classes == ("class 1", "class 3", "class 0", "class 2")
    assert built.test.classes == built.held_out.classes == built.train.classes
    assert built.counts.tolist() == [20, 11, 5, 5]
    assert built.rho == 4.0
    assert built.spare is None
    for before, after in (
        (splits.train, built.train),
        (splits.test, built.test),
        (splits.val, built.held_out),
    ):
        assert numbers(after).tolist() == numbers(before).tolist()
        assert [after.classes[i] for i in after.labels] == [before.classes[i] for i in before.labels]


def test_many_equal_classes_keep_their_order():
    splits = toy([3] * 40 + [5] + [3] * 40)
    order = [40, *range(40), *range(41, 81)]
    assert build(splits, imbalance="natural").train.classes == tuple(f"class {i}" for i in order)


def test_hold_out_is_balanced_and_apart_from_training_and_spare():
    splits = toy([40] * 4, val=[0, 1, 2, 3])
    built = build(splits, imbalance="step", rho=10, hold_out=3)
    assert built.counts.tolist() == [37, 37, 1, 1]
    assert built.held_out.counts.tolist() == [3, 3, 3, 3]
    parts = [numbers(part) for part in (built.train, built.held_out, built.spare)]
    assert sorted(np.concatenate(parts)) == list(range(160))
    assert numbers(built.train).tolist() == built.indices.tolist()


def test_hold_out_is_drawn_from_the_images_chosen_without_it():
    splits = toy([40] * 4)
    whole = build(splits, imbalance="long_tailed", rho=10)
    reduced = build(splits, imbalance="long_tailed", rho=10, hold_out=2)
    assert set(whole.indices) == {*reduced.indices, *numbers(reduced.held_out)}
    assert np.array_equal(numbers(whole.spare), numbers(reduced.spare))


def test_classes_too_small_for_the_hold_out_keep_their_images_and_are_named():
    built = build(toy([4, 3, 9]), imbalance="natural", hold_out=3)
    assert built.left_out_classes == ("class 1",)
    assert built.train.classes == ("class 2", "class 1", "class 0")
    assert built.counts.tolist() == [6, 3, 1]
    assert built.held_out.counts.tolist() == [3, 0, 3]
    assert built.rho == 6.0


def test_hashes_follow_the_split():
    splits = toy([40] * 4)
    settings = [
        {"imbalance": "step", "rho": 10},
        {"imbalance": "step", "rho": 20},
        {"imbalance": "long_tailed", "rho": 10},
        {"imbalance": "step", "rho": 10, "data_seed": 1},
        {"imbalance": "step", "rho": 10, "hold_out": 1},
    ]
    built = [build(splits, **setting) for setting in settings]
    assert len({one.split_hash for one in built}) == len(settings)
    assert {one.source_hash for one in built} == {splits.hash}
    assert build(splits, imbalance="step", rho=10).split_hash == built[0].split_hash
    other = build(toy([40] * 4, shuffled_by=1), imbalance="step", rho=10)
    assert other.split_hash != built[0].split_hash


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        ({"imbalance": "longtailed", "rho": 10}, ConfigError, "Did you mean 'long_tailed'"),
        ({"imbalance": "step"}, ConfigError, "'step' needs rho"),
        ({"imbalance": "natural", "rho": 10}, ConfigError, "takes no rho, got 10"),
        ({"imbalance": "step", "rho": 0.1}, ConfigError, "at least 1, got 0.1"),
        ({"imbalance": "step", "rho": 100}, ConfigError, "the largest class has 20; take a smaller one"),
        ({"imbalance": "natural", "hold_out": -1}, ConfigError, "got -1"),
        ({"imbalance": "natural", "hold_out": float("nan")}, ConfigError, "got nan"),
        ({"imbalance": "natural", "hold_out": float("inf")}, ConfigError, "got inf"),
        ({"imbalance": "natural", "hold_out": 50}, ConfigError, "hold out 29 or fewer"),
        ({"imbalance": "step", "rho": 2, "data_seed": -1}, ConfigError, "seed lies in"),
    ],
)
def test_build_errors(setting, error, message):
    with pytest.raises(error, match=message):
        build(toy([30, 20]), **setting)


@pytest.mark.parametrize("setting", [{"imbalance": "natural"}, {"imbalance": "step", "rho": 2}])
def test_a_class_without_training_images_is_named(setting):
    with pytest.raises(DataError, match="toy: no training image of class class 1"):
        build(toy([30, 0, 5]), **setting)


# Held out of the source, before it is made imbalanced


def test_held_out_of_the_source_before_it_is_made_imbalanced():
    splits = toy([40, 50, 60, 44])
    made = build(splits, imbalance="step", rho=6, hold_out=10, hold_out_from="source")
    # 30 images are left of the smallest class, so 30 and 5.
    assert made.counts.tolist() == [30, 30, 5, 5]
    assert made.held_out.counts.tolist() == [10] * 4
    assert made.left_out_classes == ()
    parts = [set(numbers(part)) for part in (made.train, made.held_out, made.spare)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 194
    labels = dict(zip(numbers(splits.train), splits.train.labels, strict=True))
    for part in (made.train, made.held_out):
        names = [part.classes[label] for label in part.labels]
        assert names == [f"class {labels[number]}" for number in numbers(part)]


def test_the_smallest_class_gives_as_many_as_the_largest():
    splits = toy([100] * 4)
    inside = build(splits, imbalance="step", rho=50, hold_out=3)
    assert inside.held_out.counts.tolist() == [3, 3, 0, 0]
    outside = build(splits, imbalance="step", rho=48.5, hold_out=3, hold_out_from="source")
    assert outside.held_out.counts.tolist() == [3, 3, 3, 3]
    assert outside.counts.tolist() == [97, 97, 2, 2]


def test_the_natural_set_without_the_held_out_images():
    made = build(toy([10, 6]), imbalance="natural", hold_out=2, hold_out_from="source")
    assert (made.counts.tolist(), made.held_out.counts.tolist()) == ([8, 4], [2, 2])
    assert made.spare is None


def test_nothing_held_out_of_the_source_is_the_usual_set():
    splits = toy([40, 50, 60, 44])
    usual, same = (
        build(splits, imbalance="long_tailed", rho=4, hold_out_from=place) for place in ("training", "source")
    )
    assert usual.split_hash == same.split_hash


def test_the_data_seed_decides_what_is_held_out_of_the_source():
    splits = toy([40, 50, 60, 44])
    made = [
        build(splits, imbalance="step", rho=4, hold_out=5, hold_out_from="source", data_seed=seed) for seed in (0, 0, 1)
    ]
    held = [numbers(part.held_out).tolist() for part in made]
    assert held[0] == held[1] != held[2]


def test_a_source_too_small_to_hold_out_of_is_refused():
    with pytest.raises(ConfigError, match=r"hold_out = 5 from the source leaves no image of class 1; hold out fewer"):
        build(toy([10, 5]), imbalance="natural", hold_out=5, hold_out_from="source")
    with pytest.raises(ConfigError, match="hold_out_from = 'test' received"):
        build(toy([10, 5]), imbalance="natural", hold_out=1, hold_out_from="test")

import numpy as np
import pytest

from procrustean.base import ConfigError, DataError
from procrustean.data import ImageSet, Splits
from procrustean.data.imageset import NO_TEST


def make(labels=(0, 1, 1, 2), classes=("a", "b", "c"), shape=(4, 4, 3), start=0):
    size = (len(labels), *shape)
    pixels = (np.arange(np.prod(size)) + start).astype(np.uint8).reshape(size)
    return ImageSet(pixels, np.array(labels, np.int64), classes)


def test_counts_and_length():
    images = make()
    assert len(images) == 4
    assert images.counts.tolist() == [1, 2, 1]
    assert images.counts.dtype == np.int64


def test_counts_include_classes_without_images():
    assert make(labels=(0, 0), classes=("a", "b", "c")).counts.tolist() == [2, 0, 0]


def test_hash_sees_pixels_labels_names_and_shape():
    base = make()
    others = [
        make(start=1),
        make(labels=(0, 1, 2, 2)),
        make(classes=("a", "b", "d")),
        make(shape=(4, 12, 1)),
        make(shape=(12, 4, 1)),
        base.subset([1, 0, 2, 3]),
    ]
    assert make().hash == base.hash
    assert len({base.hash, *(other.hash for other in others)}) == 7


def test_hash_does_not_depend_on_memory_layout():
    base = make()
    assert ImageSet(np.asfortranarray(base.images), base.labels, base.classes).hash == base.hash


def test_hash_is_the_same_on_every_machine_and_release():
    assert make().hash == "152a8704bf040a51b889046aca1dee1d7fcd9f2fd8016227b5af2c7a08137be8"


def test_hash_of_names_that_are_not_valid_unicode():
    assert make(classes=("a", "b", "\udcff")).hash != make(classes=("a", "b", "\udcfe")).hash


def test_subset_keeps_the_asked_order():
    base = make()
    part = base.subset([3, 0])
    assert part.labels.tolist() == [2, 0]
    assert np.array_equal(part.images, base.images[[3, 0]])
    assert part.classes == base.classes


def test_relabelled_moves_names_with_labels():
    base = make()
    moved = base.relabelled([2, 0, 1])
    assert moved.classes == ("c", "a", "b")
    assert [moved.classes[i] for i in moved.labels] == [base.classes[i] for i in base.labels]
    assert np.array_equal(moved.images, base.images)


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3]])
def test_relabelled_refuses_what_is_not_an_order(order):
    with pytest.raises(ConfigError, match="each of the 3 classes once"):
        make().relabelled(order)


@pytest.mark.parametrize(
    ("images", "labels", "classes", "message"),
    [
        (np.zeros((2, 4, 4, 3)), [0, 1], ("a", "b"), "uint8.*float64"),
        ([[1]], [0], ("a",), "uint8.*list"),
        (np.zeros((2, 4, 4), np.uint8), [0, 1], ("a", "b"), r"got \(2, 4, 4\)"),
        (np.zeros((2, 4, 4, 2), np.uint8), [0, 1], ("a", "b"), "1 or 3 channels"),
        (np.zeros((2, 0, 4, 1), np.uint8), [0, 1], ("a", "b"), r"got \(2, 0, 4, 1\)"),
        (np.zeros((0, 4, 4, 1), np.uint8), [], ("a", "b"), "at least one image"),
        (np.zeros((2, 4, 4, 1), np.uint8), [0], ("a", "b"), r"shape \[2\].*got \[1\]"),
        (np.zeros((2, 4, 4, 1), np.uint8), [0, 2], ("a", "b"), r"0\.\.1 .*got 0\.\.2"),
        (np.zeros((2, 4, 4, 1), np.uint8), [-1, 0], ("a", "b"), r"got -1\.\.0"),
        (np.zeros((2, 4, 4, 1), np.uint8), [0, 1], ["a", "b"], "tuple"),
        (np.zeros((2, 4, 4, 1), np.uint8), [0, 1], ("a", ""), "non-empty names"),
        (np.zeros((2, 4, 4, 1), np.uint8), [0, 1], ("a", "a"), "more than once: a"),
    ],
)
def test_wrong_contents_are_refused(images, labels, classes, message):
    with pytest.raises(DataError, match=message):
        ImageSet(images, np.array(labels, np.int64), classes)


def test_labels_of_another_type_are_refused():
    with pytest.raises(DataError, match=r"int64, got int32.*astype"):
        ImageSet(np.zeros((1, 2, 2, 1), np.uint8), np.zeros(1, np.int32), ("a",))


def test_splits_must_agree_in_classes_and_shape():
    with pytest.raises(DataError, match="toy: the test split has other classes"):
        Splits("toy", make(), make(classes=("a", "b", "x")))
    with pytest.raises(DataError, match="toy: images of the val split are"):
        Splits("toy", make(), make(), make(shape=(5, 4, 3)))


def test_splits_hash_covers_every_split():
    base, other = make(), make(start=9)
    hashes = {Splits("a", *parts).hash for parts in ((base, base), (other, base), (base, other), (base, base, base))}
    assert len(hashes) == 4
    assert Splits("b", base, base, note="n").hash in hashes


def test_images_that_splits_share_are_counted_once():
    train, test, val = make(), make(start=5), make(start=9)
    assert Splits("toy", train, test, val).images_by_class == {"a": 3, "b": 6, "c": 3}
    assert Splits("toy", train, val, make(start=9)).images_by_class == {"a": 2, "b": 4, "c": 2}
    assert Splits("toy", train, train.subset([0, 1]), note=f"{NO_TEST}: from train").images_by_class == {
        "a": 1,
        "b": 2,
        "c": 1,
    }


def test_only_keeps_some_classes_in_the_order_given():
    base = make()
    kept = base.only((base.classes[2], base.classes[0]))
    assert kept.classes == (base.classes[2], base.classes[0])
    expected = [i for i, label in enumerate(base.labels) if label in (0, 2)]
    assert np.array_equal(kept.images, base.images[expected])
    assert kept.labels.tolist() == [0 if base.labels[i] == 2 else 1 for i in expected]
    assert base.only(base.classes).hash == base.hash


def test_only_names_the_split_that_has_no_image_of_the_classes():
    images = np.zeros((4, 2, 2, 1), np.uint8)
    train = ImageSet(images, np.array([0, 1, 2, 2]), ("a", "b", "c"))
    val = ImageSet(images[:1], np.array([2]), ("a", "b", "c"))
    with pytest.raises(DataError, match=r"pets, val split: there is no image of a, b; choose other classes"):
        Splits("pets", train, train, val).only(("a", "b"))


@pytest.mark.parametrize(("classes", "message"), [(("nobody",), "no class 'nobody'"), (("twice",), "name each")])
def test_only_refuses_unknown_and_repeated_classes(classes, message):
    base = make()
    chosen = (base.classes[0],) * 2 if classes == ("twice",) else classes
    with pytest.raises(ConfigError, match=message):
        base.only(chosen)

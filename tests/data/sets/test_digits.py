import numpy as np

from procrustean.data import build, load_source


def test_digits_are_balanced_for_training_and_complete():
    digits = load_source("digits")
    assert digits.train.images.shape == (1000, 8, 8, 1)
    assert digits.train.counts.tolist() == [100] * 10
    assert digits.test.counts.tolist() == [78, 82, 77, 83, 81, 82, 81, 79, 74, 80]
    assert digits.train.classes == tuple("0123456789")
    assert digits.train.images.min() == 0
    assert digits.train.images.max() == 255


def test_digits_are_the_bundled_ones_scaled_to_bytes():
    from sklearn.datasets import load_digits

    bundled, loaded = load_digits(), load_source("digits")
    both = np.concatenate([loaded.train.images, loaded.test.images])[..., 0]
    assert set(np.unique(both)) == {round(level * 255 / 16) for level in range(17)}
    labels = np.concatenate([loaded.train.labels, loaded.test.labels])
    images = sorted((int(y), (x / 255 * 16).round().astype(int).tolist()) for x, y in zip(both, labels, strict=True))
    assert images == sorted(
        (int(y), x.astype(int).tolist()) for x, y in zip(bundled.images, bundled.target, strict=True)
    )


def test_what_is_done_to_digits_reaches_no_others():
    first = load_source("digits")
    before = [array.copy() for images in (first.train, first.test) for array in (images.images, images.labels)]
    for images in (first.train, first.test):
        images.images[:] = 7
        images.labels[:] = 7
    again = load_source("digits")
    after = [array for images in (again.train, again.test) for array in (images.images, images.labels)]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_digits_train_images_are_the_first_of_a_fixed_shuffle():
    from sklearn.datasets import load_digits

    bundled, random = load_digits(), np.random.RandomState(0)
    expected = []
    for digit in range(10):
        positions = np.flatnonzero(bundled.target == digit)
        random.shuffle(positions)
        expected += positions[:100].tolist()
    images = np.rint(bundled.images[expected] * 255 / 16).astype(np.uint8)
    assert np.array_equal(load_source("digits").train.images[..., 0], images)


def test_step_imbalanced_digits():
    built = build(load_source("digits"), imbalance="step", rho=20)
    assert built.counts.tolist() == [100] * 5 + [5] * 5
    assert built.split_hash == "5b505fd9b70936f819254a639be19820fc418b6371649458ebe7851840db11bd"

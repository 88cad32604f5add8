from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from procrustean.base import DataError
from procrustean.engine import class_measures as module
from procrustean.engine import feature_deviation


def data(seed: int, counts: tuple[int, ...], width: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    order = torch.randperm(len(labels), generator=generator)
    features = torch.randn(len(labels), width, generator=generator, dtype=torch.float64) + labels[:, None]
    return features[order], labels[order]


def distance(rows: list[list[float]], centre: list[float]) -> float:
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(mean, centre, strict=True)))


def unit(row: list[float]) -> list[float]:
    length = math.sqrt(sum(v * v for v in row))
    return [v / length for v in row]


def of_class(features: Tensor, labels: Tensor, label: int) -> list[list[float]]:
    return [unit(row) for row, own in zip(features.tolist(), labels.tolist(), strict=True) if own == label]


def reference(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], rounds: int, size: int, seed: int) -> list:
    """The definition with loops over classes, rounds and images, on the same draws."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for label in range(int(train[1].max()) + 1):
        rows, others = of_class(*train, label), of_class(*test, label)
        centre = [sum(column) / len(others) for column in zip(*others, strict=True)]
        distances = []
        if len(rows) == size:
            distances.append(distance(rows, centre))
        else:
            for keys in torch.rand(rounds, len(rows), generator=generator).tolist():
                chosen = sorted(range(len(rows)), key=lambda i: -keys[i])[:size]
                distances.append(distance([rows[i] for i in chosen], centre))
        found.append(sum(distances) / len(distances))
    return found


@pytest.mark.parametrize("size", [None, 1, 2])
def test_it_is_the_definition_with_loops(size: int | None) -> None:
    train, test = data(0, (9, 7, 3)), data(1, (4, 6, 5))
    found = feature_deviation(*train, *test, rounds=20, size=size, generator=torch.Generator().manual_seed(3))
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(reference(train, test, 20, size or 3, 3), rel=1e-12)


@pytest.mark.parametrize("kind", [torch.uint8, torch.uint16, torch.int32])
def test_labels_of_any_integers(kind: torch.dtype) -> None:
    (train, train_labels), (test, test_labels) = data(0, (9, 7, 3)), data(1, (4, 6, 5))
    wanted = feature_deviation(train, train_labels, test, test_labels)
    assert feature_deviation(train, train_labels.to(kind), test, test_labels.to(kind)).equal(wanted)


def test_many_rounds_come_to_the_mean_over_all_samples() -> None:
    train, test = data(2, (6, 3)), data(3, (5, 5))
    rows, others = of_class(*train, 0), of_class(*test, 0)
    centre = [sum(column) / len(others) for column in zip(*others, strict=True)]
    every = [distance(list(chosen), centre) for chosen in itertools.combinations(rows, 3)]
    found = feature_deviation(*train, *test, rounds=20_000)
    assert found[0].item() == pytest.approx(sum(every) / len(every), rel=5e-3)


def test_distances_are_averaged_not_means() -> None:
    """One image at a time on both sides of the centre: their mean lies on it, each of them does not."""
    angle = 0.3
    train = torch.tensor([[math.cos(angle), math.sin(angle)], [math.cos(angle), -math.sin(angle)], [0.0, 1.0]])
    test = torch.tensor([[math.cos(angle), 0.0], [0.0, 1.0]])
    labels = torch.tensor([0, 0, 1])
    found = feature_deviation(train, labels, test, torch.tensor([0, 1]), size=1)
    assert found.tolist() == pytest.approx([2 * math.sin(angle / 2), 0.0], abs=1e-6)


def test_features_are_scaled_to_unit_length_but_their_means_are_not() -> None:
    train = torch.tensor([[10.0, 0.0], [0.0, 0.1]])
    test = torch.tensor([[5.0, 0.0], [0.0, 7.0]])
    zero = torch.zeros(2, dtype=torch.int64)
    assert feature_deviation(train, zero, test, zero).item() == pytest.approx(0.0, abs=1e-7)
    assert feature_deviation(train, zero, -test, zero).item() == pytest.approx(math.sqrt(2))


def test_large_classes_are_worked_off_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = data(4, (40, 5)), data(5, (8, 8))
    whole = feature_deviation(*train, *test, rounds=33, generator=torch.Generator().manual_seed(0))
    monkeypatch.setattr(module, "LARGEST_PART", 400)
    parts = feature_deviation(*train, *test, rounds=33, generator=torch.Generator().manual_seed(0))
    assert parts.tolist() == pytest.approx(whole.tolist(), rel=1e-12)


def test_it_repeats_itself_and_leaves_the_global_generator_alone() -> None:
    train, test = data(6, (30, 4)), data(7, (8, 8))
    state = torch.get_rng_state()
    first, second = (feature_deviation(*train, *test, rounds=10) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)


def test_arrays_are_as_good_as_tensors() -> None:
    given = (*data(0, (6, 3)), *data(1, (3, 3)))
    assert torch.equal(feature_deviation(*(part.numpy() for part in given)), feature_deviation(*given))


def test_a_class_missing_from_one_set_has_no_deviation() -> None:
    (train, labels), (test, others) = data(8, (6, 4, 5)), data(9, (5, 0, 4, 3))
    found = feature_deviation(train, labels, test, others)
    assert torch.isnan(found).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 4}, "size = 4 received; the smallest class allows 1 to 3"),
        ({"size": 0}, "size = 0"),
    ],
)
def test_what_cannot_be_is_refused(change: dict, message: str) -> None:
    (train, labels), (test, others) = data(0, (6, 3)), data(1, (3, 3))
    arguments = {"train_features": train, "train_labels": labels, "test_features": test, "test_labels": others}
    with pytest.raises(DataError, match=message):
        feature_deviation(**{**arguments, **change})

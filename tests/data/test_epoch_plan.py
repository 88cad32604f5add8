"""The plan of an epoch: permutations, partners, offsets, and what it depends on."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from procrustean.base import Stream
from procrustean.data import EpochPlanner
from procrustean.data.augment.settings import Augmentation
from procrustean.data.epoch_plan import Arrays

LABELS = np.arange(53, dtype=np.int64) % 4


def planner(
    images: int = 53, batch_size: int = 8, *, padding: int = 4, flip: bool = True, **changes: object
) -> EpochPlanner:
    augmentation = Augmentation((32, 32), (32, 32), (32, 32), padding=padding, window=True, flip=flip)
    settings: dict[str, object] = {"draws": {"mfw": (), "mask": (3,)}, **changes}
    return EpochPlanner(np.resize(LABELS, images), batch_size, augmentation, **settings)  # type: ignore[arg-type]


def equal(a: Arrays, b: Arrays) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def batches_of(values: npt.NDArray[np.int64], size: int) -> list[npt.NDArray[np.int64]]:
    return [values[start : start + size] for start in range(0, len(values), size)]


@given(images=st.integers(1, 200), batch_size=st.integers(1, 70), seed=st.integers(0, 2**32))
def test_images_once_and_partners_within_the_batch(images: int, batch_size: int, seed: int) -> None:
    plan = planner(images, batch_size).draw(seed, 0, 0)
    assert sorted(plan["index"].tolist()) == list(range(images))
    partners, inverses = batches_of(plan["partner"], batch_size), batches_of(plan["inverse"], batch_size)
    for partner, inverse in zip(partners, inverses, strict=True):
        assert sorted(partner.tolist()) == list(range(len(partner)))
        assert np.array_equal(partner[inverse], np.arange(len(partner)))
        assert np.array_equal(inverse[partner], np.arange(len(partner)))


@pytest.mark.parametrize(
    ("images", "batch_size", "steps", "full_steps"),
    [(53, 8, 7, 6), (56, 8, 7, 7), (5, 8, 1, 0), (8, 8, 1, 1), (1, 1, 1, 1), (129, 128, 2, 1)],
)
def test_the_incomplete_last_batch_is_kept(images: int, batch_size: int, steps: int, full_steps: int) -> None:
    made = planner(images, batch_size)
    assert (made.images, made.steps, made.full_steps) == (images, steps, full_steps)
    assert all(len(values) == images for values in made.draw(0, 0, 0).values())


def test_names_types_and_shapes() -> None:
    plan = planner().draw(0, 0, 0)
    shapes = {name: (values.dtype.name, values.shape) for name, values in plan.items()}
    assert shapes == {
        "index": ("int64", (53,)),
        "partner": ("int64", (53,)),
        "inverse": ("int64", (53,)),
        "top": ("int64", (53,)),
        "left": ("int64", (53,)),
        "flip": ("bool", (53,)),
        "u.mfw": ("float32", (53,)),
        "u.mask": ("float32", (53, 3)),
    }


def test_offsets_flips_and_uniforms_in_range() -> None:
    plan = planner(4000, 100).draw(3, 0, 0)
    for side in ("top", "left"):
        found = np.bincount(plan[side])
        assert len(found) == 9
        assert found.min() > 350
    assert not np.array_equal(plan["top"], plan["left"])
    assert 0.46 < plan["flip"].mean() < 0.54
    assert 0 <= plan["u.mfw"].min() < plan["u.mfw"].max() < 1


def test_partners_differ_between_batches() -> None:
    rows = batches_of(planner(800, 8).draw(0, 0, 0)["partner"], 8)
    assert len({tuple(row) for row in rows}) > 95


def test_what_is_not_needed_is_not_drawn() -> None:
    plan = planner(padding=0, flip=False, draws={}).draw(0, 0, 0)
    assert list(plan) == ["index", "partner", "inverse"]


def test_the_same_place_gives_the_same_plan() -> None:
    assert equal(planner().draw(1, 2, 3), planner().draw(1, 2, 3))


@pytest.mark.parametrize("place", [(2, 0, 0), (1, 1, 0), (1, 0, 1)])
def test_other_seeds_stages_and_epochs_differ_in_everything(place: tuple[int, int, int]) -> None:
    one, other = planner().draw(1, 0, 0), planner().draw(*place)
    for name in one:
        assert not np.array_equal(one[name], other[name]), name


def test_drawing_ahead_or_again_makes_no_difference() -> None:
    made = planner()
    wanted = made.draw(0, 0, 5)
    for epoch in (7, 0, 3):
        made.draw(0, 0, epoch)
    assert equal(made.draw(0, 0, 5), wanted)


@pytest.mark.parametrize(
    "changes", [{"draws": {"mfw": (), "more": (2,)}}, {"padding": 0}, {"flip": False}, {"draws": {}}]
)
def test_one_purpose_does_not_disturb_another(changes: dict[str, Any]) -> None:
    one, other = planner().draw(0, 0, 0), planner(**changes).draw(0, 0, 0)
    shared = one.keys() & other.keys()
    assert {"index", "partner", "inverse"} <= shared
    for name in shared:
        assert np.array_equal(one[name], other[name]), name


def test_the_order_does_not_depend_on_the_batch_size() -> None:
    one, other = planner(batch_size=8).draw(0, 0, 0), planner(batch_size=16).draw(0, 0, 0)
    for name in one.keys() - {"partner", "inverse"}:
        assert np.array_equal(one[name], other[name]), name


def test_a_sampler_chooses_the_images() -> None:
    def only_the_last_class(labels: npt.NDArray[np.int64], count: int, stream: Stream) -> npt.NDArray[np.int64]:
        members = np.flatnonzero(labels == 3)
        return members[stream.integers(len(members), count)]

    plan = planner(sampler=only_the_last_class).draw(0, 0, 0)
    assert plan["index"].shape == (53,)
    assert set(LABELS[plan["index"]].tolist()) == {3}
    assert np.array_equal(plan["partner"], planner().draw(0, 0, 0)["partner"])
    assert np.array_equal(plan["index"], planner(sampler=only_the_last_class).draw(0, 0, 0)["index"])

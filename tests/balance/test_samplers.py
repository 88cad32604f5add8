"""Samplers: what they draw, how ranks share it, how it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from procrustean.balance import effective_number, samplers
from procrustean.balance.samplers import ClassBalancedSampler, EpochSampler
from procrustean.base import ConfigError, DataError, Stream
from procrustean.data import EpochPlanner, make_augmentation

C10_LONG_TAILED = (5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50)
COUNTS = (60, 25, 10, 3, 2)
LABELS = np.random.RandomState(0).permutation(np.repeat(np.arange(5), COUNTS))

DRAWS: dict[str, Callable[..., Any]] = {
    "class_balanced": samplers.class_balanced,
    "reversed_frequency": samplers.reversed_frequency,
    "power": samplers.by_power,
    "effective_number": samplers.by_effective_number,
    "class_aware": samplers.class_aware,
    "class_aware of 3": partial(samplers.class_aware, per_class=3),
}
Kind = Callable[..., EpochSampler]
CLASSES: dict[Kind, Callable[..., Any]] = {
    ClassBalancedSampler: samplers.class_balanced,
    **{partial(EpochSampler, draw=draw): draw for draw in list(DRAWS.values())[1:]},
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))
every_sampler = pytest.mark.parametrize("kind", CLASSES, ids=list(DRAWS))


def stream(seed: int = 0) -> Stream:
    return Stream(seed, "test")


class TestDraws:
    @pytest.mark.parametrize(
        ("draw", "weight"),
        [
            (samplers.class_balanced, lambda n: 1.0),
            (samplers.reversed_frequency, lambda n: 1 / n),
            (samplers.by_power, lambda n: n**0.5),
            (partial(samplers.by_power, exponent=1.0), lambda n: n),
            (samplers.by_effective_number, lambda n: n * (1 - 0.9999) / (1 - 0.9999**n)),
            (partial(samplers.by_effective_number, beta=0.9), lambda n: n * (1 - 0.9) / (1 - 0.9**n)),
            (samplers.class_aware, lambda n: 1.0),
        ],
    )
    def test_how_often_classes_and_images_come(self, draw: Callable[..., Any], weight: Callable[[int], float]) -> None:
        size = 60_000
        shown = np.bincount(draw(LABELS, size, stream()), minlength=100) / size
        total = sum(weight(n) for n in COUNTS)
        for label, n in enumerate(COUNTS):
            wanted = weight(n) / total
            assert shown[LABELS == label].sum() == pytest.approx(wanted, abs=0.008)
            # Within the class all images alike: five standard deviations of a count.
            each = wanted / n
            assert np.abs(shown[LABELS == label] - each).max() < 5 * (each / size) ** 0.5

    def test_reversed_probabilities_of_the_long_tail(self) -> None:
        labels = np.repeat(np.arange(10), C10_LONG_TAILED)
        wanted = [0.00402, 0.00671, 0.01120, 0.01868, 0.03119, 0.05199, 0.08672, 0.14474, 0.24239, 0.40236]
        size = 200_000
        drawn = labels[samplers.reversed_frequency(labels, size, stream())]
        np.testing.assert_allclose(np.bincount(drawn) / size, wanted, atol=0.005)

    def test_limits(self) -> None:
        def drawn(draw: Callable[..., Any], **options: float) -> list[int]:
            found: list[int] = draw(LABELS, 500, stream(), **options).tolist()
            return found

        assert drawn(samplers.by_power, exponent=0.0) == drawn(samplers.class_balanced)
        assert drawn(samplers.by_power, exponent=-1.0) == drawn(samplers.reversed_frequency)
        assert drawn(samplers.by_effective_number, beta=0.0) == drawn(samplers.by_power, exponent=1.0)
        # Weights of float32: a draw next to a border may fall on its other side.
        near = np.array(drawn(samplers.by_effective_number, beta=1 - 1e-12))
        assert (near != np.array(drawn(samplers.class_balanced))).sum() <= 1

    def test_the_weight_of_an_image_is_that_of_the_loss(self) -> None:
        share = np.array(COUNTS) * effective_number(COUNTS, 0.9).numpy()
        drawn = LABELS[samplers.by_effective_number(LABELS, 60_000, stream(), beta=0.9)]
        np.testing.assert_allclose(np.bincount(drawn) / 60_000, share / share.sum(), atol=0.008)

    @every_draw
    @given(st.integers(0, 70), st.integers(0, 70), st.integers(0, 2**63))
    def test_a_longer_draw_begins_with_the_shorter_one(
        self, draw: Callable[..., Any], first: int, more: int, seed: int
    ) -> None:
        short, long = draw(LABELS, first, stream(seed)), draw(LABELS, first + more, stream(seed))
        assert len(short) == first
        assert len(long) == first + more
        assert np.array_equal(long[:first], short)

    @every_draw
    def test_nothing_but_the_stream_decides(self, draw: Callable[..., Any]) -> None:
        np.random.seed(1)
        first = draw(LABELS, 50, stream())
        np.random.seed(2)
        assert np.array_equal(draw(LABELS, 50, stream()), first)
        assert not np.array_equal(draw(LABELS, 50, stream(1)), first)
        assert first.dtype == np.int64

    @every_draw
    def test_gaps_in_the_labels(self, draw: Callable[..., Any]) -> None:
        assert np.array_equal(draw(LABELS, 50, stream()), draw(LABELS * 3 + 2, 50, stream()))

    @every_draw
    def test_a_training_stage_can_use_it(self, draw: Callable[..., Any]) -> None:
        planner = EpochPlanner(
            LABELS, batch_size=16, augmentation=make_augmentation("none", stored=(8, 8), channels=1), sampler=draw
        )
        plans = [planner.draw(0, 0, epoch)["index"] for epoch in (0, 0, 1)]
        assert np.array_equal(plans[0], plans[1])
        assert not np.array_equal(plans[0], plans[2])
        assert np.array_equal(plans[0], draw(LABELS, 100, Stream(0, "order", 0, 0)))

    def test_options_out_of_range(self) -> None:
        with pytest.raises(ConfigError, match="effective numbers need 0 <= beta < 1"):
            samplers.by_effective_number(LABELS, 5, stream(), beta=1.0)
        with pytest.raises(ConfigError, match="exponent = nan received"):
            samplers.by_power(LABELS, 5, stream(), exponent=float("nan"))
        with pytest.raises(ConfigError, match="per_class = 0 received"):
            samplers.class_aware(LABELS, 5, stream(), per_class=0)


class TestClassAware:
    def test_runs_of_four_of_a_class_and_every_class_once_in_a_round(self) -> None:
        rounds = LABELS[samplers.class_aware(LABELS, 4 * 5 * 30, stream())].reshape(30, 5, 4)
        assert bool((rounds == rounds[:, :, :1]).all())
        assert bool((np.sort(rounds[:, :, 0], axis=1) == np.arange(5)).all())
        assert len({tuple(row) for row in rounds[:, :, 0]}) > 10  # in another order every time

    def test_every_image_of_a_class_once_in_a_cycle(self) -> None:
        drawn = samplers.class_aware(LABELS, 4 * 5 * 30, stream())
        for label, n in enumerate(COUNTS):
            shown = drawn[LABELS[drawn] == label]
            assert len(shown) == 120
            cycles = shown[: 120 // n * n].reshape(-1, n)
            assert bool((np.sort(cycles, axis=1) == np.flatnonzero(LABELS == label)).all())
            if 2 < n < 60:
                assert len({tuple(cycle) for cycle in cycles}) > 1

    def test_a_small_class_repeats_images_inside_a_run(self) -> None:
        drawn = samplers.class_aware(LABELS, 4 * 5, stream()).reshape(5, 4)
        (run,) = (row for row in drawn if LABELS[row[0]] == 4)
        assert sorted(Counter(run.tolist()).values()) == [2, 2]

    def test_the_last_run_is_cut(self) -> None:
        assert len(samplers.class_aware(LABELS, 7, stream())) == 7


class TestEpochs:
    @every_sampler
    def test_it_is_the_draw_of_seed_and_epoch(self, kind: Kind) -> None:
        sampler = kind(LABELS, seed=3)
        sampler.set_epoch(5)
        found = list(sampler)
        assert found == CLASSES[kind](LABELS, 100, Stream(3, "sampler", 5)).tolist()
        assert list(sampler) == found  # again, from the beginning
        assert len(sampler) == len(found) == 100
        assert all(type(index) is int for index in found)

    @every_sampler
    def test_epochs_and_seeds_differ(self, kind: Kind) -> None:
        draws = set()
        for seed in (0, 1):
            sampler = kind(LABELS, seed=seed)
            for epoch in (0, 1):
                sampler.set_epoch(epoch)
                draws.add(tuple(sampler))
        assert len(draws) == 4

    @every_sampler
    def test_global_generators_are_left_alone(self, kind: Kind) -> None:
        np.random.seed(0)
        before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()
        list(kind(LABELS))
        assert torch.equal(torch.get_rng_state(), before)
        assert np.array_equal(np.random.get_state()[1], before_numpy)

    @pytest.mark.parametrize("labels", [LABELS.tolist(), torch.tensor(LABELS), LABELS.astype(np.uint8)])
    def test_labels_of_other_kinds(self, labels: Any) -> None:
        assert list(ClassBalancedSampler(labels)) == list(ClassBalancedSampler(LABELS))

    def test_a_data_loader_takes_it(self) -> None:
        sampler = ClassBalancedSampler(LABELS, count=50)
        loader = DataLoader(TensorDataset(torch.arange(100)), batch_size=16, sampler=sampler)
        assert len(loader) == 4
        batches = [x.tolist() for (x,) in loader]
        assert [len(batch) for batch in batches] == [16, 16, 16, 2]
        assert [index for batch in batches for index in batch] == list(sampler)


class TestRanks:
    @every_sampler
    @pytest.mark.parametrize("count", [100, 97, 3])
    @pytest.mark.parametrize("world", [2, 3, 8])
    def test_all_world_sizes_share_one_sequence(self, kind: Kind, count: int, world: int) -> None:
        alone = kind(LABELS, count=count, seed=1, rank=0, world_size=1)
        ranks = [kind(LABELS, count=count, seed=1, rank=rank, world_size=world) for rank in range(world)]
        for sampler in (alone, *ranks):
            sampler.set_epoch(4)
        parts = [list(sampler) for sampler in ranks]
        assert {len(part) for part in parts} == {len(sampler) for sampler in ranks} == {-(-count // world)}
        together = [index for step in zip(*parts, strict=True) for index in step]
        assert together[:count] == list(alone)
        # What fills the last step up is the sequence going on, not its beginning again.
        assert together == CLASSES[kind](LABELS, len(together), Stream(1, "sampler", 4)).tolist()

    def test_a_global_batch_is_the_same_for_two_ranks_as_for_one(self) -> None:
        alone = list(ClassBalancedSampler(LABELS))
        first, second = (list(ClassBalancedSampler(LABELS, rank=rank, world_size=2)) for rank in (0, 1))
        for step in range(5):
            ours = first[10 * step : 10 * step + 10] + second[10 * step : 10 * step + 10]
            assert sorted(ours) == sorted(alone[20 * step : 20 * step + 20])

    def test_alone_without_torch_distributed(self) -> None:
        sampler = ClassBalancedSampler(LABELS)
        assert (sampler.rank, sampler.num_replicas) == (0, 1)

    def test_the_place_is_that_of_the_moment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sampler, alone = ClassBalancedSampler(LABELS), list(ClassBalancedSampler(LABELS))
        for name, answer in {"is_initialized": True, "get_rank": 1, "get_world_size": 4}.items():
            monkeypatch.setattr(torch.distributed, name, lambda answer=answer: answer)
        assert len(sampler) == 25
        assert list(sampler) == alone[1::4]

    @pytest.mark.slow
    def test_two_processes(self, tmp_path: Path) -> None:
        code = """
import json, sys
import torch, torch.distributed as dist
from procrustean.balance import ClassBalancedSampler
rank, labels = int(sys.argv[1]), json.loads(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
sampler = ClassBalancedSampler(labels, count=97, seed=1)
sampler.set_epoch(4)
mine = torch.tensor(list(sampler))
parts = [torch.empty_like(mine) for _ in range(2)]
dist.all_gather(parts, mine)
print(json.dumps({"place": [sampler.rank, sampler.num_replicas], "parts": [p.tolist() for p in parts]}))
dist.destroy_process_group()
"""
        arguments = [str(tmp_path / "store"), json.dumps(LABELS.tolist())]
        running = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(rank), *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        answers = []
        for process in running:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            answers.append(json.loads(out.splitlines()[-1]))
        assert [answer["place"] for answer in answers] == [[0, 2], [1, 2]]
        assert answers[0]["parts"] == answers[1]["parts"]
        together = [index for step in zip(*answers[0]["parts"], strict=True) for index in step]
        alone = ClassBalancedSampler(LABELS, count=97, seed=1)
        alone.set_epoch(4)
        assert together[:97] == list(alone)
        assert len(together) == 98


class TestResuming:
    @every_sampler
    @pytest.mark.parametrize("world", [1, 2, 3])
    def test_in_the_middle_of_an_epoch(self, kind: Kind, world: int) -> None:
        for rank in range(world):
            place = {"rank": rank, "world_size": world}
            sampler = kind(LABELS, seed=2, **place)
            sampler.set_epoch(3)
            whole = list(sampler)
            shown = list(islice(iter(sampler), 11))
            state = json.loads(json.dumps(sampler.state_dict()))
            assert state["position"] == 11 * world
            other = kind(LABELS, seed=2, **place)
            other.load_state_dict(state)
            assert other.epoch == 3
            assert len(other) == len(whole) - 11
            other.set_epoch(3)  # as a loop over the remaining epochs would
            assert shown + list(other) == whole
            other.set_epoch(4)
            assert len(other) == len(whole)
            sampler.set_epoch(4)
            assert list(other) == list(sampler)

    @every_sampler
    @pytest.mark.parametrize(("before", "after"), [(4, 1), (1, 4), (2, 3), (3, 2)])
    def test_on_another_number_of_processes(self, kind: Kind, before: int, after: int) -> None:
        whole = list(kind(LABELS, count=91))
        old = [kind(LABELS, count=91, rank=rank, world_size=before) for rank in range(before)]
        steps = [list(islice(iter(sampler), 7)) for sampler in old]
        shown = [index for step in zip(*steps, strict=True) for index in step]
        new = [kind(LABELS, count=91, rank=rank, world_size=after) for rank in range(after)]
        for sampler in new:
            sampler.load_state_dict(old[0].state_dict())
        parts = [list(sampler) for sampler in new]
        assert len({len(part) for part in parts}) == 1
        rest = [index for step in zip(*parts, strict=True) for index in step]
        assert (shown + rest)[:91] == whole
        assert len(shown) + len(rest) < 91 + after

    def test_from_a_given_image_on(self) -> None:
        sampler = ClassBalancedSampler(LABELS)
        whole = list(sampler)
        sampler.set_epoch(0, start=64)
        assert list(sampler) == whole[64:]
        assert list(sampler) == whole[64:]
        sampler.set_epoch(0, start=0)
        assert list(sampler) == whole
        assert sampler.state_dict()["position"] == 100

    def test_a_finished_epoch_has_nothing_left(self) -> None:
        sampler = ClassBalancedSampler(LABELS, rank=1, world_size=3)
        list(sampler)
        other = ClassBalancedSampler(LABELS, rank=1, world_size=3)
        other.load_state_dict(sampler.state_dict())
        assert len(other) == 0
        assert list(other) == []

    @pytest.mark.parametrize("options", [{"seed": 1}, {"count": 50}])
    def test_a_state_of_another_draw(self, options: dict[str, int]) -> None:
        (name,) = options
        with pytest.raises(ConfigError, match=f"a state with {name} .* it would go on with other images"):
            ClassBalancedSampler(LABELS).load_state_dict(ClassBalancedSampler(LABELS, **options).state_dict())

    def test_a_state_with_numbers_of_numpy(self) -> None:
        sampler = ClassBalancedSampler(LABELS, seed=np.int64(3), count=np.int64(50))
        other = ClassBalancedSampler(LABELS, seed=3, count=50)
        other.load_state_dict(sampler.state_dict())
        assert list(other) == list(sampler)

    def test_an_epoch_of_numpy_has_the_same_images(self) -> None:
        sampler, other = ClassBalancedSampler(LABELS), ClassBalancedSampler(LABELS)
        sampler.set_epoch(np.int64(3), np.int64(5))
        other.set_epoch(3, 5)
        assert list(sampler) == list(other)


class TestRefusals:
    @pytest.mark.parametrize("options", [{"seed": 1.5}, {"seed": None}, {"count": 2.5}, {"count": "3"}])
    def test_what_is_no_whole_number(self, options: dict[str, Any]) -> None:
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            ClassBalancedSampler(LABELS, **options)

    @pytest.mark.parametrize("labels", [[], [[0, 1]], [0.0, 1.0], [0, -1], torch.zeros(3)])
    def test_labels(self, labels: Any) -> None:
        with pytest.raises(DataError, match="give the class of every image"):
            ClassBalancedSampler(labels)

    def test_one_class(self) -> None:
        with pytest.raises(DataError, match="imbalance needs at least two classes"):
            ClassBalancedSampler([0, 0, 0])

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"rank": 0}, "give both or neither"),
            ({"world_size": 2}, "give both or neither"),
            ({"rank": 2, "world_size": 2}, "ranks count from 0 to world_size - 1"),
            ({"rank": -1, "world_size": 2}, "ranks count from 0 to world_size - 1"),
            ({"count": 0}, "count = 0 received; an epoch has at least one image"),
        ],
    )
    def test_places(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            ClassBalancedSampler(LABELS, **options)

    def test_wrong_options_are_refused_at_once(self) -> None:
        with pytest.raises(ConfigError, match="effective numbers need"):
            EpochSampler(LABELS, partial(samplers.by_effective_number, beta=2.0))

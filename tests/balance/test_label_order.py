"""Counts that stand in another order than the labels are noticed by the labels, and nothing else is taken for that."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from procrustean import DRW, MFW

COUNTS = (500, 400, 20, 10)
STEP = (300,) * 5 + (15,) * 5


def shuffled(counts: Sequence[int]) -> Tensor:
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return labels[torch.randperm(len(labels))]


def told(action: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(warning.message) for warning in caught if "run against the counts" in str(warning.message)]


def told_in_training(mfw: MFW, labels: Tensor) -> list[str]:
    """What is said while the labels come by in batches."""
    return told(lambda: [mfw(torch.zeros(len(batch), 1), batch) for batch in labels.split(32)])


@pytest.mark.parametrize("counts", [COUNTS, (900, 100), (5000, 1600, 500, 160, 50), STEP])
def test_reversed_counts_are_told_once(counts: tuple[int, ...]) -> None:
    mfw, labels = MFW(counts[::-1]), shuffled(counts)
    (said,) = told_in_training(mfw, labels)
    assert "Give the counts in the order of the labels, as procrustean.class_counts(labels) does" in said
    assert told_in_training(mfw, labels) == []


@pytest.mark.parametrize("wrong", [(20, 400, 500, 10), (400, 20, 10, 500), (500, 10, 400, 20)])
def test_any_other_order_is_told_after_an_epoch(wrong: tuple[int, ...]) -> None:
    (said,) = told_in_training(MFW(wrong), shuffled(COUNTS))
    assert "of 930 labels" in said


def test_a_swap_of_small_classes_hardly_matters() -> None:
    assert told_in_training(MFW((500, 400, 10, 20)), shuffled(COUNTS)) == []


def test_the_evidence_is_named_and_comes_early() -> None:
    (said,) = told_in_training(MFW(COUNTS[::-1]), shuffled(COUNTS)[:512])
    assert re.search(r"of 512 labels \d+ were of class 0, which has 10 images by its count", said)


STREAMS: dict[str, Callable[[Sequence[int]], Tensor]] = {
    "as counted": lambda counts: torch.cat([shuffled(counts) for _ in range(3)]),
    "balanced by chance": lambda counts: torch.randint(len(counts), (3 * sum(counts),)),
    "balanced exactly": lambda counts: shuffled([sum(counts)] * len(counts)),
    "drawn with replacement": lambda counts: torch.multinomial(
        torch.tensor(counts).double(), 3 * sum(counts), replacement=True
    ),
    "half balanced": lambda counts: torch.multinomial(torch.tensor(counts).sqrt(), 3 * sum(counts), replacement=True),
    "sorted, small classes first": lambda counts: shuffled(counts).sort(descending=True).values.repeat(3),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("counts", [COUNTS, (900, 100), (60, 40), STEP, (5000, 1600, 500, 160)])
def test_other_streams_are_not(counts: tuple[int, ...], stream: Callable[[Sequence[int]], Tensor]) -> None:
    assert told_in_training(MFW(counts), stream(counts)) == []


def few_classes_a_batch(counts: Sequence[int], classes: int, images: int) -> Tensor:
    """Batches of a few classes, drawn equally often, and as many images of each."""
    batches = sum(counts) // (classes * images)
    chosen = [torch.randperm(len(counts))[:classes] for _ in range(batches)]
    return torch.cat(chosen).repeat_interleave(images)


@pytest.mark.parametrize(("classes", "images"), [(2, 16), (4, 8)])
def test_batches_of_a_few_classes_are_no_evidence(classes: int, images: int) -> None:
    counts = [int(2000 * 100 ** (-c / 9)) for c in range(10)]
    torch.manual_seed(0)
    for _ in range(40):
        assert told_in_training(MFW(counts), few_classes_a_batch(counts, classes, images)) == []


def test_labels_of_a_handle_are_told_at_the_line_that_gives_them() -> None:
    model = nn.Sequential(nn.Linear(1, 1))
    handle = MFW(COUNTS[::-1]).attach(model, "0")
    with pytest.warns(UserWarning, match="run against the counts") as caught, handle(shuffled(COUNTS)):
        model(torch.zeros(sum(COUNTS), 1))
    assert [warning.filename for warning in caught] == [__file__]


def test_where_nothing_is_tallied() -> None:
    labels, wrong = shuffled(COUNTS), COUNTS[::-1]
    assert told_in_training(MFW(wrong).eval(), labels) == []
    assert told_in_training(MFW(wrong, strength=[0.0, 0.0, 0.25, 0.25]), labels) == []  # not from the counts
    assert told_in_training(MFW(wrong), F.one_hot(labels).float()) == []
    assert told(lambda: MFW(wrong).sample(labels)) == []  # a draw is no training: diagnoses look at chosen classes


def test_a_compiled_step_reads_no_labels() -> None:
    torch._dynamo.reset()
    step, labels = torch.compile(MFW(COUNTS[::-1]), backend="eager", fullgraph=True), shuffled(COUNTS)[:32]
    with torch._dynamo.config.patch(error_on_recompile=True):
        assert told(lambda: [step(torch.zeros(32, 1), labels) for _ in range(9)]) == []


def test_a_copy_goes_on_with_the_tally() -> None:
    mfw, labels = MFW(COUNTS[::-1]), shuffled(COUNTS)
    assert told_in_training(mfw, labels[:480]) == []
    twin = pickle.loads(pickle.dumps(copy.deepcopy(mfw)))
    with pytest.warns(UserWarning, match="of 512 labels"):
        twin(torch.zeros(32, 1), labels[480:512])


def test_pickles_of_earlier_versions_train() -> None:
    mfw, drw = MFW(COUNTS), DRW(COUNTS, 5)
    del mfw._order  # they did not have it
    mfw(torch.zeros(4, 1), torch.arange(4))
    assert "_asked" not in vars(drw)
    drw(0)


def test_another_default_device_does_not_matter() -> None:
    with torch.device("meta"):
        mfw = MFW(COUNTS[::-1])
    with pytest.warns(UserWarning, match="run against the counts"):
        mfw.watch_order(shuffled(COUNTS))


@pytest.mark.gpu
def test_labels_on_a_gpu_are_left_alone() -> None:
    mfw, labels = MFW(COUNTS[::-1]).cuda(), shuffled(COUNTS).cuda()
    assert told(lambda: [mfw(torch.zeros(len(batch), 1, device="cuda"), batch) for batch in labels.split(32)]) == []

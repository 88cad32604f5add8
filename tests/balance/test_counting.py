"""Class counts from everything that holds labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from procrustean import MFW, class_counts
from procrustean.base import DataError
from procrustean.data import load_source

LABELS = [0, 2, 0, 1, 0, 1, 0, 0]
COUNTS = (5, 2, 1)


class Targets(Dataset[tuple[Tensor, int]]):
    """A data set as torchvision writes them: the labels can be read without the images."""

    def __init__(self, attribute: str = "targets") -> None:
        setattr(self, attribute, list(LABELS))

    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        raise AssertionError("an image was loaded")


class Pairs(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return len(LABELS)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.zeros(1), LABELS[index]


class Mappings(Pairs):
    def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]
        return {"pixels": torch.zeros(1), "label": torch.tensor(LABELS[index])}


class Stream(IterableDataset[tuple[Tensor, int]]):
    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return ((torch.zeros(1), label) for label in LABELS)


class OneHot(Pairs):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return torch.zeros(1, 2, 2), F.one_hot(torch.tensor(LABELS[index]), 3)


class SeveralLabels(Pairs):
    def __getitem__(self, index: int) -> tuple[Tensor, list[int]]:  # type: ignore[override]
        return torch.zeros(3, 2, 2), [0, 1, 0]


class OneHotStream(IterableDataset[tuple[Tensor, Tensor]]):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return (OneHot()[index] for index in range(len(LABELS)))


def tensors() -> TensorDataset:
    return TensorDataset(torch.zeros(8, 1), torch.tensor(LABELS))


@pytest.mark.parametrize(
    "make",
    [
        lambda: LABELS,
        lambda: tuple(LABELS),
        lambda: np.array(LABELS, np.uint8),
        lambda: torch.tensor(LABELS),
        lambda: torch.tensor(LABELS, dtype=torch.int32),
        lambda: iter(LABELS),
        Targets,
        lambda: Targets("labels"),
        Pairs,
        Mappings,
        Stream,
        tensors,
        lambda: TensorDataset(torch.tensor(LABELS)),
        lambda: TensorDataset(torch.zeros(8, 1), torch.tensor(LABELS), torch.arange(8)),
        lambda: DataLoader(TensorDataset(torch.zeros(8, 1), torch.tensor(LABELS), torch.arange(8)), batch_size=3),
        lambda: pd.Series(LABELS),
        lambda: pd.DataFrame({"file": "x", "target": LABELS}),
        lambda: DataLoader(tensors(), batch_size=3, shuffle=True),
        lambda: DataLoader(Targets(), batch_size=3),
        lambda: DataLoader(Stream(), batch_size=3),
        lambda: DataLoader(Stream(), batch_size=None),
        lambda: [(torch.zeros(1), label) for label in LABELS],
        lambda: ConcatDataset([Subset(tensors(), range(3)), Subset(Targets(), range(3, 8))]),
    ],
)
def test_the_same_counts_from_everything(make: Callable[[], Any]) -> None:
    assert class_counts(make()) == COUNTS


@pytest.mark.parametrize(
    "make",
    [
        OneHot,
        SeveralLabels,
        OneHotStream,
        lambda: Subset(OneHot(), range(3)),
        lambda: DataLoader(OneHot(), batch_size=3),
        lambda: DataLoader(SeveralLabels(), batch_size=3),
        lambda: DataLoader(OneHotStream(), batch_size=3),
        lambda: DataLoader(OneHotStream(), batch_size=None),
        lambda: list(DataLoader(OneHot(), batch_size=1)),
        lambda: list(DataLoader(SeveralLabels(), batch_size=2)),
        lambda: [OneHot()[0]],
        lambda: [(torch.zeros(4), torch.tensor(LABELS[:4])), (torch.zeros(4), torch.tensor(LABELS[4:]))],  # batches
    ],
)
def test_items_with_several_labels_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(DataError, match=r"give one class for every image"):
        class_counts(make())


def test_what_a_sampler_draws_is_not_counted_but_what_it_leaves_out_is_not_either() -> None:
    often = WeightedRandomSampler([9.0 if label == 2 else 1.0 for label in LABELS], 100)
    assert class_counts(DataLoader(tensors(), sampler=often)) == COUNTS
    part = SubsetRandomSampler([0, 2, 3, 1])
    assert class_counts(DataLoader(tensors(), sampler=part)) == (2, 1, 1)
    assert class_counts(DataLoader(tensors(), batch_sampler=BatchSampler(part, 2, drop_last=False))) == (2, 1, 1)
    assert class_counts(DataLoader(tensors(), batch_size=None, sampler=part)) == (2, 1, 1)


def test_a_subset_of_a_subset() -> None:
    assert class_counts(Subset(Subset(Targets(), [0, 1, 3, 5]), [3, 2, 1, 0])) == (1, 2, 1)


def test_image_sets_of_the_library() -> None:
    train = load_source("digits").train
    assert class_counts(train) == tuple(int(n) for n in train.counts)


@pytest.mark.parametrize(("classes", "counts"), [(None, (1, 2)), (("dog", "cat"), (2, 1)), (2, (1, 2))])
def test_names(classes: Any, counts: tuple[int, ...]) -> None:
    assert class_counts(["dog", "cat", "dog"], classes=classes) == counts


def test_names_in_an_array() -> None:
    assert class_counts(["dog", "cat", "dog"], classes=np.array(["dog", "cat"])) == (2, 1)
    assert class_counts(np.array([b"dog", b"cat", b"dog"]), classes=("dog", "cat")) == (2, 1)


ELEVEN = [*range(11), 10, 10]


@pytest.mark.parametrize(
    "texts",
    [
        [str(number) for number in ELEVEN],
        [f"{number}.0" for number in ELEVEN],  # as pandas writes a column that once had gaps
        [f"+{number}." for number in ELEVEN],
        np.array([str(number).encode() for number in ELEVEN]),
        np.array(ELEVEN, dtype=object),
    ],
)
def test_numbers_written_as_text_are_in_the_order_of_numbers(texts: Any) -> None:
    assert class_counts(texts) == (*10 * [1], 3)


def test_numbers_that_are_not_whole_are_names() -> None:
    assert class_counts(["0.5", "1.0", "0.5"]) == (2, 1)


class TestCsv:
    def test_numbers(self, tmp_path: Path) -> None:
        (tmp_path / "train.csv").write_text("file,label\n" + "".join(f"{i}.png, {y}\n" for i, y in enumerate(LABELS)))
        assert class_counts(tmp_path / "train.csv") == COUNTS
        assert class_counts(str(tmp_path / "train.csv"), "label", classes=3) == COUNTS

    def test_names_in_a_column_of_ones_own(self, tmp_path: Path) -> None:
        (tmp_path / "train.csv").write_text("file,animal\na,dog\nb,cat\nc,dog\n")
        assert class_counts(tmp_path / "train.csv", "animal") == (1, 2)
        with pytest.raises(DataError, match=r"columns file, animal; say which holds the labels: column="):
            class_counts(tmp_path / "train.csv")
        with pytest.raises(DataError, match=r"no column 'animals'. Did you mean 'animal'"):
            class_counts(tmp_path / "train.csv", "animals")

    @pytest.mark.parametrize("row", ["b.png,", "b.png, ", "b.png"])
    def test_a_row_without_a_label_is_no_class(self, tmp_path: Path, row: str) -> None:
        (tmp_path / "train.csv").write_text(f"file,label\na.png,dog\n{row}\nc.png,cat\n")
        with pytest.raises(DataError, match=r"line 3 of .*train\.csv has no label in column 'label'; fill it in"):
            class_counts(tmp_path / "train.csv")

    def test_what_is_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"is a folder; give the Dataset .*ImageFolder"):
            class_counts(tmp_path)
        with pytest.raises(DataError, match=r"cannot read labels from .*nowhere\.csv"):
            class_counts(tmp_path / "nowhere.csv")


class TestHuggingFace:
    def data(self) -> Any:
        datasets = pytest.importorskip("datasets")
        features = datasets.Features(
            {"text": datasets.Value("string"), "animal": datasets.ClassLabel(names=["emu", "cat", "dog"])}
        )
        return datasets.Dataset.from_dict({"text": ["x"] * 8, "animal": LABELS}, features=features)

    def test_a_column(self) -> None:
        data = self.data()
        assert class_counts(data, "animal") == COUNTS
        assert class_counts(data["animal"]) == COUNTS
        assert class_counts(data.rename_column("animal", "label")) == COUNTS
        assert class_counts(data.to_iterable_dataset(), "animal") == COUNTS
        assert class_counts(data.with_format("torch"), "animal") == COUNTS

    def test_its_class_names_say_which_class_is_missing(self) -> None:
        with pytest.raises(DataError, match=r"classes \[1\], 'cat', have no images among the 6 labels"):
            class_counts(self.data().filter(lambda row: row["animal"] != 1), "animal")

    def test_all_splits_at_once(self) -> None:
        datasets = pytest.importorskip("datasets")
        with pytest.raises(DataError, match=r"a set of splits received \(train\); give one of them"):
            class_counts(datasets.DatasetDict({"train": self.data()}))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ([0, 2], {}, r"classes \[1\] have no images"),
        ([0, 1], {"classes": 3}, r"classes \[2\] have no images among the 2 labels, .* count the whole training set"),
        (Subset(tensors(), [0, 3]), {"classes": 3}, r"classes \[2\] have no images .* number the labels anew without"),
        (["a", "b"], {"classes": ("a", "c", "b")}, r"classes \[1\], 'c', have no images"),
        ([0, 99], {}, r"classes \[1, 2, .*, 20\] and 78 more have no images"),
        ([0, 1, 5], {"classes": 3}, r"labels from 0 to 5 received for 3 classes"),
        ([0, -100], {}, r"labels from -100 to 0"),
        (["0", "1", "-1"], {}, r"labels from -1 to 1 received"),
        ([0, 2**40], {}, r"labels up to 1099511627776 received for 2 images, so that they are no class indices"),
        (["a", "b"], {"classes": ("a", "b", "a")}, r"the class 'a' is named more than once"),
        (["a", "b"], {"classes": {"a", "b"}}, r"classes of type set received; give a list of their names in the order"),
        (["a", "b"], {"classes": {"b": 0, "a": 1}}, r"classes of type dict received"),
        ([0.5, 0.5], {}, r"labels of type float64 received"),
        (np.eye(3), {}, r"labels of shape \(3, 3\) received"),
        ([[0, 1], [2]], {}, r"a list received whose members are not all single labels; give one class for every"),
        ([[[0.5, 1.0], 0], [[0.5, 1.0], 1]], {}, r"a list received whose members are not all single labels"),
        ([["a.png", "0"], ["b.png", "1"]], {}, r"labels of shape \(2, 2\) received"),
        ([], {}, r"labels of shape \(0,\)"),
        (3, {}, r"cannot be found in a int"),
        (["a", None, "b"], {}, r"item 1, counted from 0, has no label \(None received\); leave out"),
        (["a", "b", " "], {}, r"item 2, counted from 0, has no label"),
        ([0, None, 1], {}, r"item 1, counted from 0, has no label"),
        (pd.Series([0, 1, None]), {}, r"item 2, counted from 0, has no label \(nan received\)"),
        (pd.Series(["a", float("nan"), "b"]), {}, r"item 1, counted from 0, has no label"),
        (pd.Series(["a", "b", pd.NA], dtype=object), {}, r"item 2, counted from 0, has no label \(<NA> received\)"),
        (["a", "c"], {"classes": ("a", "b")}, r"labels 'c' are not among the classes a, b"),
        (["a", "c"], {"classes": 3}, r"2 class names received for 3 classes"),
        ([(torch.zeros(1),)], {}, r"items of type tuple received"),
    ],
)
def test_what_cannot_be_counted(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        class_counts(data, **options)


def test_they_make_an_mfw() -> None:
    assert MFW(class_counts(LABELS * 10)).counts == (50, 20, 10)


def test_labels_by_their_position() -> None:
    images, numbers, labels = torch.zeros(6, 2), torch.arange(6), torch.tensor([0, 0, 0, 1, 1, 2])
    data = TensorDataset(images, numbers, labels)
    assert class_counts(data, 2) == class_counts(data, -1) == class_counts(DataLoader(data), 2) == (3, 2, 1)
    assert class_counts([(0.5, n, int(y)) for n, y in enumerate(labels)], 2) == (3, 2, 1)
    for wrong in (3, "label"):
        with pytest.raises(DataError, match=f"column {wrong!r} received, but items have 3 parts without names"):
            class_counts(data, wrong)


def test_a_position_is_no_column_of_a_table() -> None:
    with pytest.raises(DataError, match="an item has no column 1"):
        class_counts([{"image": 0.5, "label": 0}, {"image": 0.5, "label": 1}], 1)


class WithTargets(Dataset[tuple[int, int]]):
    """Items of a data set of torchvision: `targets` beside the items, which a `target_transform` changes."""

    def __init__(self, targets: list[Any], change: Callable[[Any], int] | None = None, items: int = 0) -> None:
        self.targets, self.target_transform = targets, change
        self.items = items or len(targets)

    def __len__(self) -> int:
        return self.items

    def __getitem__(self, index: int) -> tuple[int, int]:
        label = self.targets[index]
        return index, label if self.target_transform is None else self.target_transform(label)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [(None, (5, 2, 1)), (lambda label: 2 - label, (1, 2, 5)), (lambda label: int(label > 0), (5, 3))],
)
def test_labels_are_those_that_the_items_have(change: Callable[[Any], int] | None, wanted: tuple[int, ...]) -> None:
    data = WithTargets([0] * 5 + [1] * 2 + [2], change)
    assert class_counts(data) == wanted == class_counts([label for _, label in data])


@pytest.mark.parametrize("entries", [["cat", "dog"], [0] * 9])
def test_targets_that_are_not_one_for_each_item(entries: list[Any]) -> None:
    with pytest.raises(DataError, match=rf"of 5 items received, whose \.targets has {len(entries)} entries"):
        class_counts(WithTargets(entries, items=5))

"""Prepared data sets as sources of training: found, opened, drawn as the paper draws them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.balance import imbalance_kind
from procrustean.base import DataError
from procrustean.data import build, load_source
from procrustean.data.imageset import StoredImages
from procrustean.data.sets import tiered_imagenet
from procrustean.data.stores.prepare import plan, prepare

Make = Callable[..., Any]


def stored(mini: Any, root: Path, **settings: Any) -> None:
    prepare(plan(mini.known, mini.source, root=root, workers=1, **settings), on_bad_image="skip")


@pytest.mark.parametrize(
    ("layout", "sizes"),
    [("tiny", (12, 6, None)), ("imagenet-lt", (11, 6, 3)), ("inaturalist", (10, 6, None))],
)
def test_a_prepared_data_set_is_a_source(
    layout: str, sizes: tuple[int, int, int | None], miniature: Make, tmp_path: Path
) -> None:
    mini = miniature(layout)
    stored(mini, tmp_path, size=32)
    splits = load_source(mini.name, data_dir=tmp_path)
    assert splits.name == mini.name
    assert (len(splits.train), len(splits.test), splits.val and len(splits.val)) == sizes
    assert isinstance(splits.train.images, StoredImages)
    assert splits.train.images.shape[1:] == (32, 32, 3)
    assert splits.note == ""
    if layout == "tiny":
        data = build(splits, imbalance="step", rho=2)
        assert data.counts.tolist() == [4, 2, 2]
    else:
        assert build(splits, imbalance="natural").counts.tolist() == sorted(mini.known.counts["train"])[::-1]


def test_a_cache_that_cannot_be_looked_at_is_passed_over(
    miniature: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(miniature("tiny"), tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ("x" * 300)))  # the system refuses so long a name
    assert len(load_source("tiny-imagenet", data_dir=tmp_path).train) == 12


def test_what_was_left_out_is_remembered(miniature: Make, tmp_path: Path) -> None:
    stored(miniature("imagenet-lt", faults=True), tmp_path)
    splits = load_source("imagenet-lt", data_dir=tmp_path)
    assert splits.note == "prepared with --on-bad-image skip in spite of 4 problems"


def test_a_data_set_that_is_not_there_is_told_how_to_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, miniature: Make
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROCRUSTEAN_DATA", raising=False)
    with pytest.raises(
        DataError, match=r"Tiny-ImageNet has not been prepared(?s:.*)procrustean data prepare tiny-imag"
    ):
        load_source("tiny-imagenet", data_dir=tmp_path)
    mini = miniature("tiny")
    stored(mini, tmp_path, size=16)
    stored(mini, tmp_path / "cache" / "procrustean", size=24)
    with pytest.raises(DataError, match="prepared at 16, 24 pixels, not at 64"):
        load_source("tiny-imagenet", data_dir=tmp_path)
    assert load_source("tiny-imagenet", data_dir=tmp_path, image_size=24).train.images.shape[1] == 24
    (tmp_path / "stores" / "tiny-imagenet-16" / "store.json").write_text("{}")
    with pytest.raises(DataError, match="tiny-imagenet-16: damaged"):
        load_source("tiny-imagenet", data_dir=tmp_path, image_size=16)


@pytest.fixture
def tiered(miniature: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiered-ImageNet with 12 images of each class, of which 4 are for testing."""
    monkeypatch.setattr(tiered_imagenet, "TEST_IMAGES", 4)
    stored(miniature("tiered", each=12), tmp_path, size=16)
    return tmp_path


@pytest.mark.parametrize(("source", "minor"), [("tiered-imagenet", 2), ("tiered-imagenet-tuning", 1)])
def test_step_tiered_imagenet(source: str, minor: int, tiered: Path) -> None:
    splits = load_source(source, data_dir=tiered)
    assert splits.val is not None
    assert splits.train.counts.tolist() == [5, 5, *[5] * minor]  # 12 - 4 - 3 are left of the major classes
    assert splits.val.counts.tolist() == [3] * (2 + minor)
    assert splits.test.counts.tolist() == [4] * (2 + minor)
    assert splits.train.classes[:2] == ("n01530575", "n01531178")
    assert set(splits.train.classes[2:]) == ({"n03314780", "n07565083"} if minor == 2 else {"n02099267"})
    rows = [part.images.rows for part in (splits.train, splits.val, splits.test)]
    assert len(set(np.concatenate(rows).tolist())) == sum(map(len, rows)), "no image is in two splits"
    assert "2 major classes" in splits.note
    assert "drawn with data seed 0" in splits.note


def test_step_tiered_depends_on_the_seed_and_shares_the_major_classes(tiered: Path) -> None:
    one, again, other = (load_source("tiered-imagenet", data_dir=tiered, data_seed=seed) for seed in (0, 0, 1))
    assert one.hash == again.hash != other.hash
    tuning = load_source("tiered-imagenet-tuning", data_dir=tiered)
    for part in ("train", "val", "test"):
        ours, theirs = getattr(one, part), getattr(tuning, part)
        for label in (0, 1):
            found, wanted = (s.images.rows[s.labels == label].tolist() for s in (ours, theirs))
            assert found == wanted


def test_the_real_proportions_are_a_step() -> None:
    assert imbalance_kind([1247] * 200 + [679] * 151 + [5] * 160) == "step"


def test_classes_with_too_few_images_are_refused(miniature: Make, tmp_path: Path) -> None:
    stored(miniature("tiered"), tmp_path)
    with pytest.raises(DataError, match="class n01530575 of Tiered-ImageNet has 4 images, 54 are needed"):
        load_source("tiered-imagenet", data_dir=tmp_path)


def test_a_run_on_a_prepared_data_set(miniature: Make, tmp_path: Path) -> None:
    from procrustean import fit

    stored(miniature("tiny"), tmp_path, size=16)
    settings: dict[str, Any] = {"imbalance": "step", "rho": 2, "net": "small", "epochs": 1, "batch_size": 4}
    run = fit("tiny-imagenet", data_dir=tmp_path, device="cpu", run_dir=tmp_path / "run", method="mfw", **settings)
    assert run.record.data.source == "tiny-imagenet"
    assert run.record.data.counts == [4, 2, 2]
    assert run.record.environment.images["train"].startswith("resident")

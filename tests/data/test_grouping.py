"""Images that belong together stay on one side of every split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from procrustean.base import ConfigError, DataError
from procrustean.data import ImageSet, Splits, build, load_source
from procrustean.data.set_aside import part_mixed


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """Two classes, 12 patients of 4 images each, the last two patients in both classes; and a table beside them."""
    random = np.random.default_rng(0)
    lines = ["path,label,patient_id"]
    for number in range(48):
        patient = number // 4
        label = "ill" if patient < 4 or (patient >= 10 and number % 2) else "well"
        file = tmp_path / "images" / label / f"p{patient:02}" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8)).save(file)
        lines.append(f"{file.relative_to(tmp_path)},{label},p{patient:02}")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    return tmp_path


def sides(splits: Splits, **hold_out: float) -> list[set[str]]:
    data = build(splits, imbalance="natural", **hold_out)
    assert data.held_out is not None
    return [set(part.groups) for part in (data.train, data.held_out, data.test)]


@pytest.mark.parametrize(
    ("source", "group"),
    [("list.csv", "patient_id"), ("list.csv", r"/(p\d+)/"), ("list.csv", "parent"), ("images", "parent")],
)
@pytest.mark.parametrize("hold_out", [0.2, 4])
def test_a_group_is_on_one_side(patients: Path, source: str, group: str, hold_out: float) -> None:
    train, held, test = sides(load_source(patients / source, group=group), hold_out=hold_out)
    assert train | held | test == {f"p{number:02}" for number in range(12)}
    assert all((train, held, test))
    assert not train & held
    assert not train & test
    assert not held & test


def test_without_groups_patients_straddle(patients: Path) -> None:
    splits = load_source(patients / "list.csv")
    of = [{name.split("/")[-2] for name in part.names} for part in (splits.train, splits.test)]
    assert of[0] & of[1]


def test_images_that_no_group_is_named_for_are_groups_of_their_own(patients: Path) -> None:
    table = patients / "list.csv"
    table.write_text(table.read_text().replace(",p03", ","))
    splits = load_source(table, group="PATIENT_ID")
    assert len({*splits.train.groups, *splits.test.groups}) == 11 + 4


@pytest.mark.parametrize(
    ("group", "said"),
    [("patient", "columns of the table: path, label, patient_id"), ("(", "no regular expression"), ("x+", "48 of 48")],
)
def test_what_names_no_group_is_refused(patients: Path, group: str, said: str) -> None:
    with pytest.raises((ConfigError, DataError), match=said):
        load_source(patients / "list.csv", group=group)


def test_a_source_without_files_has_no_groups() -> None:
    with pytest.raises(ConfigError, match="it is for image files"):
        load_source("digits", group="parent")


def test_one_group_per_class_cannot_be_divided(patients: Path) -> None:
    with pytest.raises(DataError, match="no class has images to give that do not belong together"):
        load_source(patients / "list.csv", group="/(ill|well)/")


@given(st.integers(0, 100), st.integers(1, 12))
def test_groups_of_several_classes_are_taken_whole_and_leave_some(seed: int, groups: int) -> None:
    random = np.random.default_rng(seed)
    labels, of = random.integers(0, 3, 60), random.integers(0, groups, 60)
    never = np.zeros(60, bool)
    never[:3] = True
    taken = np.isin(np.arange(60), part_mixed(labels, of, [5, 5, 5], seed, never))
    for group in np.unique(of):
        assert len(set(taken[of == group])) == 1
    assert not taken[:3].any()
    assert set(labels[~taken]) == set(labels)


def test_about_as_many_as_wanted() -> None:
    random = np.random.default_rng(0)
    labels, of = np.repeat([0, 1, 2], [600, 200, 50]), random.integers(0, 300, 850)
    taken = part_mixed(labels, of, [120, 40, 10], 0, np.zeros(850, bool))
    assert np.allclose(np.bincount(labels[taken]), [120, 40, 10], rtol=0.15)


def test_groups_of_near_duplicates_are_joined() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), np.uint8)
    pixels[20:] = pixels[:20]
    images = ImageSet(pixels, np.tile(np.arange(20) % 2, 2), ("a", "b"), (), tuple(str(n) for n in range(40)))
    splits = Splits("copies", images, images)
    train, held, _ = sides(splits, hold_out=0.2)
    assert not {int(name) % 20 for name in train} & {int(name) % 20 for name in held}

"""What every data set of the table has to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from procrustean.base import DataError
from procrustean.data import (
    RECIPES,
    OfficialFiles,
    Prepared,
    all_sets,
    describe_sources,
    load_source,
    lr_table,
    recipe_for,
)
from procrustean.nets import NETS
from procrustean.records import RunSpec
from procrustean.runs import training_images

SETS = {found.name: found for found in all_sets()}
pytestmark = pytest.mark.parametrize("name", SETS)


@pytest.fixture(autouse=True)
def no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data of this machine."""
    monkeypatch.delenv("PROCRUSTEAN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_it_says_what_it_is(name: str) -> None:
    found = SETS[name]
    assert found.name == name
    assert found.title
    assert describe_sources()[name].startswith(found.about)
    assert "\n" not in describe_sources()[name]


def test_its_recipes_can_be_trained_by(name: str) -> None:
    found = SETS[name]
    assert recipe_for(name) == found.recipe
    for recipe in (found.recipe, *found.variants.values()):
        assert RECIPES[recipe.name][0] == recipe, "another recipe has the same name"
        assert recipe.checked() is recipe
        assert recipe.net in NETS
        assert min(lr_table(recipe, recipe.epochs)) > 0


def test_its_classes_are_the_same_in_all_splits_and_none_is_empty(name: str) -> None:
    counts = SETS[name].counts
    assert len({len(of_split) for of_split in counts.values()}) == 1
    assert all(count >= 1 for of_split in counts.values() for count in of_split)


def test_the_cost_of_a_run_is_told_without_its_images(name: str) -> None:
    assert training_images(RunSpec(name)) == SETS[name].images("train") > 0


def test_where_its_files_are_is_told_if_they_are_missing(name: str, tmp_path: Path) -> None:
    found = SETS[name]
    if found.absent(tmp_path) is None:
        pytest.skip("its images come with a library")
    with pytest.raises(DataError, match=r"https?://"):
        load_source(name, data_dir=tmp_path, download=False)


def test_official_files_are_told_by_their_checksums(name: str) -> None:
    found = SETS[name]
    sums = []
    if isinstance(found, OfficialFiles):
        assert found.url.startswith("https://")
        sums = [*found.files.values(), *([found.archive_md5] if found.archive else [])]
    elif isinstance(found, Prepared):
        assert all(archive.url.startswith("https://") for archive in found.archives)
        sums = [archive.md5 for archive in found.archives]
    assert all(len(md5) == 32 and int(md5, 16) >= 0 for md5 in sums)

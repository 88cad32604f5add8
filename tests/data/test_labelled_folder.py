"""labels.csv beside train and test, tables as competitions give them, and what folders of phones and notebooks hold."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean.base import DataError
from procrustean.data import Splits, load_source
from procrustean.data.sources import list_source


def picture(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)).save(path)


def listing(root: Path, columns: str, of: str = "{0},{1},{2},{3}") -> Path:
    """Six images of each of two classes for training and two for tests, by patients of two images each."""
    lines = [columns]
    for number in range(16):
        split, label = ("train" if number < 12 else "test"), "ab"[number % 2]
        picture(root / split / label / f"{number}.png", number)
        lines.append(of.format(f"{split}/{label}/{number}.png", label, f"p{number // 4}", split))
    (root / "labels.csv").write_text("\n".join(lines))
    return root


def sizes(splits: Splits) -> list[list[int]]:
    return [splits.train.counts.tolist(), splits.test.counts.tolist()]


@pytest.mark.parametrize(
    ("columns", "of"),
    [("file,label,group,split", "{0},{1},{2},{3}"), ("file,label", "{0},{1}"), ("file,a,b", "{0},{1}")],
)
def test_labels_beside_the_splits(tmp_path: Path, columns: str, of: str) -> None:
    root = listing(tmp_path / "pets", columns, of)
    if columns == "file,a,b":  # one-hot
        table = root / "labels.csv"
        table.write_text(table.read_text().replace("png,a", "png,1,0").replace("png,b", "png,0.0,1.0"))
    splits = load_source(root)
    assert splits.name == "pets"
    assert splits.train.classes == ("a", "b")
    assert sizes(splits) == [[6, 6], [2, 2]]
    assert splits.hash == load_without_table(root).hash


def load_without_table(root: Path) -> Splits:
    """The same images in the order of the rows."""
    order = [line.partition(",")[0] for line in (root / "labels.csv").read_text().splitlines()[1:]]
    (root / "labels.csv").unlink()
    found = load_source(root)

    def sorted_by_row(part: str) -> list[int]:
        names = getattr(found, part).names
        return sorted(range(len(names)), key=lambda row: order.index(names[row]))

    return Splits(
        found.name,
        found.train.subset(sorted_by_row("train")),
        found.test.subset(sorted_by_row("test")),
    )


def test_its_groups_are_a_column(tmp_path: Path) -> None:
    splits = load_source(listing(tmp_path, "file,label,group,split"), group="group")
    assert Counter(splits.train.groups) == {"p0": 4, "p1": 4, "p2": 4}


def test_what_the_table_and_the_folders_do_not_agree_on(tmp_path: Path) -> None:
    root = listing(tmp_path, "file,label,group,split")
    picture(root / "train" / "a" / "new.png", 99)
    table = root / "labels.csv"
    table.write_text(table.read_text().replace("train/a/0.png,a", "train/a/0.png,b"))
    with pytest.raises(DataError) as error:
        load_source(root)
    assert "labelled b, but in the folder a" in str(error.value)
    assert "train/a/new.png: not in labels.csv" in str(error.value)
    assert sizes(load_source(root, on_bad_image="skip")) == [[5, 6], [2, 2]]


def test_names_without_an_ending(tmp_path: Path) -> None:
    root = listing(tmp_path, "file,label,group,split")
    table = root / "labels.csv"
    table.write_text(table.read_text().replace(".png", ""))
    assert sizes(load_source(root)) == [[6, 6], [2, 2]]


def test_several_marks_in_a_row_are_no_label(tmp_path: Path) -> None:
    for number in range(4):
        picture(tmp_path / f"{number}.png", number)
    rows = ["image,cat,dog,width", "0,1,0,8", "1,0,1,8", "2,1,1,8", "3,0,0,8"]
    (tmp_path / "list.csv").write_text("\n".join(rows))
    found = list_source(str(tmp_path / "list.csv"), "skip")
    assert [file.label for file in found.files] == ["cat", "dog"]
    assert found.bad == {"row 4 (2)": "['cat', 'dog'] is no single label", "row 5 (3)": "no label"}


def test_hidden_folders_of_images_are_passed_over(tmp_path: Path) -> None:
    for number, name in enumerate(("cat/0", "cat/1", "dog/0", "dog/1", ".owl/0", ".ipynb/deep/0")):
        picture(tmp_path / f"{name}.png", number)
    (tmp_path / ".git").mkdir()
    splits = load_source(tmp_path)
    assert splits.train.classes == ("cat", "dog")


@pytest.mark.parametrize("kind", ["avif", "heic"])
def test_photographs_of_phones(tmp_path: Path, kind: str) -> None:
    if kind == "heic":
        pytest.importorskip("pillow_heif").register_heif_opener()
    y, x = np.mgrid[:32, :32]
    for number in range(4):
        shade = Image.fromarray(np.stack([8 * x, 8 * y, np.full_like(x, 60 * number)], 2).astype(np.uint8))
        path = tmp_path / "ab"[number % 2] / f"{number}.{kind}"
        path.parent.mkdir(exist_ok=True)
        shade.save(path, quality=95)
    found = load_source(tmp_path).train.images[0].astype(int)
    assert np.abs(found[:, :, 0] - 8 * x).mean() < 8

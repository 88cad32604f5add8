from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean.data import load_source
from procrustean.errors import DataError


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Twelve 8 x 8 pictures below `images`, no two alike."""
    (tmp_path / "images").mkdir()
    random = np.random.default_rng(0)
    for number in range(12):
        Image.fromarray(random.integers(0, 256, (8, 8, 3), np.uint8)).save(tmp_path / "images" / f"{number}.png")
    return tmp_path


def table(folder: Path, rows: list[str], name: str = "list.csv", heading: str = "path,label") -> str:
    (folder / name).write_text("\n".join([heading, *rows]) + "\n")
    return str(folder / name)


def rows(labels: str = "aaaaaabbbbbb") -> list[str]:
    return [f"images/{number}.png,{label}" for number, label in enumerate(labels)]


def test_a_csv_names_images_relative_to_itself(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    splits = load_source(table(pictures, rows()))
    assert splits.name == "list"
    assert splits.train.classes == ("a", "b")
    assert splits.train.counts.tolist() == [5, 5]
    assert splits.test.counts.tolist() == [1, 1]
    assert splits.train.images.shape[1:] == (8, 8, 3)


def test_a_column_of_splits(pictures: Path) -> None:
    sides = ["train"] * 4 + ["Validation", "test"]
    lines = [f"{row},{sides[number % 6]}" for number, row in enumerate(rows())]
    splits = load_source(table(pictures, lines, heading="File,Class,Split"))
    assert splits.train.counts.tolist() == [4, 4]
    assert splits.val is not None
    assert splits.val.counts.tolist() == splits.test.counts.tolist() == [1, 1]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators(pictures: Path, separator: str) -> None:
    lines = [row.replace(",", separator) for row in rows()]
    assert len(load_source(table(pictures, lines, heading=f"path{separator}label")).train) == 10


def test_quotes_a_byte_order_mark_and_empty_lines(pictures: Path) -> None:
    lines = [row.replace(",a", ',"a, big"') for row in rows()]
    path = pictures / "list.csv"
    path.write_text("\ufeff" + "\n".join(["path,label", *lines, ""]) + "\n", encoding="utf-8")
    assert load_source(str(path)).train.classes == ("a, big", "b")


@pytest.mark.parametrize("kind", ["paths", "bytes"])
def test_parquet(pictures: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    paths = [f"images/{number}.png" for number in range(12)]
    column: list[Any] = paths if kind == "paths" else [{"bytes": (pictures / p).read_bytes(), "path": p} for p in paths]
    parquet.write_table(pa.table({"image": column, "label": [0] * 6 + [1] * 6}), pictures / "list.parquet")
    splits = load_source(str(pictures / "list.parquet"))
    assert splits.train.classes == ("0", "1")
    assert len(splits.train) + len(splits.test) == 12


@pytest.mark.parametrize(
    ("lines", "heading", "message"),
    [
        (rows(), "picture,label", r"no column of images; it holds 'picture', 'label'\. Call the column 'path'"),
        (rows(), "path,kind", "no column of labels"),
        ([f"{row},x" for row in rows()], "path,label,file", "'path' and 'file' could each be the column of images"),
        ([f"{row},dev set" for row in rows()], "path,label,split", "row 2 .*: unknown split 'dev set'"),
        ([*rows(), "images/99.png,a"], "path,label", r"row 14 \(images/99.png\): there is no such file"),
        ([*rows(), "images/3.png,a"], "path,label", r"row 14 \(images/3.png\): listed in row 5 already"),
        ([*rows(), ",a"], "path,label", "row 14: no image in column 'path'"),
        ([*rows()[:-1], "images/11.png, "], "path,label", "no label in column 'label'"),
        ([*rows(), "images/1.png"], "path,label", "row 14: 1 values for 2 columns"),
        (rows("a" * 12), "path,label", "at least two classes .* found 1"),
        (rows(), "path,path", "two columns have the same name"),
        ([], "path,label", "holds no rows"),
    ],
)
def test_bad_tables_are_named(pictures: Path, lines: list[str], heading: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_source(table(pictures, lines, heading=heading))


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no such file"):
        load_source(str(tmp_path / "none.csv"))
    (tmp_path / "empty.csv").touch()
    with pytest.raises(DataError, match="an empty file"):
        load_source(str(tmp_path / "empty.csv"))
    (tmp_path / "latin.csv").write_bytes("path,label\nä.png,a\n".encode("latin-1"))
    with pytest.raises(DataError, match="save it as UTF-8"):
        load_source(str(tmp_path / "latin.csv"))
    pytest.importorskip("pyarrow")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="not a readable parquet file"):
        load_source(str(tmp_path / "broken.parquet"))
    with pytest.raises(DataError, match="there is no such file"):
        load_source(str(tmp_path / "none.parquet"))

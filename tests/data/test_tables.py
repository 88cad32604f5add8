from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from procrustean.base import DataError
from procrustean.data import load_source


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


def test_splits_under_another_name_are_not_trained_on_unasked(pictures: Path) -> None:
    lines = [f"{row},{'test' if number % 3 else 'train'}" for number, row in enumerate(rows())]
    assert len(load_source(table(pictures, lines, heading="path,label,Fold")).test) == 8
    folds = [f"{row},{number % 3}" for number, row in enumerate(rows())]  # of a cross-validation, say
    assert load_source(table(pictures, folds, heading="path,label,fold")).train.counts.tolist() == [5, 5]


def test_spaces_after_the_commas(pictures: Path) -> None:
    lines = [f"{row.replace(',', ', ')}, {'test' if number % 3 else 'train'} " for number, row in enumerate(rows())]
    splits = load_source(table(pictures, lines, heading="path, label, split"))
    assert (splits.train.classes, splits.train.counts.tolist()) == (("a", "b"), [2, 2])


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
        (
            [f"{row},dev set" for row in rows()],
            "path,label,split",
            r"row 2: unknown split 'dev set'\. Did you mean",
        ),
        ([*rows(), "images/99.png,a"], "path,label", r"row 14 \(images/99.png\): there is no such file"),
        ([*rows(), "images/3.png,a"], "path,label", r"row 14 \(images/3.png\): listed in row 5 already"),
        ([*rows(), ",a"], "path,label", "row 14: no image"),
        ([*rows()[:-1], "images/11.png, "], "path,label", "no label"),
        ([*rows(), "images/1.png"], "path,label", "row 14: 1 values for 2 columns"),
        (rows("a" * 12), "path,label", "at least two classes .* found 1"),
        (rows(), "path,path", "'path' and 'path' could each be the column of images"),
        ([], "path,label", "holds no rows"),
    ],
)
def test_bad_tables_are_named(pictures: Path, lines: list[str], heading: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_source(table(pictures, lines, heading=heading))


@pytest.mark.parametrize("on_bad_image", ["error", "skip"])
def test_a_table_of_which_no_path_is_right(pictures: Path, on_bad_image: Any) -> None:
    path = table(pictures, [row.replace("images/", "pictures/") for row in rows()])
    with pytest.raises(
        DataError,
        match=r"of the 12 images that it names none is there, the first as .*/pictures/0\.png; paths are relative",
    ):
        load_source(path, on_bad_image=on_bad_image)


def test_rows_are_named_in_their_order(pictures: Path) -> None:
    lines = [row if number in (0, 11) else row.replace("images", "lost") for number, row in enumerate(rows())]
    with pytest.raises(DataError, match=r"10 files(.|\n)*row 3 (.|\n)*row 4 (.|\n)*row 7 "):
        load_source(table(pictures, lines))


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


# Odd paths


@pytest.mark.parametrize(
    ("path", "shown", "problem"),
    [
        ("x" * 5000, r"x{200}\.\.\.", "File name too long"),
        ("~nobody_is_called_so/x.png", "~nobody_is_called_so/x.png", "there is no such file"),
        ("images/loop.png", "images/loop.png", "Too many levels of symbolic links"),
        ("a\0b.png", "a\0b.png", ".*"),
        ("images", "images", "not a plain file"),
    ],
)
def test_a_path_that_leads_nowhere_is_named_or_left_out(pictures: Path, path: str, shown: str, problem: str) -> None:
    (pictures / "images" / "loop.png").symlink_to("loop.png")
    source = table(pictures, [*rows(), f"{path},a"])
    with pytest.raises(DataError, match=rf"row 14 \({shown}\): {problem}"):
        load_source(source)
    splits = load_source(source, on_bad_image="skip")
    assert "1 left out that cannot be used: row 14" in splits.note
    assert len(splits.train) + len(splits.test) == 12


@pytest.mark.parametrize("end", ["", '"'])
def test_a_value_without_end_is_refused(pictures: Path, end: str) -> None:
    source = table(pictures, [*rows(), f'"{"y" * 140_000}{end},a'])
    for on_bad_image in ("error", "skip"):
        with pytest.raises(DataError, match=r"list.csv, line 14: field larger than .* is a quote missing"):
            load_source(source, on_bad_image=on_bad_image)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"list.csv, line 14: unexpected end of data; is a quote missing"):
        load_source(table(pictures, [*rows(), '"images/3.png,a']))


def test_the_same_image_is_found_however_its_path_is_written(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pictures)
    for again in ("./images/0.png", "images/../images/0.png", f"{pictures}/images/0.png"):
        with pytest.raises(DataError, match=r"row 14 .*: listed in row 2 already"):
            load_source(Path(table(pictures, [*rows(), f"{again},a"])).name)
    (pictures / "images" / "link.png").symlink_to("0.png")
    splits = load_source(table(pictures, [*rows(), "images/link.png,a"]))  # as in folders
    assert len(splits.train) + len(splits.test) == 13


def test_images_in_the_table_may_have_the_same_name(pictures: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    images = [{"bytes": (pictures / f"images/{number}.png").read_bytes(), "path": "x.png"} for number in range(12)]
    parquet.write_table(pa.table({"image": images, "label": ["a"] * 6 + ["b"] * 6}), pictures / "list.parquet")
    splits = load_source(str(pictures / "list.parquet"))
    assert len(splits.train) + len(splits.test) == 12


def test_a_table_without_a_single_label_says_so(pictures: Path) -> None:
    with pytest.raises(DataError, match=r"12 files cannot be used; .*\n  row 2 \(images/0.png\): no label"):
        load_source(table(pictures, rows(" " * 12)))


def test_labels_in_a_parquet_file_are_single_texts(pictures: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    paths, file = [f"images/{number}.png" for number in range(12)], str(pictures / "list.parquet")
    parquet.write_table(pyarrow.table({"path": paths, "labels": [["a"], ["a", "b"]] * 6}), file)
    with pytest.raises(DataError, match=r"row 2 \(images/1.png\): \['a', 'b'\] is no single label"):
        load_source(file)


def test_a_number_of_bytes_is_no_image(pictures: Path) -> None:
    """`bytes(10**15)` would be as many zeros."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    images = [{"bytes": 10**15, "path": f"images/{number}.png"} for number in range(12)]
    parquet.write_table(pa.table({"image": images, "label": ["a"] * 6 + ["b"] * 6}), pictures / "list.parquet")
    splits = load_source(str(pictures / "list.parquet"))
    assert len(splits.train) + len(splits.test) == 12


# Rules that folders have too


def test_a_class_that_is_only_tested_is_refused_or_left_out(pictures: Path) -> None:
    sides = ["train"] * 4 + ["test"] * 2
    lines = [f"{row},{sides[number % 6]}" for number, row in enumerate(rows("aaaaaabbbbbc"))]
    source = table(pictures, lines, heading="path,label,split")
    with pytest.raises(DataError, match="class 'c' is in the test split but not in the train split"):
        load_source(source)
    splits = load_source(source, on_bad_image="skip")
    assert splits.train.classes == ("a", "b")
    assert splits.test.counts.tolist() == [2, 1]
    assert "classes left out for want of training images: c" in splits.note


def test_leaving_out_has_an_end(pictures: Path) -> None:
    with pytest.raises(DataError, match=r"at least two classes .* found 1"):
        load_source(table(pictures, rows("a" * 12)), on_bad_image="skip")
    with pytest.raises(DataError, match=r"at least two classes .* found 0"):
        load_source(table(pictures, [f"{row},test" for row in rows()], heading="path,label,split"), on_bad_image="skip")


def test_two_ways_to_write_a_class_are_one_class(pictures: Path) -> None:
    one, other = (unicodedata.normalize(form, "Löwe") for form in ("NFC", "NFD"))
    assert one != other
    sides = ["train", "train", "train", "train", "test", "test"]
    labels = [(one if sides[number % 6] == "train" else other) if number < 6 else "b" for number in range(12)]
    lines = [f"images/{number}.png,{label},{sides[number % 6]}" for number, label in enumerate(labels)]
    splits = load_source(table(pictures, lines, heading="path,label,split"))
    assert splits.train.classes == (one, "b") or splits.train.classes == ("b", one)
    assert sorted(splits.test.counts.tolist()) == [2, 2]


def test_a_line_break_in_a_label_stays(pictures: Path) -> None:
    lines = [row.replace(",a", ',"a\nbig"') for row in rows()]
    assert load_source(table(pictures, lines)).train.classes == ("a\nbig", "b")
    lines = [row.replace(",a", ",a\u2028big") for row in rows()]  # no end of a line for an editor of tables
    assert load_source(table(pictures, lines)).train.classes == ("a\u2028big", "b")


def test_rows_are_counted_with_blank_ones(pictures: Path) -> None:
    lines = ["", *rows()[:3], "", "", *rows()[3:], "images/99.png,a"]
    with pytest.raises(DataError, match=r"row 17 \(images/99.png\): there is no such file"):
        load_source(table(pictures, lines))
    lines = ["", *rows()[:3], "", "images/3.png", *rows()[4:]]
    with pytest.raises(DataError, match="row 7: 1 values for 2 columns"):
        load_source(table(pictures, lines))

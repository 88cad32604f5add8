"""Files made to run code, to fill the memory or to reach outside their folder."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import resource
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from made_records import comparison
from procrustean.base import ConfigError, DataError, RunError, machine
from procrustean.base.json_files import typed_json
from procrustean.base.yaml_files import read_yaml
from procrustean.cli import main
from procrustean.data import download, load_source, restricted_pickle, tables
from procrustean.data.sets import cifar
from procrustean.data.sets.cifar import CIFAR10
from procrustean.data.stores.listing import Line, listing_of
from procrustean.nets.pretrained import read_pretrained
from procrustean.records.run_folder import RunFolder
from procrustean.records.several_runs import chosen_run


class Evil:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.proof),)


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    return tmp_path / "proof"


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# Code


def test_weights_that_run_code_are_refused(tmp_path: Path, proof: Path) -> None:
    torch.save({"weight": Evil(proof)}, tmp_path / "start.pth")
    with pytest.raises(ConfigError, match="others can run code"):
        read_pretrained(str(tmp_path / "start.pth"), "resnet20")
    assert not proof.exists()


def test_arrays_that_run_code_are_refused(tmp_path: Path, proof: Path) -> None:
    images = np.array([Evil(proof)], dtype=object)
    np.savez(tmp_path / "a.npz", train_images=images, train_labels=np.arange(1))
    with pytest.raises(DataError, match="no objects"):
        load_source(str(tmp_path / "a.npz"))
    assert not proof.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_that_run_code_are_refused(protocol: int, proof: Path) -> None:
    with pytest.raises(DataError, match="asks for"):
        restricted_pickle.load(pickle.dumps({"data": Evil(proof)}, protocol), name="batch")
    assert not proof.exists()


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.mkdir [PROOF]",
        "source: !!python/object/apply:os.mkdir [PROOF]",
        "!!python/name:os.system ''",
        "!!python/module:os ''",
        "source: !<tag:yaml.org,2002:python/object/new:os.mkdir> [PROOF]",
    ],
)
def test_settings_that_run_code_are_refused(text: str, tmp_path: Path, proof: Path) -> None:
    (tmp_path / "run.yaml").write_text(text.replace("PROOF", str(proof)))
    assert main(["train", "--config", str(tmp_path / "run.yaml")]) == 2
    assert not proof.exists()


def test_a_name_is_never_a_command(tmp_path: Path, proof: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for source in (f"; mkdir {proof}", f"$(mkdir {proof})", f"`mkdir {proof}`", f"| mkdir {proof}"):
        assert main(["data", "describe", source]) == 2
    assert not proof.exists()


# Memory


def test_a_table_as_long_as_a_number_in_the_file_says_is_not_made() -> None:
    """LONG_BINPUT with 2^31: readers that keep a table would make one of 32 GB for these twelve bytes."""
    before = peak_megabytes()
    loaded = restricted_pickle.load(b"\x80\x02]r\xff\xff\xff\x7f.", name="batch")
    assert loaded == []
    assert peak_megabytes() - before < 50


class Shared:
    """An array that is pickled with the very bytes of others; numpy itself writes them anew each time."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __reduce__(self) -> Any:
        state = (1, (len(self.content),), np.dtype("u1"), False, self.content)
        return np._core.multiarray._reconstruct, (np.ndarray, (0,), b"b"), state


def test_the_same_bytes_again_and_again_do_not_fill_the_memory() -> None:
    content = bytes(1 << 20)
    hostile = pickle.dumps([Shared(content) for _ in range(400)], 4)
    assert len(hostile) < 2 << 20
    before = peak_megabytes()
    assert len(restricted_pickle.load(hostile, name="batch")) == 400
    assert peak_megabytes() - before < 50


def bomb(path: Path, megabytes: int) -> None:
    """An .npz of zeros, a thousandth as long as what it unpacks to."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("train_images.npy", "w") as member:
        head = io.BytesIO()
        shape = (megabytes, 1024, 1024)
        np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": shape})
        member.write(head.getvalue())
        for _ in range(megabytes):
            member.write(bytes(1 << 20))


def test_arrays_that_unpack_to_far_more_than_the_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "MOST_BYTES", 16 << 20)
    bomb(tmp_path / "a.npz", 64)
    before = peak_megabytes()
    with pytest.raises(DataError, match=r"[\d,]+ bytes that unpack to 67,\d+,\d+; refused"):
        load_source(str(tmp_path / "a.npz"))
    assert peak_megabytes() - before < 10


def test_a_table_that_the_memory_does_not_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    paths = [f"{number}{'a' * 1000}" for number in range(300)]
    parquet.write_table(pa.table({"path": paths, "label": paths}), tmp_path / "a.parquet", compression="zstd")
    monkeypatch.setattr(tables, "free_memory", lambda: 900_000)
    with pytest.raises(DataError, match=r"unpacks to 6\d\d,\d+ bytes, and 300,000, a third of the free memory"):
        load_source(str(tmp_path / "a.parquet"))


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_pipe_or_device_called_like_a_table_is_not_waited_for(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    os.mkfifo(tmp_path / name)
    (tmp_path / "zeros").mkdir()
    (tmp_path / "zeros" / name).symlink_to("/dev/zero")
    for path in (tmp_path / name, tmp_path / "zeros" / name):
        with pytest.raises(DataError, match="not a plain file"):
            load_source(str(path))


def test_a_size_that_the_data_do_not_have_is_refused(tmp_path: Path) -> None:
    """The header promises a terabyte, the file has nothing."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name in ("train_images", "train_labels"):
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(
                head, {"descr": "|u1", "fortran_order": False, "shape": (1 << 20, 1024, 1024)}
            )
            archive.writestr(f"{name}.npy", head.getvalue())
    before = peak_megabytes()
    with pytest.raises(DataError, match=r"not a readable \.npz"):
        load_source(str(tmp_path / "a.npz"))
    assert peak_megabytes() - before < 50


def members(path: Path) -> list[str]:
    with download.opened_tar(path, 1 << 20) as archive:
        return [member.name for member in archive]


@pytest.mark.parametrize("kind", ["content", "name", "padding"])
def test_an_archive_is_read_only_so_far(kind: str, tmp_path: Path) -> None:
    """Also where the bytes are not the content of a file but its name, or follow the end."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("x" * (32 << 20) if kind == "name" else "other")
        info.size = 32 << 20 if kind == "content" else 0
        archive.addfile(info, io.BytesIO(bytes(info.size)))
        if kind == "padding":
            content.write(b"\0" * 512 + b"x" * (32 << 20))
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(content.getvalue(), 1))
    del content
    before = peak_megabytes()
    if kind == "padding":
        assert members(path) == ["other"]  # what follows the end is not read at all
    else:
        with pytest.raises(DataError, match="unpacks to more than 1,048,576 bytes"):
            members(path)
    assert peak_megabytes() - before < 12


def test_a_sheet_of_too_many_pixels_in_the_mirror_s_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    sheet = io.BytesIO()
    Image.new("RGB", (16, 16)).save(sheet, "PNG")
    with tarfile.open(tmp_path / cifar.ARCHIVE, "w:gz") as archive:
        for name in (*cifar.TRAIN, *cifar.TEST, cifar.TRAIN_LABELS, cifar.TEST_LABELS):
            info = tarfile.TarInfo(name)
            info.size = len(sheet.getvalue())
            archive.addfile(info, io.BytesIO(sheet.getvalue()))
    with pytest.raises(DataError, match="not the npm package"):
        cifar.read_package(tmp_path / cifar.ARCHIVE)


@pytest.mark.parametrize("length", [2**63 - 1, 2**64 - 1, 10**9, 101_000_000])
def test_a_header_of_tensors_that_is_too_long_is_refused(length: int, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b"{}" + b" " * 100)
    before = peak_megabytes()
    with pytest.raises(RunError, match=r"model\.safetensors is missing or damaged"):
        RunFolder(tmp_path).load_weights(path.name)
    with pytest.raises(ConfigError, match="damaged or no file of weights"):
        read_pretrained(str(path), "resnet20")
    assert peak_megabytes() - before < 50


def test_tensors_that_reach_outside_their_file_are_refused(tmp_path: Path) -> None:
    header = json.dumps({"weight": {"dtype": "F32", "shape": [1000, 1000], "data_offsets": [0, 4_000_000]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
    with pytest.raises(RunError, match="missing or damaged"):
        RunFolder(tmp_path).load_weights("model.safetensors")


YAML_BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (YAML_BOMB + "source: *i\n", "more than 100,000 values once its aliases are written out"),
        ("source: &a [*a]\n", "more than 100,000 values"),
        ("source: " + "[" * 5000, "is not valid YAML"),
        ("x" * (2 << 20), "more than 1,048,576 bytes"),
        ("source: 2024-02-31\n", "is not valid YAML"),
        ("source: \xff\n", "is not valid YAML"),
        ("source: x\nseed: 0x" + 5000 * "f", r"run\.yaml, line 2: '0xf+ is a whole number of more than 64 bits"),
        ("seeds: [1, " + 5000 * "9" + "]", r"run\.yaml, line 1: '9+ is a whole number of more than 64 bits"),
        ("seed: 9223372036854775808", "line 1: '9223372036854775808' is a whole number of more than 64 bits"),
        ("seed: 1:30:00", r"run\.yaml, line 1: '1:30:00' is a number in base 60 to YAML"),
        ("lr: 1:30.5", r"run\.yaml, line 1: '1:30\.5' is a number in base 60 to YAML"),
    ],
    ids=["aliases", "endless", "deep", "long", "no date", "no text", "hex", "digits", "65 bits", "base 60", "60.5"],
)
def test_settings_that_stand_for_too_much(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=message):
        read_yaml(tmp_path / "run.yaml")


def test_aliases_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text("base: &b {source: digits}\nruns: [{<<: *b, method: erm}, *b]\n")
    assert read_yaml(tmp_path / "grid.yaml")["runs"] == [{"source": "digits", "method": "erm"}, {"source": "digits"}]


def test_numbers_as_people_write_them(tmp_path: Path) -> None:
    text = "a: [9223372036854775807, -9223372036854775808, 1_000, 0x1F]\nb: '1:30'\nc: 1.5e+3\n"
    (tmp_path / "run.yaml").write_text(text)
    assert read_yaml(tmp_path / "run.yaml") == {"a": [2**63 - 1, -(2**63), 1000, 31], "b": "1:30", "c": 1500.0}


@pytest.mark.parametrize("chosen", ["", ".", "..", "../other", "a\0b"])
def test_a_comparison_chooses_a_run_of_its_own_folder(chosen: str, tmp_path: Path) -> None:
    (tmp_path / "auto.json").write_bytes(typed_json(comparison(chosen)))
    with pytest.raises(RunError, match=r"auto\.json is damaged(: it chose| \(Expected .* at `\$\.chosen`\))"):
        chosen_run(tmp_path)


def test_deep_json_is_damage(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("[" * 200_000)
    with pytest.raises(RunError, match=r"config\.json is damaged"):
        RunFolder.open(tmp_path)


# Places


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_an_archive_in_which_a_file_is_something_else(
    kind: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PROCRUSTEAN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with tarfile.open(tmp_path / CIFAR10.archive, "w:gz") as archive:
        info = tarfile.TarInfo(f"{CIFAR10.folder}/data_batch_1")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match="data_batch_1 is not a plain file"):
        load_source("cifar10", data_dir=tmp_path, download=False)
    assert {path.name for path in tmp_path.iterdir()} == {CIFAR10.archive}


@pytest.mark.parametrize("name", ["../train_images", "/etc/train_images", "train_images/../../x"])
def test_arrays_with_the_names_of_places_are_refused(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr(f"{name}.npy", b"")
    with pytest.raises(DataError, match="unknown array"):
        load_source(str(tmp_path / "a.npz"))


@pytest.mark.parametrize("name", ["../outside.jpg", "a/../../outside.jpg", "/outside.jpg"])
def test_a_list_of_images_names_none_outside_its_folder(name: str, tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "outside.jpg")
    (tmp_path / "images/a").mkdir(parents=True)
    place = str(tmp_path / "outside.jpg") if name.startswith("/") else name
    line = Line("list, line 1", place, 0)
    with pytest.raises(DataError, match=r"list, line 1: .* lies outside of"):
        listing_of(tmp_path / "images", {"train": [line]}, ("cat", "dog"))


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "folder"])
def test_a_table_of_images_names_nothing_but_files(name: str, tmp_path: Path) -> None:
    """A table may name images anywhere, but a pipe would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for number in range(4):
        Image.new("RGB", (4, 4), (60 * number, 0, 0)).save(tmp_path / f"{number}.png")
    rows = [f"{number}.png,{'cat' if number < 2 else 'dog'}" for number in range(4)]
    (tmp_path / "images.csv").write_text("\n".join(["path,label", *rows, f"{name},cat"]))
    with pytest.raises(DataError, match=rf"row 6 \({name}\): not a plain file"):
        load_source(str(tmp_path / "images.csv"))

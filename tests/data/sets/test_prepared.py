"""Downloads from a local server, where they are allowed; directions elsewhere."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from procrustean.base import DataError
from procrustean.data.sets.prepared_files import Archive, Prepared, prepared_set


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "served"
    folder.mkdir()
    served = ThreadingHTTPServer(
        ("127.0.0.1", 0),
        lambda *arguments: Quiet(*arguments, directory=str(folder)),  # type: ignore[arg-type]
    )
    served.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def packed(folder: Path, name: str, files: dict[str, bytes]) -> str:
    """A .tar.gz of these files; returns its md5."""
    with tarfile.open(folder / name, "w:gz") as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return hashlib.md5((folder / name).read_bytes()).hexdigest()


@pytest.fixture
def layout(server: ThreadingHTTPServer, tmp_path: Path) -> Prepared:
    """iNaturalist with small archives on the local server."""
    folder, address = tmp_path / "served", f"http://127.0.0.1:{server.server_port}"
    lists = packed(folder, "train2018.json.tar.gz", {"train2018.json": b"{}"})
    images = packed(folder, "train_val2018.tar.gz", {"train_val2018/Aves/1/a.jpg": b"jpeg"})
    archives = (
        Archive(f"{address}/train2018.json.tar.gz", lists, 1, "train2018.json"),
        Archive(f"{address}/train_val2018.tar.gz", images, 1, "train_val2018"),
    )
    return replace(prepared_set("inaturalist18"), archives=archives)


def test_archives_are_fetched_and_unpacked(layout: Prepared, server: ThreadingHTTPServer, tmp_path: Path) -> None:
    said: list[str] = []
    folder = layout.fetch(tmp_path / "data", said.append)
    assert folder == tmp_path / "data" / "inaturalist18"
    assert (folder / "train2018.json").read_text() == "{}"
    assert (folder / "train_val2018/Aves/1/a.jpg").read_bytes() == b"jpeg"
    assert sorted(path.name for path in folder.iterdir()) == ["train2018.json", "train_val2018"]
    assert "non-commercial research" in said[0]
    before = len(server.asked)  # type: ignore[attr-defined]
    layout.fetch(tmp_path / "data", said.append)
    assert len(server.asked) == before, "what is there is not fetched again"  # type: ignore[attr-defined]


def test_another_file_than_the_published_one_is_refused(layout: Prepared, tmp_path: Path) -> None:
    packed(tmp_path / "served", "train_val2018.tar.gz", {"train_val2018/Aves/1/a.jpg": b"other"})
    with pytest.raises(DataError, match="wrong checksum"):
        layout.fetch(tmp_path / "data", lambda line: None)
    assert not (tmp_path / "data/inaturalist18/train_val2018").exists()


def test_an_archive_that_reaches_outside_is_not_unpacked(layout: Prepared, tmp_path: Path) -> None:
    md5 = packed(tmp_path / "served", "train_val2018.tar.gz", {"../../evil": b"x", "train_val2018/a": b"y"})
    first, second = layout.archives
    with pytest.raises(DataError, match=r"train_val2018\.tar\.gz cannot be unpacked .*outside"):
        replace(layout, archives=(first, replace(second, md5=md5))).fetch(tmp_path / "data", lambda line: None)
    assert not list(tmp_path.rglob("evil"))
    assert not (tmp_path / "data/inaturalist18/train_val2018").exists()


def test_an_archive_without_the_data_is_told(layout: Prepared, tmp_path: Path) -> None:
    md5 = packed(tmp_path / "served", "train_val2018.tar.gz", {"README": b"x"})
    first, second = layout.archives
    with pytest.raises(DataError, match="there is no train_val2018 in it"):
        replace(layout, archives=(first, replace(second, md5=md5))).fetch(tmp_path / "data", lambda line: None)


@pytest.mark.parametrize("name", ["tiny-imagenet", "tiered-imagenet", "imagenet-lt"])
def test_what_may_not_be_downloaded_is_told_where_to_get(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"is not downloaded(?s:.*)http(?s:.*)procrustean data prepare {name}"):
        prepared_set(name).fetch(tmp_path, lambda line: None)


def test_the_published_archives() -> None:
    archives = {archive.name: archive for archive in prepared_set("inaturalist18").archives}
    assert set(archives) == {"train_val2018.tar.gz", "train2018.json.tar.gz", "val2018.json.tar.gz"}
    assert all(archive.url.startswith("https://") and len(archive.md5) == 32 for archive in archives.values())

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from procrustean.base import DataError
from procrustean.data import download as download_module
from procrustean.data.download import download

CONTENT = bytes(range(256)) * 4000  # 1 MB
MD5 = hashlib.md5(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT; the first part of the path says how badly."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        seen = self.server.seen
        seen.append((self.path, self.headers.get("Range")))
        way = self.path.strip("/").split("/")[0]
        if way in ("404", "500"):
            return self.send_error(int(way))
        if way == "redirect":
            self.send_response(302)
            self.send_header("Location", self.server.location)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if way == "flaky500" and len(seen) == 1:
            return self.send_error(500)
        content = CONTENT[::-1] if way == "wrong" else CONTENT
        start = 0
        if self.headers.get("Range") and way != "norange":
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                return self.send_error(416)
            self.send_response(206)
            shown = start + 7 if way == "liar" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        body = content[start:]
        if way != "endless":
            self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if way == "breaks" or (way == "breaks-once" and len(seen) == 1):
            body = body[: max(len(body) // 3, 1) if len(body) > 1000 else 0]
        elif way == "breaks-twice-early" and len(seen) <= 2:
            body = body[:0]
        self.wfile.write(body)
        self.close_connection = True
        return None

    def log_message(self, *arguments):
        pass


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that hangs up is part of some tests."""


@pytest.fixture
def server(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = Server(("127.0.0.1", 0), Handler)
    server.seen, server.location = [], ""
    server.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def fetch(server, target, way, md5=MD5, **options):
    return download(f"{server.address}/{way}/file.bin", target, md5=md5, pause_seconds=0, **options)


def ranges(server):
    return [asked for _, asked in server.seen]


def test_a_file_arrives_with_progress(server, tmp_path):
    lines = []
    target = tmp_path / "new" / "folder" / "file.bin"
    assert fetch(server, target, "plain", say=lines.append) == target
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["file.bin"]
    assert lines[-1] == "file.bin: 1.0 of 1.0 MiB (100 %)"
    assert len(lines) <= 11


def test_a_complete_file_is_not_fetched_again(server, tmp_path):
    target = tmp_path / "file.bin"
    target.write_bytes(CONTENT)
    fetch(server, target, "plain")
    assert server.seen == []


def test_a_broken_connection_is_resumed(server, tmp_path):
    lines = []
    target = fetch(server, tmp_path / "file.bin", "breaks-once", say=lines.append)
    assert target.read_bytes() == CONTENT
    assert ranges(server) == [None, f"bytes={len(CONTENT) // 3}-"]
    assert any("connection broken after 341,333 of 1,024,000 bytes, trying again" in line for line in lines)


def test_progress_counts_as_success_however_often_the_connection_breaks(server, tmp_path):
    # Each answer brings a third of what is left, far more answers than failures in a row are allowed.
    with pytest.raises(DataError, match="3 times in a row"):
        fetch(server, tmp_path / "file.bin", "breaks")
    assert len(server.seen) > 10
    assert (tmp_path / "file.bin.part").stat().st_size > 0.99 * len(CONTENT)


def test_a_part_of_an_earlier_call_is_resumed(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    target = fetch(server, tmp_path / "file.bin", "plain")
    assert ranges(server) == ["bytes=1000-"]
    assert target.read_bytes() == CONTENT
    assert not (tmp_path / "file.bin.part").exists()


def test_a_complete_part_needs_no_transfer(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    assert fetch(server, tmp_path / "file.bin", "plain").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"rubbish", CONTENT + b"too long"])
def test_a_part_of_another_file_is_dropped_and_fetched_anew(server, tmp_path, part):
    lines = []
    (tmp_path / "file.bin.part").write_bytes(part)
    assert fetch(server, tmp_path / "file.bin", "plain", say=lines.append).read_bytes() == CONTENT
    assert ranges(server) == [f"bytes={len(part)}-", None]
    assert "file.bin: wrong checksum after resuming, deleted; starting over" in lines


def test_a_server_without_ranges_starts_over(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    assert fetch(server, tmp_path / "file.bin", "norange").read_bytes() == CONTENT


def test_a_wrong_range_is_refused(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    with pytest.raises(DataError, match="another range"):
        fetch(server, tmp_path / "file.bin", "liar")


def test_a_wrong_checksum_deletes_the_part_and_says_so(server, tmp_path):
    wrong = hashlib.md5(CONTENT[::-1]).hexdigest()
    with pytest.raises(DataError, match=rf"wrong checksum \(md5 {wrong}, expected {MD5}\), deleted"):
        fetch(server, tmp_path / "file.bin", "wrong")
    assert list(tmp_path.iterdir()) == []
    assert len(server.seen) == 1


def test_a_server_error_is_tried_again(server, tmp_path):
    assert fetch(server, tmp_path / "file.bin", "flaky500").read_bytes() == CONTENT
    assert len(server.seen) == 2


@pytest.mark.parametrize(("way", "asked"), [("404", 1), ("500", download_module.MOST_FAILURES)])
def test_a_file_that_is_not_to_be_had(way, asked, server, tmp_path):
    with pytest.raises(DataError) as failed:
        fetch(server, tmp_path / "file.bin", way)
    message = str(failed.value)
    assert message.startswith(f"could not download file.bin: {server.address}/{way}/file.bin: HTTP {way}")
    assert len(message.splitlines()) == 1  # a progress line can show it whole
    assert len(server.seen) == asked
    assert not (tmp_path / "file.bin").exists()


def test_two_early_breaks_are_forgiven(server, tmp_path):
    assert fetch(server, tmp_path / "file.bin", "breaks-twice-early").read_bytes() == CONTENT


def test_no_server(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module.time, "sleep", lambda seconds: None)
    with pytest.raises(DataError, match="no connection"):
        download("http://127.0.0.1:1/file.bin", tmp_path / "file.bin", md5=MD5)


@pytest.mark.parametrize(("way", "limit"), [("plain", 1000), ("endless", 1000)])
def test_files_beyond_the_limit_are_refused(server, tmp_path, way, limit):
    with pytest.raises(DataError, match="more than the 1,000"):
        fetch(server, tmp_path / "file.bin", way, max_bytes=limit)


@pytest.mark.parametrize("url", ["http://example.org/a", "ftp://localhost/a", "file:///etc/passwd", "a.bin"])
def test_only_https(url, tmp_path):
    with pytest.raises(DataError, match="https"):
        download(url, tmp_path / "file.bin", md5=MD5)


@pytest.mark.parametrize("location", ["http://example.org/a", "file:///etc/passwd", "ftp://localhost/a"])
def test_redirects_to_anything_but_https_are_refused(server, tmp_path, location):
    server.location = location
    with pytest.raises(DataError, match=r"not https|HTTP 302"):
        fetch(server, tmp_path / "file.bin", "redirect")


def test_redirects_are_followed(server, tmp_path):
    server.location = f"{server.address}/plain/file.bin"
    assert fetch(server, tmp_path / "file.bin", "redirect").read_bytes() == CONTENT


def test_a_target_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="cannot write"):
        fetch(server, tmp_path / "file" / "file.bin", "plain")


def test_two_downloads_at_once_share_one_transfer(server, tmp_path):
    target, lines = tmp_path / "file.bin", []
    threads = [
        threading.Thread(target=fetch, args=(server, target, "plain"), kwargs={"say": lines.append}) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() == CONTENT
    assert len(server.seen) == 1

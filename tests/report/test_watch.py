from __future__ import annotations

import http.client
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from procrustean.base import ConfigError, RunError
from procrustean.report.watch import Watched, make_server

Save = Callable[..., Path]


@pytest.fixture
def run(saved: Save) -> Path:
    return saved("run")


@pytest.fixture
def port(run: Path) -> Iterator[int]:
    with make_server(Watched([run], rest=0), 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(port: int, path: str = "/", method: str = "GET", **headers: str) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


def test_the_page_and_its_data_are_served(port: int) -> None:
    response, page = ask(port)
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "connect-src 'self'" in response.headers["Content-Security-Policy"]
    assert '"live":true' in page
    response, text = ask(port, "/data.json")
    data: dict[str, Any] = json.loads(text)
    assert data["live"] is True
    assert data["settings"][0]["name"] == "digits, step ρ=50"


@pytest.mark.parametrize("path", ["/config.json", "/run/result.json", "/../run/result.json", "/data.json/", "/?x"])
def test_nothing_else_is_served(port: int, path: str) -> None:
    response, text = ask(port, path)
    assert response.status == 404
    assert "format" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_sent(port: int, method: str) -> None:
    assert ask(port, method=method)[0].status == 501


@pytest.mark.parametrize("host", ["example.com", "example.com:80", "127.0.0.1", "[::1]:1"])
def test_other_names_of_this_machine_are_refused(port: int, host: str) -> None:
    assert ask(port, Host=host)[0].status == 403
    assert ask(port, "/data.json", Host=host)[0].status == 403
    assert ask(port, Host=f"localhost:{port}")[0].status == 200


def test_it_listens_to_this_machine_only(run: Path) -> None:
    with make_server(Watched([run]), 0) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_data_are_sent_only_when_they_have_changed(port: int, run: Path) -> None:
    version = ask(port, "/data.json")[0].headers["ETag"]
    response, text = ask(port, "/data.json", **{"If-None-Match": version})
    assert (response.status, text) == (304, "")
    record = json.loads((run / "result.json").read_text())
    record["label"] = "Another"
    (run / "result.json").write_text(json.dumps(record))
    response, text = ask(port, "/data.json", **{"If-None-Match": version})
    assert response.status == 200
    assert json.loads(text)["title"] == "Another on digits"


def test_a_run_that_became_unreadable_is_told_and_forgiven(port: int, run: Path) -> None:
    good = (run / "result.json").read_text()
    (run / "result.json").write_text("{")
    response, text = ask(port, "/data.json")
    assert response.status == 503
    assert "not valid JSON" in text
    (run / "result.json").write_text(good)
    assert ask(port, "/data.json")[0].status == 200


@pytest.mark.parametrize("name", ["result.json", "config.json"])
def test_a_damaged_run_is_left_out_and_the_others_are_shown(name: str, saved: Save, tmp_path: Path) -> None:
    (saved("fleet/a") / "config.json").write_text("{}")
    damaged = tmp_path / "fleet" / "b" / name
    damaged.parent.mkdir()
    damaged.write_text("{")
    said: list[str] = []
    watched = Watched([tmp_path / "fleet"], rest=0, say=said.append)
    data, version = watched.current()
    assert data["runs"] == 1
    (left_out,) = data["leftOut"]
    assert str(damaged) in left_out
    assert said == [f"left out: {left_out}"]
    # It is said once, and forgiven when it is mended.
    (saved("fleet/c", seed=1) / "config.json").write_text("{}")
    assert watched.current()[0]["runs"] == 2
    assert said == [f"left out: {left_out}"]
    shutil.rmtree(damaged.parent)
    saved("fleet/b", seed=2)
    data, mended = watched.current()
    assert (data["runs"], data["leftOut"]) == (3, [])
    assert mended != version


def test_new_runs_of_a_folder_turn_up(saved: Save, tmp_path: Path) -> None:
    first = saved("fleet/a")
    (first / "config.json").write_text("{}")
    watched = Watched([tmp_path / "fleet"], rest=0)
    assert watched.current()[0]["runs"] == 1
    (saved("fleet/b", seed=1) / "config.json").write_text("{}")
    assert watched.current()[0]["runs"] == 2


def test_the_training_is_left_alone_for_a_while(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 1.0, 10.9, 11.1, 11.1, 11.1])  # the page takes a second to make
    monkeypatch.setattr("procrustean.report.watch.time.monotonic", lambda: next(now))
    watched = Watched([run], rest=10)
    (run / "result.json").write_text((run / "result.json").read_text().replace('"ERM"', '"Other"'))
    assert watched.current()[0]["title"] == "ERM on digits"
    assert watched.current()[0]["title"] == "Other on digits"


def test_no_run_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run at"):
        Watched([tmp_path / "nowhere"])
    with pytest.raises(RunError, match="not a run directory"):
        Watched([tmp_path])


def test_a_port_in_use_is_named(run: Path) -> None:
    with (
        make_server(Watched([run]), 0) as server,
        pytest.raises(ConfigError, match=f"port {server.server_port} cannot be used"),
    ):
        make_server(Watched([run]), server.server_port)
    with pytest.raises(ConfigError, match="port 99999 cannot be used"):
        make_server(Watched([run]), 99999)

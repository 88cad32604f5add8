"""Networks of the Hugging Face hub: as backbones, their files under older names, and how they are fetched."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from torch import Tensor

from procrustean.base import ConfigError
from procrustean.nets import build_net
from procrustean.nets.build import check_net, model_by_name
from procrustean.nets.classifier import check_size
from procrustean.nets.pretrained import read_pretrained

REPOSITORY = "someone/vit"
VIT = {
    "hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 2, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8, "num_labels": 7,
}  # fmt: skip
PIXELS = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.25, 0.2, 0.1]}


@pytest.fixture(scope="module")
def theirs() -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    with torch.random.fork_rng():
        torch.manual_seed(3)
        return ViTForImageClassification(ViTConfig(**VIT)).eval()


@pytest.fixture(scope="module")
def folder(theirs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a repository of the hub: the configuration, the weights under the names of old, the preprocessor."""
    path = tmp_path_factory.mktemp("vit")
    theirs.save_pretrained(path)
    (path / "preprocessor_config.json").write_text(json.dumps(PIXELS))
    return path


class Hub(BaseHTTPRequestHandler):
    """Answers as the hub does to who asks for a file of the repository."""

    def do_HEAD(self) -> None:
        self.answer(None)

    def do_GET(self) -> None:
        self.answer(self.wfile)

    def answer(self, out: Any) -> None:
        server: Any = self.server
        server.seen.append(f"{self.command} {self.path}")
        prefix = f"/{REPOSITORY}/resolve/main/"
        file = server.folder / self.path.removeprefix(prefix)
        if not self.path.startswith(prefix) or not file.exists():
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound" if self.path.startswith(prefix) else "RepoNotFound")
            self.send_header("X-Repo-Commit", "a" * 40)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = file.read_bytes()
        self.send_response(200)
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("ETag", f'"{len(content)}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if out is not None:
            out.write(content)

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def hub(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server in the place of the hub, and an empty cache."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.folder, server.seen = folder, []
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def scores(net: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        found = net.eval()(x)
    result: Tensor = found if isinstance(found, Tensor) else found.logits
    return result


class TestBackbone:
    def test_scores_are_those_of_transformers(self, theirs: Any, folder: Path) -> None:
        name = f"hf:{folder}"
        weights = read_pretrained("published", name)
        assert weights.path == folder / "model.safetensors"
        assert weights.normalisation is not None
        assert list(weights.normalisation.mean) == PIXELS["image_mean"]
        net = build_net(name, channels=3, classes=7, seed=0, pretrained=weights)
        net.head.load_state_dict(theirs.classifier.state_dict())
        x = torch.randn(2, 3, 32, 32)
        torch.testing.assert_close(scores(net, x), scores(theirs, x))
        wide = torch.randn(2, 3, 32, 48)
        with torch.no_grad():
            wanted = theirs(wide, interpolate_pos_encoding=True).logits
        torch.testing.assert_close(scores(net, wide), wanted)

    def test_blocks_are_three_groups(self, folder: Path) -> None:
        net = build_net(f"hf:{folder}", channels=3, classes=4, seed=0)
        assert [path.rpartition(".")[2] for path in list(net.mixable.values())[-3:]] == ["1", "3", "5"]
        check_size(net, 3, (48, 48), "vit")
        assert model_by_name(f"hf:{folder}")[1] == 32

    def test_weights_are_a_function_of_the_seed(self, folder: Path) -> None:
        before = torch.get_rng_state()
        one, same, other = (
            build_net(f"hf:{folder}", channels=1, classes=4, seed=seed).state_dict() for seed in (0, 0, 1)
        )
        read_pretrained("published", f"hf:{folder}")
        assert torch.equal(torch.get_rng_state(), before)
        assert all(torch.equal(one[key], same[key]) for key in one)
        assert any(not torch.equal(one[key], other[key]) for key in one)

    def test_a_file_of_another_network(self, folder: Path, tmp_path: Path) -> None:
        torch.save({"stem.weight": torch.zeros(3)}, tmp_path / "other.pth")
        weights = read_pretrained(str(tmp_path / "other.pth"), f"hf:{folder}")
        with pytest.raises(ConfigError, match="these pretrained weights are of another network"):
            build_net(f"hf:{folder}", channels=3, classes=4, seed=0, pretrained=weights)

    def test_what_would_run_code_of_its_own_is_refused(self, tmp_path: Path) -> None:
        code = {"model_type": "mine", "auto_map": {"AutoConfig": "evil.Config"}}
        (tmp_path / "config.json").write_text(json.dumps(code))
        (tmp_path / "evil.py").write_text("raise SystemExit('run')")
        with pytest.raises(ConfigError, match="is none of the models of transformers"):
            check_net(f"hf:{tmp_path}")

    def test_no_image_classifier(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
        with pytest.raises(ConfigError, match="is no image classifier of transformers"):
            build_net(f"hf:{tmp_path}", channels=3, classes=4, seed=0)


class TestFetching:
    def test_what_is_missing_is_fetched_once(self, hub: Any, theirs: Any, tmp_path: Path) -> None:
        said: list[str] = []
        weights = read_pretrained("published", f"hf:{REPOSITORY}", said.append)
        assert (tmp_path / "cache") in weights.path.parents
        assert any("model.safetensors of someone/vit" in line for line in said)
        net = build_net(f"hf:{REPOSITORY}", channels=3, classes=7, seed=0, pretrained=weights)
        key = "vit.layers.0.attention.q_proj.weight"
        assert torch.equal(net.backbone.get_parameter(f"net.{key}"), theirs.get_parameter(key))
        asked = len(hub.seen)
        assert read_pretrained("published", f"hf:{REPOSITORY}").sha256 == weights.sha256
        assert hub.seen[asked:] == []

    def test_tensors_alone_are_read_where_there_is_no_safetensors(
        self, hub: Any, theirs: Any, folder: Path, tmp_path: Path
    ) -> None:
        hub.folder = tmp_path / "repository"
        hub.folder.mkdir()
        (hub.folder / "config.json").write_bytes((folder / "config.json").read_bytes())
        torch.save(theirs.state_dict(), hub.folder / "pytorch_model.bin")
        assert read_pretrained("published", f"hf:{REPOSITORY}").path.name == "pytorch_model.bin"
        torch.save(theirs, hub.folder / "pytorch_model.bin")
        (tmp_path / "cache").rename(tmp_path / "before")
        with pytest.raises(ConfigError, match="others can run code"):
            read_pretrained("published", f"hf:{REPOSITORY}")

    def test_no_such_repository(self, hub: Any) -> None:
        with pytest.raises(ConfigError, match=r"cannot fetch config.json of nobody/none: .*404"):
            check_net("hf:nobody/none")

    def test_without_a_network_it_says_what_to_put_where(self, hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        with pytest.raises(ConfigError, match=r"hf download someone/vit, and copy its folder .*cache here$"):
            check_net(f"hf:{REPOSITORY}")
        assert hub.seen == []

"""Pretrained weights: files that are read, names that fit, what is refused and why."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from procrustean.balance import Problem
from procrustean.base import ConfigError
from procrustean.methods import make_method
from procrustean.nets import Classifier, build_net
from procrustean.nets.build import restart
from procrustean.nets.pretrained import load_pretrained, read_pretrained
from procrustean.nets.published import AtAddress, Normalisation

NET = "resnet10-s1"
State = dict[str, Tensor]


def built(seed: int = 0, classes: int = 4, name: str = NET, **more: Any) -> Classifier:
    return build_net(name, channels=3, classes=classes, seed=seed, **more)


@pytest.fixture(scope="module")
def state() -> State:
    """The backbone of another network, as torchvision would save it, with a head for other classes."""
    donor = built(seed=9, classes=7)
    backbone = {k: v.clone() for k, v in donor.backbone.state_dict().items()}
    return {**backbone, "fc.weight": torch.randn(7, 512), "fc.bias": torch.randn(7)}


def carries(net: Classifier, state: State) -> bool:
    return all(torch.equal(value, state[key]) for key, value in net.backbone.state_dict().items())


class TestReading:
    @pytest.mark.parametrize("ending", ["safetensors", "pth"])
    @pytest.mark.parametrize("form", ["plain", "prefixed", "own"])
    def test_files(self, ending: str, form: str, state: State, tmp_path: Path) -> None:
        path = tmp_path / f"weights.{ending}"
        if form == "prefixed":
            named = {f"module.{k}": v for k, v in state.items()}
        elif form == "own":  # as model.safetensors of a run
            named = {("head." + k[3:]) if k.startswith("fc.") else f"backbone.{k}": v for k, v in state.items()}
        else:
            named = state
        if ending == "safetensors":
            save_file({k: v.contiguous() for k, v in named.items()}, path)
        else:
            torch.save({"epoch": 3, "state_dict": named} if form == "prefixed" else named, path)
        found = read_pretrained(str(path), NET)
        assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        net = built(pretrained=found)
        assert carries(net, state)
        assert torch.equal(net.head.weight, built().head.weight)  # the head starts anew, as without

    def test_counters_of_batches_make_no_difference(self, state: State) -> None:
        with_counter = {**state, "bn1.num_batches_tracked": torch.tensor(5)}
        net = built()
        load_pretrained(net.backbone, with_counter)
        assert carries(net, state)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"cannot read the pretrained weights .*no\.pth \(No such file"):
            read_pretrained(str(tmp_path / "no.pth"), NET)

    @pytest.mark.parametrize("name", ["bad.safetensors", "bad.pth"])
    def test_a_damaged_file(self, name: str, tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(b"PK\x03\x04 not weights")
        with pytest.raises(ConfigError, match=name):
            read_pretrained(str(tmp_path / name), NET)

    def test_a_file_that_would_run_code(self, tmp_path: Path) -> None:
        torch.save(nn.Linear(2, 2), tmp_path / "model.pt")
        with pytest.raises(ConfigError, match="only plain state dicts are read, because others can run code"):
            read_pretrained(str(tmp_path / "model.pt"), NET)

    @pytest.mark.parametrize("content", [{"epoch": 3}, [1, 2], {}])
    def test_a_file_without_weights(self, content: Any, tmp_path: Path) -> None:
        torch.save(content, tmp_path / "x.pt")
        with pytest.raises(ConfigError, match="holds no state dict"):
            read_pretrained(str(tmp_path / "x.pt"), NET)


class TestFit:
    def test_another_network(self, state: State) -> None:
        lacking = {k: v for k, v in state.items() if "layer4" not in k} | {"layer9.weight": torch.ones(1)}
        with pytest.raises(ConfigError, match=r"layer4.* and \d+ more missing in the file, layer9.weight unknown"):
            load_pretrained(built().backbone, lacking)

    def test_another_stem(self, state: State) -> None:
        with pytest.raises(
            ConfigError, match=r"conv1.weight has shape \[64, 3, 3, 3\] in the file and \[64, 3, 7, 7\]"
        ):
            load_pretrained(built(name="resnet10").backbone, state)

    def test_nothing_changes_where_it_does_not_fit(self, state: State) -> None:
        net = built()
        before = {k: v.clone() for k, v in net.state_dict().items()}
        with pytest.raises(ConfigError):
            load_pretrained(net.backbone, {k: v for k, v in state.items() if k != "bn1.bias"})
        assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())

    def test_random_layers_keep_their_keys(self) -> None:
        donor, net = (build_net("resnet12", channels=3, classes=3, seed=seed) for seed in (1, 2))
        key = net.backbone.get_submodule("layer1.0.drop").key.clone()
        published = {k: v for k, v in donor.backbone.state_dict().items() if ".drop." not in k}
        load_pretrained(net.backbone, published)
        assert torch.equal(net.backbone.get_submodule("layer1.0.drop").key, key)


class TestMethods:
    def pretrained(self, state: State, tmp_path: Path) -> Classifier:
        torch.save(state, tmp_path / "weights.pth")
        return built(pretrained=read_pretrained(str(tmp_path / "weights.pth"), NET))

    def test_starting_again_starts_from_them(self, state: State, tmp_path: Path) -> None:
        net = self.pretrained(state, tmp_path)
        with torch.no_grad():
            net.backbone.get_parameter("conv1.weight").zero_()
        restart(net)
        assert carries(net, state)

    def test_both_branches_of_a_fork_have_them(self, state: State, tmp_path: Path) -> None:
        fork = make_method("bbn", Problem((20, 5, 3, 2), "step")).stages[0].reshape
        assert fork is not None
        for net, alike in ((self.pretrained(state, tmp_path), True), (built(), False)):
            fork(net)
            group = net.backbone.get_submodule("layer4")
            one, other = (group.get_parameter(f"{b}.conv1.weight") for b in ("conventional", "rebalancing"))
            assert torch.equal(one, other) is alike


class Server(BaseHTTPRequestHandler):
    """Gives one file to whoever asks."""

    def do_GET(self) -> None:
        server: Any = self.server
        server.asked += 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(server.content)))
        self.end_headers()
        self.wfile.write(server.content)

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.asked = 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class TestPublished:
    def test_of_torchvision(
        self, server: Any, torchvision: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Fetched once into torch.hub's folder, and checked by the name of the file."""
        monkeypatch.setenv("TORCH_HOME", str(tmp_path))
        name = "torchvision:shufflenet_v2_x0_5"
        theirs, buffer = torchvision.models.shufflenet_v2_x0_5(), io.BytesIO()
        torch.save(theirs.state_dict(), buffer)
        server.content = buffer.getvalue()
        file = f"shufflenet-{hashlib.sha256(server.content).hexdigest()[:8]}.pth"
        weights = torchvision.models.get_model_weights("shufflenet_v2_x0_5").DEFAULT
        monkeypatch.setattr(weights.value, "url", f"http://127.0.0.1:{server.server_port}/{file}")
        said: list[str] = []
        found = read_pretrained("published", name, said.append)
        assert found.path == tmp_path / "hub" / "checkpoints" / file
        assert said[-1].endswith("(100 %)")
        assert found.normalisation == Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
        net = built(name=name, pretrained=found)
        assert torch.equal(net.backbone.get_parameter("net.conv1.0.weight"), theirs.conv1[0].weight)
        read_pretrained("published", name)
        assert server.asked == 1

    def test_another_file_is_not_kept(self, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TORCH_HOME", str(tmp_path))
        server.content = b"something else"
        source = AtAddress(f"http://127.0.0.1:{server.server_port}/weights-0123abcd.pth", None)
        with pytest.raises(ConfigError, match=r"wrong checksum .*put it here as .*checkpoints/weights-0123abcd\.pth"):
            source.fetch(lambda line: None)
        assert source.found() is None

    def test_without_a_network_it_says_what_to_put_where(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TORCH_HOME", str(tmp_path))
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        source = AtAddress("http://127.0.0.1:1/weights-0123abcd.pth", None)
        with pytest.raises(ConfigError, match=r"no connection .*, fetch http://127.0.0.1:1/weights-0123abcd.pth, and"):
            source.fetch(lambda line: None)

    def test_of_timm(self, timm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        import huggingface_hub

        name, places = "timm:resnet10t", []

        def fetch(repository: str, file: str, revision: str | None = None) -> str:
            places.append((repository, file))
            return str(tmp_path / file)

        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda *given, **more: None)
        monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
        theirs = timm.create_model("resnet10t")
        save_file(theirs.state_dict(), tmp_path / "model.safetensors")
        found = read_pretrained("published", name)
        assert places == [("timm/resnet10t.c3_in1k", "model.safetensors")]
        assert found.normalisation == Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
        net = built(name=name, pretrained=found)
        assert torch.equal(net.backbone.get_parameter("net.layer1.0.conv1.weight"), theirs.layer1[0].conv1.weight)

    def test_our_own_have_none(self) -> None:
        with pytest.raises(ConfigError, match=r"no published weights of resnet18 .* name a file, which may be"):
            read_pretrained("published", "resnet18")

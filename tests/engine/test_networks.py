"""The larger networks in training: every method's demands on them, resuming, pretrained weights, foreign ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from procrustean.balance import Batch, Clock, Problem
from procrustean.base import ConfigError, RunError
from procrustean.data import ImageSet, Splits
from procrustean.engine.device import Placement
from procrustean.engine.engines import choose_engine
from procrustean.methods import make_method
from procrustean.nets import NETS, build_net
from procrustean.nets.build import layers_of
from procrustean.nets.densenet import DenseNet
from procrustean.nets.resnet import ResNet, ResNet12
from procrustean.records import RunSpec
from procrustean.runs import evaluate, fit
from procrustean.runs.preparing import prepare
from procrustean.runs.train_api import Stopped, resume

#: The same networks, narrow and shallow.
NARROW = {
    "resnet18": partial(ResNet, blocks=(1, 2, 1, 2), width=4, stem="s1"),
    "resnet50": partial(ResNet, bottleneck=True, blocks=(1, 1, 1, 2), width=4),
    "resnext50": partial(
        ResNet, bottleneck=True, blocks=(1, 1, 1, 2), width=4, cardinality=4, group_width=16, stem="s2"
    ),
    "resnet12": partial(ResNet12, widths=(4, 6, 8, 10)),
    "densenet121": partial(DenseNet, blocks=(2, 2, 2, 2), growth=4, stem="s2"),
}
#: Those that take a network apart or mix in it, with each; others with one.
CASES = [(net, method) for net in NARROW for method in ("mfw", "bbn", "oltr")]
CASES += [("resnet18", "crt"), ("resnet12", "manifold_mixup"), ("densenet121", "m2m"), ("densenet121", "meta_weight")]


def coloured(counts: tuple[int, ...], seed: int) -> ImageSet:
    """Noise of 16 x 16 pixels with more light in the colour that is the class."""
    random = np.random.RandomState(seed)
    labels = np.repeat(np.arange(len(counts)), counts).astype(np.int64)
    images = random.randint(0, 150, (len(labels), 16, 16, 3))
    images[np.arange(len(labels)), :, :, labels] += 100
    return ImageSet(images.astype(np.uint8), labels, ("red", "green", "blue"))


@pytest.fixture(scope="module")
def colours() -> Splits:
    return Splits("colours", coloured((10, 5, 3), 0), coloured((4, 4, 4), 1))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, factory in NARROW.items():
        monkeypatch.setitem(NETS, name, factory)


SETTINGS: dict[str, Any] = {"epochs": 2, "batch_size": 6, "device": "cpu", "precision": "fp32", "lr": 0.01}


@pytest.mark.usefixtures("narrow")
class TestMethods:
    @pytest.mark.parametrize(("net", "method"), CASES)
    def test_every_method_trains_every_network(self, net: str, method: str, colours: Splits, tmp_path: Path) -> None:
        run = fit(colours, **SETTINGS, net=net, method=method, run_dir=tmp_path / "run")
        assert run.record.recipe.net == net
        assert all(np.isfinite(run.record.curves.loss))

    @pytest.mark.parametrize(("net", "method"), [("densenet121", "bbn"), ("resnet12", "oltr")])
    def test_a_run_is_built_again_from_its_record(self, net: str, method: str, colours: Splits, tmp_path: Path) -> None:
        run = fit(colours, **SETTINGS, net=net, method=method, run_dir=tmp_path / "run")
        assert evaluate(run.path, splits=colours).accuracy == run.metrics.accuracy

    @pytest.mark.parametrize("net", ["resnet18", "resnet12", "densenet121"])
    def test_in_low_precision(self, net: str, colours: Splits, tmp_path: Path) -> None:
        settings = {**SETTINGS, "precision": "bf16"}
        run = fit(colours, **settings, net=net, method="mfw", drw=True, run_dir=tmp_path / "run")
        assert all(np.isfinite(run.record.curves.loss))

    @pytest.mark.parametrize("net", ["resnet12", "densenet121"])
    def test_a_run_goes_on_to_the_same_result(
        self,
        net: str,
        colours: Splits,
        tmp_path: Path,
        stop_after: Callable[[int], None],
        same_run: Callable[[Path, Path], None],
    ) -> None:
        settings = {**SETTINGS, "epochs": 3, "net": net, "method": "mfw"}
        whole = fit(colours, **settings, run_dir=tmp_path / "whole")
        stop_after(2)
        with pytest.raises(Stopped):
            fit(colours, **settings, run_dir=tmp_path / "parts")
        stop_after(0)
        parts = resume(tmp_path / "parts", splits=colours)
        same_run(whole.path, parts.path)

    def test_steps_that_are_undone_leave_no_trace(
        self,
        colours: Splits,
        tmp_path: Path,
        same_run: Callable[[Path, Path], None],
        rehearse: Callable[[], None],
    ) -> None:
        """What capturing does before it records: random layers count those steps no more than the statistics do."""
        settings = {**SETTINGS, "net": "resnet12", "method": "mfw"}
        plain = fit(colours, **settings, run_dir=tmp_path / "plain")

        rehearse()
        same_run(fit(colours, **settings, run_dir=tmp_path / "rehearsed").path, plain.path)

    @pytest.mark.gpu
    @pytest.mark.parametrize("net", NARROW)
    def test_captured_steps_are_those_of_eager_ones(self, net: str, colours: Splits, tmp_path: Path) -> None:
        settings = {**SETTINGS, "device": "cuda", "net": net, "method": "mfw"}
        eager, captured = (
            fit(colours, **settings, engine=engine, run_dir=tmp_path / engine) for engine in ("eager", "captured")
        )
        assert captured.record.environment.engine == "captured"
        wanted = eager.record.curves.loss
        assert captured.record.curves.loss == pytest.approx(wanted, rel=1e-2)

    def test_the_noise_of_a_run_is_its_seeds(self, colours: Splits, tmp_path: Path) -> None:
        runs = [fit(colours, **SETTINGS, net="resnet12", run_dir=tmp_path / str(n)) for n in range(2)]
        torch.rand(5)
        states = [load_file(run.path / "model.safetensors") for run in runs]
        assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
        assert states[0]["backbone.layer1.0.drop.calls"] == 6  # steps, and not evaluations


class TestLayers:
    @pytest.mark.parametrize("layer", ["group1", "backbone.layer2", "backbone.layer1.0.bn1"])
    def test_mixing_at_other_layers(self, layer: str, colours: Splits, tmp_path: Path, narrow: None) -> None:
        settings = {**SETTINGS, "net": "resnet18", "method": "mfw"}
        usual, other = (
            fit(colours, **settings, options=options, run_dir=tmp_path / str(number)).record
            for number, options in enumerate(({}, {"layer": layer}))
        )
        assert other.method.options["layer"] == layer
        assert other.curves.loss != usual.curves.loss

    def test_a_layer_that_is_not_there(self, colours: Splits, tmp_path: Path, narrow: None) -> None:
        with pytest.raises(ConfigError, match="layer 'group9' received, but this network mixes at input, group1"):
            fit(
                colours, **SETTINGS, net="resnet18", method="mfw", options={"layer": "group9"}, run_dir=tmp_path / "run"
            )
        assert not (tmp_path / "run").exists()


class TestPretrained:
    @pytest.fixture
    def weights(self, tmp_path: Path, narrow: None) -> Path:
        donor = build_net("resnet18", channels=3, classes=9, seed=5)
        torch.save(donor.backbone.state_dict(), tmp_path / "donor.pth")
        return tmp_path / "donor.pth"

    def test_a_run_starts_from_them_and_says_so(self, weights: Path, colours: Splits, tmp_path: Path) -> None:
        settings = {**SETTINGS, "epochs": 1, "net": "resnet18", "method": "erm", "lr": 1e-9}
        run = fit(colours, **settings, pretrained=str(weights), run_dir=tmp_path / "run")
        donor = torch.load(weights)
        torch.testing.assert_close(run.net.state_dict()["backbone.conv1.weight"], donor["conv1.weight"])
        assert run.record.pretrained.path == str(weights)
        assert len(run.record.pretrained.sha256) == 64
        weights.unlink()
        evaluate(run.path, splits=colours)  # needs them no longer

    def test_published_weights_bring_their_normalisation(
        self, colours: Splits, tmp_path: Path, stop_after: Callable[[int], None]
    ) -> None:
        stop_after(2)
        with pytest.raises(Stopped):
            fit(colours, **SETTINGS, net="efficientnet_lite0", pretrained="published", run_dir=tmp_path / "run")
        stop_after(0)
        run = resume(tmp_path / "run", splits=colours)
        assert run.record.recipe.mean == pytest.approx([127 / 255] * 3)
        assert run.record.recipe.std == pytest.approx([128 / 255] * 3)
        evaluate(run.path, splits=colours)  # without asking for the weights

    @pytest.mark.parametrize(("recipe", "momentum"), [("auto", 0.1), ("images", 0.01)])
    def test_statistics_follow_faster_where_the_recipe_says_so(
        self, recipe: str, momentum: float, colours: Splits
    ) -> None:
        spec = RunSpec("colours", net="efficientnet_lite0", pretrained="published", recipe=recipe)
        net = prepare(spec, splits=colours).build_net()
        assert {m.momentum for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)} == {momentum}

    def test_other_weights_are_not_gone_on_with(
        self, weights: Path, colours: Splits, tmp_path: Path, stop_after: Callable[[int], None]
    ) -> None:
        stop_after(2)
        with pytest.raises(Stopped):
            fit(colours, **SETTINGS, net="resnet18", pretrained=str(weights), run_dir=tmp_path / "run")
        stop_after(0)
        other = build_net("resnet18", channels=3, classes=9, seed=6)
        torch.save(other.backbone.state_dict(), weights)
        with pytest.raises(RunError, match=r"cannot go on: .*pretrained"):
            resume(tmp_path / "run", splits=colours)

    def test_wrong_weights_leave_no_folder_behind(self, weights: Path, colours: Splits, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="these pretrained weights are of another network"):
            fit(colours, **SETTINGS, net="resnet50", pretrained=str(weights), run_dir=tmp_path / "run")
        assert not (tmp_path / "run").exists()


class TestForeign:
    @pytest.mark.parametrize(
        ("net", "method"),
        [
            ("timm:test_vit", "mfw"),
            ("timm:test_efficientnet", "ldam"),
            ("torchvision:shufflenet_v2_x0_5", "manifold_mixup"),
        ],
    )
    def test_training(self, net: str, method: str, colours: Splits, tmp_path: Path, timm: ModuleType) -> None:
        run = fit(colours, **SETTINGS, net=net, method=method, run_dir=tmp_path / "run")
        assert all(np.isfinite(run.record.curves.loss))
        assert evaluate(run.path, splits=colours).accuracy == run.metrics.accuracy

    def test_a_size_it_cannot_take(self, colours: Splits, tmp_path: Path, timm: ModuleType) -> None:
        from procrustean.records import RunSpec

        config = RunSpec(source="colours", net="timm:test_convnext", epochs=1)
        with pytest.raises(ConfigError, match="timm:test_convnext cannot take images of 16 x 16 pixels"):
            prepare(config, splits=colours)


class TestKernels:
    """Hand-written ones exist for the units of the small residual networks."""

    GPU = Placement(torch.device("cuda"), "bf16", "for a test")

    @pytest.mark.parametrize(("net", "kernels"), [("resnet32", True), ("small", True), ("resnet50", False)])
    def test_where_they_are_used(self, net: str, kernels: bool) -> None:
        method = make_method("mfw", Problem((20, 5), "step"))
        assert choose_engine("auto", "auto", self.GPU, method, layers_of(net)).kernels is kernels

    def test_where_they_are_asked_for_in_vain(self) -> None:
        method = make_method("mfw", Problem((20, 5), "step"))
        with pytest.raises(
            ConfigError, match="kernels 'on' received, but this network has no layers that they are for"
        ):
            choose_engine("auto", "on", self.GPU, method, layers_of("resnet18"))


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("net", ["resnet12", "densenet121"])
def test_one_graph(net: str) -> None:
    """What the compiled engine asks of a network, with its random layers and at the layer where MFW mixes."""
    problem = Problem((6, 2), "step", layers=tuple(layers_of(net).groups))
    objective = make_method("mfw", problem).stages[0].objective
    model = build_net(net, channels=3, classes=2, seed=0)
    objective.bind(model)
    partner = torch.tensor([1, 0, 3, 2])
    y = torch.tensor([0, 0, 0, 1])
    batch = Batch(torch.randn(4, 3, 16, 16), y, partner, partner.clone(), {"mfw": torch.rand(4)})
    clock = Clock(torch.tensor(0), torch.tensor(0.1), 2)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    wanted = objective(model, batch, clock)
    model.load_state_dict(state)
    compiled = torch.compile(objective, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(model, batch, clock), wanted)

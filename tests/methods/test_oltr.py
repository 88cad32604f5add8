"""OLTR's attention, memory head, loss and the gradient of its centroids against slow references."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import Batch, Clock, Problem
from procrustean.balance.layers import find_layer
from procrustean.balance.samplers import class_aware
from procrustean.base import ConfigError
from procrustean.data import lr_table, recipe_for
from procrustean.engine.stage_order import stage_epochs
from procrustean.engine.training import reshape_for
from procrustean.methods import make_method
from procrustean.methods.oltr import MemoryHead, ModulatedAttention, Remember, averaging, squared_distances
from procrustean.nets import Classifier, build_net
from procrustean.records import RunSpec
from procrustean.runs.preparing import recipe_of

PROBLEM = Problem((50, 20, 5), "long_tailed", "cifar10")
LABELS = torch.tensor([0, 0, 0, 1, 1, 2])
CLOCK = Clock(torch.tensor(0), torch.tensor(0.1), 10)


def remembering(name: str = "small", seed: int = 0, channels: int = 1) -> Classifier:
    net = build_net(name, channels=channels, classes=3, seed=seed)
    reshape_for(net, make_method("oltr", PROBLEM), 1, seed)
    return net


def begun(x: Tensor, y: Tensor, net: Classifier) -> Classifier:
    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        yield from zip(x.split(4), y.split(4), strict=True)

    begin = make_method("oltr", PROBLEM).stages[1].begin
    assert begin is not None
    begin(net, batches)
    return net


def pictures(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def head(features: int = 5, classes: int = 3, spread: float = 1.0) -> MemoryHead:
    torch.manual_seed(3)
    made = MemoryHead(nn.Linear(features, classes)).double()
    with torch.no_grad():
        made.centroids.copy_(spread * pictures(classes, features, seed=5))
    return made


def slow_attention(layer: ModulatedAttention, x: Tensor, grid_of: Tensor, map_of: Tensor) -> Tensor:
    """One position at a time; the two matrices average the map to the grid and back."""
    images, channels, height, width = x.shape
    out = x.clone()
    for b in range(images):
        columns = [x[b, :, i, j] for i in range(height) for j in range(width)]
        theta = [layer.theta.weight[:, :, 0, 0] @ c + layer.theta.bias for c in columns]
        phi = [layer.phi.weight[:, :, 0, 0] @ c for c in columns]
        g = [layer.g.weight[:, :, 0, 0] @ c + layer.g.bias for c in columns]
        grid = torch.stack(columns, 1) @ grid_of
        mask = ((layer.spatial.weight @ grid.reshape(-1) + layer.spatial.bias) @ map_of).exp()
        mask = mask / mask.sum()
        for p in range(len(columns)):
            similar = torch.stack([(theta[p] @ other).exp() for other in phi])
            context = sum(s * value for s, value in zip(similar / similar.sum(), g, strict=True))
            out[b, :, p // width, p % width] += mask[p] * (layer.out.weight[:, :, 0, 0] @ context)
    assert channels == out.shape[1]
    return out


class TestAttention:
    def test_on_the_published_grid_it_equals_the_slow_reference(self) -> None:
        torch.manual_seed(0)
        layer, x = ModulatedAttention(4).double(), pictures(2, 4, 7, 7)
        same = torch.eye(49, dtype=torch.float64)
        torch.testing.assert_close(layer(x), slow_attention(layer, x, same, same))

    @pytest.mark.parametrize("size", [(2, 2), (8, 8), (3, 5), (1, 1)])
    def test_maps_of_other_sizes_are_averaged_to_the_grid_and_back(self, size: tuple[int, int]) -> None:
        torch.manual_seed(0)
        layer, x = ModulatedAttention(4).double(), pictures(2, 4, *size)
        to, back = averaging(size, (7, 7), x), averaging((7, 7), size, x)
        for matrix in (to, back):
            torch.testing.assert_close(matrix.sum(0), torch.ones_like(matrix[0]))
        torch.testing.assert_close(layer(x), slow_attention(layer, x, to, back))

    def test_averaging_is_that_of_the_pooling_layer(self) -> None:
        x = pictures(2, 3, 8, 6)
        wanted = nn.functional.adaptive_avg_pool2d(x, (7, 7)).flatten(2)
        torch.testing.assert_close(x.flatten(2) @ averaging((8, 6), (7, 7), x), wanted, rtol=1e-6, atol=1e-6)

    def test_weights_begin_with_the_published_spread(self) -> None:
        torch.manual_seed(0)
        layer = ModulatedAttention(256)
        for name, outputs in (("theta", 128), ("phi", 128), ("g", 128), ("out", 256)):
            conv = getattr(layer, name)
            assert conv.weight.std().item() == pytest.approx(math.sqrt(2 / outputs), rel=0.05)
            assert conv.bias is None or not conv.bias.any()


class TestNetwork:
    @pytest.mark.parametrize("name", ["small", "resnet20"])
    def test_layers_keep_their_published_names_and_weights(self, name: str) -> None:
        plain, net = build_net(name, channels=1, classes=3, seed=0), remembering(name)
        assert net.mixable == plain.mixable
        for layer in net.mixable:
            assert isinstance(find_layer(net, layer), nn.Module)
        state = net.state_dict()
        for key, value in plain.state_dict().items():
            assert torch.equal(state[key.replace("head.", "head.hallucinator.")], value), key

    def test_the_class_vectors_begin_within_the_published_bound(self) -> None:
        weight = remembering().head.weight
        assert 0.9 / 8 < weight.abs().max().item() <= 1 / 8

    def test_centroids_begin_as_means_in_evaluation_mode(self) -> None:
        x, net = pictures(6, 1, 8, 8).float(), remembering()
        statistics = copy.deepcopy(net.state_dict())
        begun(x, LABELS, net.train())
        assert net.training
        features = net.eval().backbone(x)
        for label in range(3):
            torch.testing.assert_close(net.head.centroids[label], features[label == LABELS].mean(0))
        changed = {key for key, value in net.state_dict().items() if not torch.equal(value, statistics[key])}
        assert changed == {"head.centroids"}

    def test_the_direct_feature_is_a_linear_layer_of_the_mean(self) -> None:
        x, net = pictures(4, 1, 8, 8), remembering().double().eval()
        z = x
        for name in net.backbone.groups:
            z = getattr(net.backbone, name)(z)
        mean = net.backbone.attention(z).flatten(2).sum(2) / 4
        wanted = (mean @ net.backbone.direct.weight.T + net.backbone.direct.bias).clamp_min(0)
        torch.testing.assert_close(net.backbone(x), wanted)


class TestHead:
    def test_scores_equal_the_slow_reference(self) -> None:
        made, features = head(), pictures(4, 5)
        for v, scores in zip(features, made(features), strict=True):
            shares = (made.hallucinator.weight @ v + made.hallucinator.bias).exp()
            recalled = sum(s * m for s, m in zip(shares / shares.sum(), made.centroids, strict=True))
            nearest = min(math.sqrt(((v - m) ** 2).sum().item()) for m in made.centroids)
            chosen = torch.tanh(made.selector.weight @ v + made.selector.bias)
            meta = 10 / nearest * (v + chosen * recalled)
            length = math.sqrt((meta**2).sum().item())
            for c, w in enumerate(made.weight):
                cosine = (meta @ w).item() / length / math.sqrt((w**2).sum().item())
                assert scores[c].item() == pytest.approx(16 * length / (1 + length) * cosine, rel=1e-9)

    def test_the_scores_do_not_move_the_centroids_but_the_reach_moves_the_feature(self) -> None:
        made, v = head(), pictures(4, 5).requires_grad_()
        made(v).square().sum().backward()
        assert made.centroids.grad is None
        assert torch.autograd.gradcheck(made, (v,))  # detaching the reach would fail it

    def test_a_feature_on_its_centroid_has_finite_scores_and_gradients(self) -> None:
        made = head()
        v = made.centroids.detach().clone().requires_grad_()
        scores = made(v)
        scores.sum().backward()
        assert v.grad is not None
        assert bool(scores.isfinite().all() and v.grad.isfinite().all())

    def test_distances_are_those_of_all_differences(self) -> None:
        a, b = pictures(4, 5), pictures(3, 5, seed=1)
        torch.testing.assert_close(squared_distances(a, b), (a[:, None] - b).square().sum(2))


def slow_terms(v: Tensor, y: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    attract, far = v.new_zeros(()), v.new_zeros(())
    for i in range(len(v)):
        for c in range(len(centroids)):
            squared = ((v[i] - centroids[c]) ** 2).sum()
            if c == y[i]:
                attract = attract + 0.5 * squared / len(v)
            else:
                far = far + squared / (len(v) * len(centroids))
    return attract, torch.clamp(10 - far, min=0)


class TestLoss:
    @pytest.mark.parametrize("spread", [0.3, 10.0])  # below the margin, and beyond it
    @pytest.mark.parametrize("plain", [False, True])
    def test_value_and_gradients_equal_the_slow_reference(self, plain: bool, spread: float) -> None:
        v = (spread * pictures(6, 5)).requires_grad_()
        m = (spread * pictures(3, 5, seed=1)).requires_grad_()
        attract, repel = slow_terms(v, LABELS, m)
        assert (repel.item() > 0) == (spread < 1)
        loss = Remember(plain).of_centroids(v, LABELS, m)
        assert loss.item() == pytest.approx(0.01 * (attract.item() + 0.01 * repel.item()), rel=1e-12)
        of_v, of_m = torch.autograd.grad(loss, (v, m))
        wanted_v, wanted_m = torch.autograd.grad(0.01 * (attract + 0.01 * repel), (v, m), retain_graph=True)
        torch.testing.assert_close(of_v, wanted_v)
        if not plain:
            wanted_m = 0.01 * 0.01 * torch.autograd.grad(repel, m)[0]
            for c in range(3):
                mine = [i for i in range(6) if LABELS[i] == c]
                wanted_m[c] += sum((m[c] - v[i]).detach() for i in mine) / ((1 + len(mine)) * 6)
        torch.testing.assert_close(of_m, wanted_m)

    def test_the_objective_adds_cross_entropy_of_the_scores(self) -> None:
        x = pictures(6, 1, 8, 8)
        net = begun(x, LABELS, remembering().double()).eval()
        partner = torch.arange(6)
        loss = Remember(False)(net, Batch(x, LABELS, partner, partner, {}), CLOCK)
        features = net.backbone(x)
        attract, repel = slow_terms(features, LABELS, net.head.centroids)
        scores = net(x).log_softmax(1)
        wanted = -sum(scores[i, LABELS[i]].item() for i in range(6)) / 6 + 0.01 * (attract + 0.01 * repel).item()
        assert loss.item() == pytest.approx(wanted, rel=1e-9)


def test_the_second_stage_is_the_published_one() -> None:
    features, memory = make_method("oltr", PROBLEM).stages
    assert (features.sampler, features.reshape, features.begin) == (None, None, None)
    assert (memory.sampler, memory.trainable, memory.norm) == (class_aware, "all", "train")
    assert memory.rates == {"backbone": 0.1, "head.centroids": 0.1}


def test_on_cifar_the_memory_comes_on_top_of_a_whole_training() -> None:
    method = make_method("oltr", PROBLEM)
    own = recipe_for("cifar10").changed(method.own or {})
    assert stage_epochs(method, own.epochs) == [200, 60]
    assert lr_table(own, 200)[158:162] == pytest.approx([0.1, 0.1, 0.001, 0.001])
    second = own.changed(method.stages[1].recipe)
    assert second.weight_decay == 5e-4
    assert lr_table(second, 60) == pytest.approx([0.1] * 20 + [0.01] * 20 + [0.001] * 20)
    assert recipe_of(RunSpec("cifar10", method="oltr")).epochs == 260


def test_class_weights_are_refused() -> None:
    with pytest.raises(ConfigError, match="method 'oltr' takes no drw: it balances the classes"):
        make_method("oltr", PROBLEM, {"drw": True})

"""Layers that drop at random: shares, scales, and numbers that belong to the run."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from procrustean.nets.noise import DropBlock, Dropout, DropPath, Noise


def seeded(layer_seed: int, make: type[Noise], *arguments: float, **settings: object) -> Noise:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(layer_seed)
        return make(*arguments, **settings)


class TestNumbers:
    def test_uniform(self) -> None:
        noise = seeded(0, Dropout, 0.5)
        u = noise.uniforms(200_000).double()
        assert 0 <= u.min() < 1e-4
        assert 1 - 1e-4 < u.max() < 1
        assert u.mean().item() == pytest.approx(0.5, abs=0.003)
        assert u.var().item() == pytest.approx(1 / 12, abs=0.001)
        counts = torch.histc(u, 64, 0, 1)
        assert ((counts - 3125).square() / 3125).sum() < 120  # chi-squared with 63 degrees of freedom

    def test_neighbours_and_calls_know_nothing_of_each_other(self) -> None:
        noise = seeded(0, Dropout, 0.5)
        rows = []
        for _ in range(4):
            noise(torch.ones(1))
            rows.append(noise.uniforms(50_000))
        for one, other in [
            (rows[0][1:], rows[0][:-1]),
            (rows[0], rows[1]),
            (rows[1], rows[3]),
            (rows[0][256:], rows[0][:-256]),
        ]:
            assert abs(torch.corrcoef(torch.stack((one, other)))[0, 1]) < 0.02

    def test_a_function_of_key_and_call(self) -> None:
        x = torch.randn(50, 8)
        layers = [seeded(seed, Dropout, 0.3) for seed in (0, 0, 1)]
        first = [layer(x) for layer in layers]
        assert torch.equal(first[0], first[1])
        assert not torch.equal(first[0], first[2])
        second = layers[0](x)
        assert not torch.equal(second, first[0])
        resumed = seeded(5, Dropout, 0.3)
        resumed.load_state_dict({"key": layers[1].key, "calls": layers[1].calls})
        assert torch.equal(resumed(x), second)

    def test_no_generator_is_used(self) -> None:
        layer = Dropout(0.5)
        before = torch.get_rng_state()
        layer(torch.ones(4, 4))
        assert torch.equal(torch.get_rng_state(), before)

    def test_a_step_that_is_undone_takes_the_count_back(self) -> None:
        """Counts are floating-point buffers, which the trainer keeps and restores with the statistics."""
        assert all(buffer.is_floating_point() for buffer in DropBlock(0.1).buffers())


LAYERS = (seeded(0, Dropout, 0.3), seeded(1, DropPath, 0.3), seeded(2, DropBlock, 0.3, ramp=1))


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
class TestAll:
    def test_evaluation_changes_and_counts_nothing(self, layer: Noise) -> None:
        x, calls = torch.randn(3, 4, 6, 6), layer.calls.clone()
        layer.eval()
        assert torch.equal(layer(x), x)
        assert torch.equal(layer.calls, calls)
        layer.train()

    def test_the_mean_stays(self, layer: Noise) -> None:
        means = torch.stack([layer(torch.ones(256, 8, 6, 6)).mean() for _ in range(20)])
        assert means.mean().item() == pytest.approx(1, abs=0.03)  # 3 deviations of the one that drops whole samples

    def test_gradients_flow_through_what_is_kept(self, layer: Noise) -> None:
        x = torch.ones(16, 4, 8, 8, requires_grad=True)
        y = layer(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(gradient, y.detach())

    @pytest.mark.filterwarnings("ignore")
    def test_one_graph(self, layer: Noise) -> None:
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        x, calls = torch.ones(4, 4, 8, 8), layer.calls.clone()
        wanted = layer(x)
        layer.calls.copy_(calls)
        assert torch.equal(compiled(x), wanted)
        assert layer.calls == calls + 1


def test_dropout() -> None:
    kept = Dropout(0.3)(torch.ones(100, 100))
    assert kept.unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert (kept == 0).float().mean().item() == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(("scaled", "value"), [(True, 1 / 0.6), (False, 1.0)])
def test_drop_path_drops_whole_samples(scaled: bool, value: float) -> None:
    kept = DropPath(0.4, scaled=scaled)(torch.ones(2000, 3, 2))
    assert bool((kept == kept[:, :1, :1]).all())
    assert kept.max().item() == pytest.approx(value)
    assert (kept[:, 0, 0] == 0).float().mean().item() == pytest.approx(0.4, abs=0.04)


class TestDropBlock:
    def test_squares_by_hand(self) -> None:
        layer = DropBlock(0.2, size=3, ramp=1)
        x = torch.randn(5, 2, 8, 8)
        y = layer(x)
        corners = layer.uniforms(5, 2, 6, 6) < 0.2 / 9 * 64 / 36
        kept = torch.ones_like(x)
        for n, c, row, column in corners.nonzero().tolist():
            kept[n, c, row : row + 3, column : column + 3] = 0
        assert 0 < kept.mean() < 1
        torch.testing.assert_close(y, x * kept / kept.mean())

    def test_the_share_grows_with_the_steps(self) -> None:
        layer = DropBlock(0.2, size=2, ramp=100)
        shares = [(layer(torch.ones(200, 8, 10, 10)) == 0).float().mean().item() for _ in range(120)]
        assert shares[0] < 0.01
        assert shares[49] == pytest.approx(0.1, abs=0.02)
        assert shares[99] == pytest.approx(0.2, abs=0.03)
        assert shares[119] == pytest.approx(shares[99], abs=0.02)

    @pytest.mark.parametrize("side", [1, 2, 5])
    def test_small_maps(self, side: int) -> None:
        y = DropBlock(0.1, ramp=1)(torch.ones(50, 20, side, side))
        assert bool(y.isfinite().all())
        # A square of five covers a map of five: such a map is dropped as a whole.
        assert bool((y == y[:, :, :1, :1]).all())


def test_in_low_precision() -> None:
    layer: nn.Module
    for layer in (Dropout(0.1), DropPath(0.1), DropBlock(0.1)):
        x: Tensor = torch.ones(4, 4, 8, 8, dtype=torch.bfloat16)
        assert layer(x).dtype == torch.bfloat16

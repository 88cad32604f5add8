"""Blending a batch with its partners: values, gradients, hooks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import Mix, blend
from procrustean.balance.mixing import MixPoint, inverse_permutation
from procrustean.base import LayerError

SHAPES = [(7,), (7, 3), (7, 2, 3), (7, 2, 3, 4)]


def random_mix(size: int, seed: int = 0) -> Mix:
    generator = torch.Generator().manual_seed(seed)
    partner = torch.randperm(size, generator=generator)
    return Mix(partner, inverse_permutation(partner), torch.rand(size, generator=generator) * 0.5)


def naive(z: Tensor, mix: Mix) -> Tensor:
    weights = mix.weight.to(z.dtype)
    rows = [
        (1 - weights[i]) * z[i] + weights[i] * z[int(mix.partner[i])]  # one sample at a time
        for i in range(len(z))
    ]
    return torch.stack(rows)


@pytest.mark.parametrize("size", [0, 1, 2, 9])
def test_inverse_permutation(size: int) -> None:
    partner = torch.randperm(size, generator=torch.Generator().manual_seed(size))
    inverse = inverse_permutation(partner)
    assert torch.equal(partner[inverse], torch.arange(size))
    assert torch.equal(inverse[partner], torch.arange(size))


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_against_a_loop(shape: tuple[int, ...]) -> None:
    mix = random_mix(shape[0])
    z = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    twin = z.detach().clone().requires_grad_()
    blended, wanted = blend(z, mix), naive(twin, mix)
    torch.testing.assert_close(blended, wanted, atol=1e-12, rtol=0)
    upstream = torch.randn(shape, dtype=torch.float64)
    blended.backward(upstream)
    wanted.backward(upstream)
    torch.testing.assert_close(z.grad, twin.grad, atol=1e-12, rtol=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradcheck(shape: tuple[int, ...]) -> None:
    mix = random_mix(shape[0])
    z = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: blend(z, mix), (z,))
    assert torch.autograd.gradgradcheck(lambda z: blend(z, mix), (z,))


def test_second_order_gradient_of_a_nonlinear_function() -> None:
    mix = random_mix(5)
    z = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda z: blend(z.sin(), mix).pow(3), (z,))


def test_weight_zero_returns_the_own_row_to_the_bit() -> None:
    partner = torch.tensor([1, 2, 0])
    mix = Mix(partner, inverse_permutation(partner), torch.tensor([0.0, 0.25, 0.0]))
    z = torch.randn(3, 50)
    blended = blend(z, mix)
    assert torch.equal(blended[[0, 2]], z[[0, 2]])
    assert not torch.equal(blended[1], z[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_format_of_the_feature_is_kept(dtype: torch.dtype) -> None:
    mix = random_mix(6)
    z = torch.randn(6, 4).to(dtype)
    blended = blend(z, mix)
    assert blended.dtype == dtype
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(
        blended.double(), naive(z.double(), mix), atol=max(tolerance, 1e-6), rtol=max(tolerance, 1e-6)
    )


def test_channels_last_memory_is_kept() -> None:
    mix = random_mix(4)
    plain = torch.randn(4, 8, 5, 3, dtype=torch.float64, requires_grad=True)
    z = plain.detach().to(memory_format=torch.channels_last).requires_grad_()
    blended, wanted = blend(z, mix), naive(plain, mix)
    assert blended.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(blended, wanted, atol=1e-12, rtol=0)
    upstream = torch.randn(4, 8, 5, 3, dtype=torch.float64)
    wanted.backward(upstream)
    blended.backward(upstream.to(memory_format=torch.channels_last))
    torch.testing.assert_close(z.grad, plain.grad, atol=1e-12, rtol=0)


class Outputs(nn.Module):
    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value

    def forward(self, x: Tensor) -> object:
        return self.value


def test_a_point_without_a_mix_changes_nothing_and_can_be_removed() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    keys = list(model.state_dict())
    x = torch.randn(4, 3)
    plain = model(x)
    point = MixPoint(model[0], "0")
    assert list(model.state_dict()) == keys
    assert torch.equal(model(x), plain)
    point.mix = random_mix(4)
    torch.testing.assert_close(model(x), blend(model[0].forward(x), point.mix).tanh())
    assert not torch.equal(model(x), plain)
    point.remove()
    assert torch.equal(model(x), plain)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ((None, torch.zeros(4, 2)), "layer 'neck' returns tuple that does not begin with a floating-point tensor"),
        ({"out": torch.zeros(4, 2)}, "layer 'neck' returns dict"),
        (torch.zeros(4, 2, dtype=torch.int64), "layer 'neck' returns Tensor, not a floating-point tensor"),
        (torch.tensor(1.0), r"returns shape \(\) for 4 labels"),
        (torch.zeros(8, 2), r"returns shape \(8, 2\) for 4 labels; its first dimension"),
    ],
)
def test_outputs_that_cannot_be_mixed(output: object, message: str) -> None:
    layer = Outputs(output)
    point = MixPoint(layer, "neck")
    point.mix = random_mix(4)
    with pytest.raises(LayerError, match=message):
        layer(torch.zeros(4, 2))

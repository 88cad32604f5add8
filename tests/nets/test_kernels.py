"""The hand-written kernels against float64 references: on a GPU, and on the CPU through Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")

#: images, input channels, output channels, side, stride, residual
LAYERS = [
    (2, 3, 16, 8, 1, False),
    (2, 16, 16, 8, 1, False),
    (2, 16, 16, 8, 1, True),
    (4, 16, 32, 16, 2, False),
    (2, 32, 32, 8, 1, True),
    (3, 32, 64, 16, 2, False),
    (2, 64, 64, 8, 1, True),
]
#: The interpreter takes equally long for a program of any size, and most programs of a layer only sum a few numbers of
#: its weights' gradient. These layers, with fewer and with more channels than such a program has numbers, have them all
#: interpreted; for the others the programs are fewer and larger.
USUAL_SUMS = [(2, 3, 16, 8, 1, False), (3, 32, 64, 16, 2, False)]


def channels_last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=torch.channels_last)


def layer_inputs(
    images: int, ci: int, co: int, side: int, stride: int, residual: bool, dtype: torch.dtype, device: str
) -> tuple[list[Tensor | None], Tensor]:
    """x, weight, gamma, beta, residual; and the gradient from above."""
    generator = torch.Generator().manual_seed(images * ci + co + side)
    out = (side - 1) // stride + 1

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    x = channels_last(normal(images, ci, side, side)).to(device, dtype).requires_grad_(ci >= 16)
    weight = channels_last(0.2 * normal(co, ci, 3, 3)).to(device, dtype).requires_grad_()
    gamma = (0.5 + torch.rand(co, generator=generator)).to(device).requires_grad_()
    beta = normal(co).to(device).requires_grad_()
    added = channels_last(normal(images, co, out, out)).to(device, dtype).requires_grad_() if residual else None
    return [x, weight, gamma, beta, added], channels_last(normal(images, co, out, out)).to(device, dtype)


def reference(inputs: list[Tensor | None], upstream: Tensor, stride: int) -> tuple[list[Tensor], Tensor, Tensor]:
    """Output and gradients, running mean, running variance, in float64 by PyTorch's own operations."""
    twins = [None if t is None else t.detach().double().requires_grad_(t.requires_grad) for t in inputs]
    x, weight, gamma, beta, residual = twins
    assert x is not None
    assert weight is not None
    mean, variance = torch.zeros_like(gamma), torch.ones_like(gamma)
    out = F.batch_norm(F.conv2d(x, weight, stride=stride, padding=1), mean, variance, gamma, beta, True, 0.1, 1e-5)
    out = F.relu(out if residual is None else out + residual)
    wanted = [t for t in twins if t is not None and t.requires_grad]
    return [out, *torch.autograd.grad(out, wanted, upstream.double())], mean, variance


def fresh_norm(gamma: Tensor, beta: Tensor) -> Any:
    from procrustean.nets.kernels.passes import Norm

    tickets = torch.zeros(2, dtype=torch.int32, device=gamma.device)
    return Norm(gamma, beta, torch.zeros_like(gamma), torch.ones_like(gamma), 0.1, 1e-5, tickets)


def block_distances(device: str, dtype: torch.dtype, images: int, channels: int, side: int) -> list[float]:
    """Relative distances to float64 of a residual block's output and gradients; statistics are checked on the way."""
    from procrustean.nets.kernels.conv_bn_relu import ResidualBlock

    sizes = (images, channels, channels, side, 1)
    (x, *first, _), upstream = layer_inputs(*sizes, False, dtype, device)
    (_, *second, _), _ = layer_inputs(*sizes[:-2], side + 1, 1, False, dtype, device)
    inputs = [x, *first, *second]
    norms = [fresh_norm(*first[1:]), fresh_norm(*second[1:])]
    out = ResidualBlock.apply(*inputs, *norms)
    found = [out, *torch.autograd.grad(out, inputs, upstream)]
    assert not any(norm.tickets.any() for norm in norms)

    twins = [t.detach().double().requires_grad_() for t in inputs]
    running = [(torch.zeros_like(twins[2]), torch.ones_like(twins[2])) for _ in norms]
    z = twins[0]
    for (weight, gamma, beta), (mean, variance) in zip((twins[1:4], twins[4:7]), running, strict=True):
        y = F.conv2d(z, weight, padding=1)
        z = F.batch_norm(y, mean, variance, gamma, beta, True, 0.1, 1e-5)
        z = F.relu(z) if weight is twins[1] else F.relu(z + twins[0])
    wanted = [z, *torch.autograd.grad(z, twins, upstream.double())]
    # The input of the second normalisation has been rounded already.
    for norm, (mean, variance), bound in zip(
        norms, running, (1e-5, 1e-5 if dtype == torch.float32 else 1e-2), strict=True
    ):
        assert distance(norm.running_mean, mean) < bound
        assert distance(norm.running_var, variance) < bound
    return [distance(f, w) for f, w in zip(found, wanted, strict=True)]


def fused(inputs: list[Tensor | None], upstream: Tensor, stride: int) -> tuple[list[Tensor], Tensor, Tensor]:
    from procrustean.nets.kernels.conv_bn_relu import ConvBnReLU

    x, weight, gamma, beta, residual = inputs
    norm = fresh_norm(gamma, beta)
    mean, variance = norm.running_mean, norm.running_var
    out = ConvBnReLU.apply(x, weight, gamma, beta, residual, norm, stride)
    wanted = [t for t in inputs if t is not None and t.requires_grad]
    return [out, *torch.autograd.grad(out, wanted, upstream)], mean, variance


def group_distances(device: str, dtype: torch.dtype, layer: tuple[Any, ...], groups: int = 4) -> list[float]:
    """Relative distances to float64 of the output and gradients of a unit with group normalisation."""
    from procrustean.nets.kernels.conv_gn_relu import ConvGnReLU

    inputs, upstream = layer_inputs(*layer, dtype, device)
    stride, tickets = layer[4], torch.zeros(2, dtype=torch.int32, device=device)
    x, weight, gamma, beta, residual = inputs
    out = ConvGnReLU.apply(x, weight, gamma, beta, residual, groups, 1e-5, tickets, stride)
    found = [out, *torch.autograd.grad(out, [t for t in inputs if t is not None and t.requires_grad], upstream)]
    assert not tickets.any()
    twins = [None if t is None else t.detach().double().requires_grad_(t.requires_grad) for t in inputs]
    z = F.group_norm(F.conv2d(twins[0], twins[1], stride=stride, padding=1), groups, twins[2], twins[3], 1e-5)
    z = F.relu(z if twins[4] is None else z + twins[4])
    wanted = [z, *torch.autograd.grad(z, [t for t in twins if t is not None and t.requires_grad], upstream.double())]
    return [distance(f, w) for f, w in zip(found, wanted, strict=True)]


def distance(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.detach().double(), wanted.detach().double()
    return float((found - wanted).norm() / wanted.norm())


def worst_distance(device: str, dtype: torch.dtype, layer: tuple[Any, ...]) -> tuple[float, float]:
    """Largest relative distance to float64 of the output and of the gradients and statistics."""
    inputs, upstream = layer_inputs(*layer, dtype, device)
    stride = layer[4]
    found, mean, variance = fused(inputs, upstream, stride)
    wanted, wanted_mean, wanted_variance = reference(inputs, upstream, stride)
    assert distance(mean, wanted_mean) < 1e-5
    assert distance(variance, wanted_variance) < 1e-5
    gradients = max(distance(f, w) for f, w in zip(found[1:], wanted[1:], strict=True))
    return distance(found[0], wanted[0]), gradients


INTERPRETED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("test_kernels", {path!r})
tests = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tests)
from procrustean.nets.kernels import passes
usual = passes.WEIGHT_SUMS_BLOCK
for layer in tests.LAYERS:
    passes.WEIGHT_SUMS_BLOCK = usual if layer in tests.USUAL_SUMS else 256
    output, gradients = tests.worst_distance("cpu", tests.torch.float32, layer)
    assert output < 1e-6 and gradients < 1e-6, (layer, output, gradients)
    passes.WEIGHT_SUMS_BLOCK = 256
    distances = tests.group_distances("cpu", tests.torch.float32, layer)
    assert max(distances) < 2e-6, ("groups", layer, distances)
for channels in (16, 32, 64):
    distances = tests.block_distances("cpu", tests.torch.float32, 3, channels, 8)
    assert max(distances) < 2e-6, (channels, distances)
tests.check_combine("cpu", tests.torch.float32, 1e-6)
print("all layers agree")
"""


@pytest.mark.slow
@needs_triton
def test_every_layer_through_the_interpreter() -> None:
    """Float32 on the CPU: the arithmetic of the kernels, line by line, without a GPU."""
    # The interpreter is chosen when Triton is imported, hence a process of its own.
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    program = INTERPRETED.format(path=str(Path(__file__)))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "all layers agree" in done.stdout


def check_combine(device: str, dtype: torch.dtype, tolerance: float) -> None:
    from procrustean.balance.mix_kernel import combine_rows, covers

    for shape in ((5, 3, 4, 6), (5, 5000), (7,)):
        rows = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(device, dtype)
        if rows.dim() == 4:
            rows = channels_last(rows)
        assert covers(rows)
        own, other = torch.rand(2, len(rows), generator=torch.Generator().manual_seed(1)).to(device)
        index = torch.randperm(len(rows), generator=torch.Generator().manual_seed(2)).to(device)
        view = (-1, *[1] * (rows.dim() - 1))
        wanted = own.double().view(view) * rows.double() + other.double().view(view) * rows[index].double()
        found = combine_rows(rows, own, other, index)
        assert found.stride() == rows.stride()
        assert distance(found, wanted) < tolerance
    assert not covers(torch.zeros(4, 6, device=device).t())


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("layer", [*LAYERS, (128, 16, 16, 32, 1, True), (118, 64, 64, 8, 1, True)])
def test_bf16_on_the_gpu_is_as_close_as_the_librarys(layer: tuple[Any, ...]) -> None:
    output, gradients = worst_distance("cuda", torch.bfloat16, layer)
    # bf16 keeps 8 bits; a ReLU that flips on a rounding moves single gradients, hence the wider bound there.
    assert output < 5e-3
    assert gradients < 8e-2


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("layer", [*LAYERS, (128, 16, 16, 32, 1, True), (118, 64, 64, 8, 1, True)])
def test_group_normalisation_in_bf16_on_the_gpu(layer: tuple[Any, ...]) -> None:
    output, *gradients = group_distances("cuda", torch.bfloat16, layer)
    assert output < 5e-3
    assert max(gradients) < 8e-2


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize(("images", "channels", "side"), [(128, 16, 32), (118, 32, 16), (5, 64, 8), (128, 64, 8)])
def test_a_residual_block_in_bf16_on_the_gpu(images: int, channels: int, side: int) -> None:
    output, *gradients = block_distances("cuda", torch.bfloat16, images, channels, side)
    assert output < 1e-2
    assert max(gradients) < 8e-2


@needs_triton
@pytest.mark.gpu
def test_repeated_calls_give_the_same_bits() -> None:
    inputs, upstream = layer_inputs(64, 32, 32, 16, 1, True, torch.bfloat16, "cuda")
    first, second = fused(inputs, upstream, 1)[0], fused(inputs, upstream, 1)[0]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@needs_triton
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_combine_on_the_gpu(dtype: torch.dtype) -> None:
    check_combine("cuda", dtype, {torch.float32: 1e-6}.get(dtype, 5e-3))


@needs_triton
@pytest.mark.parametrize(
    ("dtype", "outputs", "reason"),
    [(torch.float32, 16, "float32"), (torch.bfloat16, 48, "48 channels"), (torch.bfloat16, 16, "no GPU")],
)
def test_layers_the_kernels_do_not_cover(dtype: torch.dtype, outputs: int, reason: str) -> None:
    from procrustean.nets.kernels.passes import supported

    x, weight = torch.zeros(2, 16, 8, 8, dtype=dtype), torch.zeros(outputs, 16, 3, 3, dtype=dtype)
    assert not supported(x, weight, 1), reason


@needs_triton
@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_hook_on_a_fused_module_is_not_lost(norm: str, when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from procrustean.nets.blocks import ConvGroupNormReLU, ConvNormReLU, use_fused_kernels

    unit = ConvNormReLU(3, 16) if norm == "batch" else ConvGroupNormReLU(3, 16, groups=4)
    use_fused_kernels(unit, True)
    monkeypatch.setattr(type(unit), "covered", lambda self, x: True)
    assert unit.can_fuse(torch.randn(2, 3, 8, 8))
    seen: list[nn.Module] = []
    if when == "before":
        unit.norm.register_forward_pre_hook(lambda module, args: seen.append(module))
    else:
        unit.norm.register_forward_hook(lambda module, args, output: seen.append(module))
    unit(torch.randn(2, 3, 8, 8))
    assert seen == [unit.norm]

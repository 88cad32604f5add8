"""The state of a network as flat tensors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from procrustean.engine.optimizer import FlatBuffers, FlatParameters
from procrustean.methods.deconfound import CausalHead
from procrustean.nets import Classifier, build_net
from procrustean.nets.classifier import CosineHead

LOW = [None, torch.bfloat16]


def made(head: type[nn.Module] | None = None) -> Classifier:
    return build_net("small", channels=3, classes=4, seed=0, head=head)


def names_of(net: nn.Module) -> list[str]:
    return [name for name, _ in net.named_parameters()]


def shared_storage(tensors: Iterator[Tensor]) -> bool:
    places = [t.untyped_storage().data_ptr() for t in tensors]
    return len(set(places)) < len(places)


@pytest.mark.parametrize("low", LOW)
class TestParameters:
    def test_masters_keep_every_value(self, low: torch.dtype | None) -> None:
        net, twin = made(), made()
        flat = FlatParameters(net, names_of(net), low)
        assert flat.master.dtype == torch.float32
        assert flat.master.shape == (sum(p.numel() for p in twin.parameters()),)
        wanted = dict(twin.named_parameters())
        found = dict(flat.named(flat.master))
        assert found.keys() == wanted.keys()
        for name, value in found.items():
            assert torch.equal(value, wanted[name]), name

    def test_the_network_computes_the_same(self, low: torch.dtype | None) -> None:
        net, twin = made(), made()
        FlatParameters(net, names_of(net), low)
        x = torch.randn(4, 3, 8, 8)
        with torch.autocast("cpu", torch.bfloat16, enabled=low is not None):
            found, wanted = net(x), twin(x)
        torch.testing.assert_close(found, wanted, atol=1e-5 if low is None else 0.02, rtol=1e-5)

    def test_keys_shapes_and_identity_stay(self, low: torch.dtype | None) -> None:
        net = made()
        shapes = {name: value.shape for name, value in net.state_dict().items()}
        before = dict(net.named_parameters())
        FlatParameters(net, names_of(net), low)
        assert {name: value.shape for name, value in net.state_dict().items()} == shapes
        assert list(net.state_dict()) == list(shapes)
        assert all(p is before[name] for name, p in net.named_parameters())

    def test_convolutions_are_channels_last(self, low: torch.dtype | None) -> None:
        net = made()
        flat = FlatParameters(net, names_of(net), low)
        for name, value in [*net.named_parameters(), *flat.named(flat.master)]:
            if value.dim() == 4:
                assert value.is_contiguous(memory_format=torch.channels_last), name

    def test_working_copies_follow_the_masters(self, low: torch.dtype | None) -> None:
        net = made()
        flat = FlatParameters(net, names_of(net), low)
        with torch.no_grad():
            flat.master.add_(torch.linspace(0.1, 1.0, len(flat.master)))
        flat.refresh()
        for name, master in flat.named(flat.master):
            parameter = net.get_parameter(name)
            assert torch.equal(parameter, master.to(parameter.dtype)), name

    def test_gradients_are_collected_in_place(self, low: torch.dtype | None) -> None:
        net = made()
        flat = FlatParameters(net, names_of(net), low)
        gradients = [torch.randn_like(p) for p in flat.parameters]
        gathered = flat.collect(gradients)
        assert gathered.dtype == torch.float32
        assert gathered.data_ptr() == flat.collect(gradients).data_ptr()
        by_name = dict(zip(flat.names, gradients, strict=True))
        for name, value in flat.named(gathered):
            assert torch.equal(value, by_name[name].float()), name

    def test_released_parameters_are_ordinary_again(self, low: torch.dtype | None) -> None:
        net = made()
        flat = FlatParameters(net, names_of(net), low)
        with torch.no_grad():
            flat.master.mul_(1.01)
        flat.refresh()
        wanted = {name: value.clone() for name, value in flat.named(flat.master)}
        flat.release()
        assert not shared_storage(p for p in net.parameters())
        for name, parameter in net.named_parameters():
            assert parameter.dtype == torch.float32
            assert parameter.is_contiguous(), name
            assert torch.equal(parameter, wanted[name]), name
            assert parameter.untyped_storage().nbytes() == 4 * parameter.numel()
        with torch.no_grad():
            flat.master.zero_()
        assert torch.equal(net.head.weight, wanted["head.weight"])
        net(torch.randn(2, 3, 8, 8)).sum().backward()

    def test_only_the_named_part(self, low: torch.dtype | None) -> None:
        net, twin = made(), made()
        flat = FlatParameters(net, ["head.weight", "head.bias"], low)
        assert sorted(name for name, _ in flat.named(flat.master)) == ["head.bias", "head.weight"]
        assert len(flat.master) == 64 * 4 + 4
        for name, value in net.backbone.named_parameters():
            assert value.dtype == torch.float32
            assert torch.equal(value, twin.backbone.get_parameter(name))


class TestLowPrecision:
    def test_convolutions_and_linear_layers_only(self) -> None:
        net = made()
        FlatParameters(net, names_of(net), torch.bfloat16)
        low = {name for name, p in net.named_parameters() if p.dtype == torch.bfloat16}
        assert low == {
            "backbone.group1.conv.weight",
            "backbone.group2.conv.weight",
            "backbone.group3.conv.weight",
            "head.weight",
            "head.bias",
        }

    def test_a_cosine_head_stays_in_float32(self) -> None:
        net = made(CosineHead)
        FlatParameters(net, names_of(net), torch.bfloat16)
        assert net.head.weight.dtype == torch.float32

    def test_without_it_the_parameters_are_the_masters(self) -> None:
        net = made()
        flat = FlatParameters(net, names_of(net), None)
        with torch.no_grad():
            flat.master.fill_(0.25)
        assert all(bool((p == 0.25).all()) for p in net.parameters())


class TestBuffers:
    def test_values_and_keys_stay(self) -> None:
        net, twin = made(), made()
        net(torch.randn(4, 3, 8, 8))
        twin.load_state_dict(net.state_dict())
        FlatBuffers(net, torch.device("cpu"))
        assert list(net.state_dict()) == list(twin.state_dict())
        for name, value in twin.state_dict().items():
            assert torch.equal(net.state_dict()[name], value)
            assert net.state_dict()[name].dtype == value.dtype

    def test_they_are_views_of_one_tensor_that_training_moves(self) -> None:
        net = made()
        buffers = FlatBuffers(net, torch.device("cpu"))
        assert buffers.flat.shape == (2 * (16 + 32 + 64),)
        before = buffers.flat.clone()
        net(torch.randn(4, 3, 8, 8))
        assert not torch.equal(buffers.flat, before)

    @pytest.mark.parametrize("good", [True, False])
    def test_restored_unless_good(self, good: bool) -> None:
        net = made()
        buffers = FlatBuffers(net, torch.device("cpu"))
        net(torch.randn(4, 3, 8, 8))
        before = {name: value.clone() for name, value in net.named_buffers() if value.is_floating_point()}
        buffers.remember()
        net(torch.full((4, 3, 8, 8), torch.nan))
        buffers.restore_unless(torch.tensor(good))
        for name, value in before.items():
            assert torch.equal(net.get_buffer(name), value) is not good, name

    def test_restored_in_any_case(self) -> None:
        net = made().train()
        buffers = FlatBuffers(net, torch.device("cpu"))
        before = buffers.flat.clone()
        buffers.remember()
        net(torch.randn(4, 3, 8, 8))
        assert not torch.equal(buffers.flat, before)
        buffers.restore()
        assert torch.equal(buffers.flat, before)

    def test_a_buffer_may_change_after_batch_normalisation_has_saved_its_own(self) -> None:
        net = made(CausalHead).train()
        FlatBuffers(net, torch.device("cpu"))
        net(torch.randn(4, 3, 8, 8)).sum().backward()
        assert net.head.average.any()

    def test_a_network_without_buffers(self) -> None:
        buffers = FlatBuffers(nn.Linear(2, 2), torch.device("cpu"))
        buffers.remember()
        buffers.restore_unless(torch.tensor(False))
        assert len(buffers.flat) == 0

"""MFW attached to a layer of somebody's model: training loops, compilation, checkpointing, errors."""

from __future__ import annotations

import copy
import itertools
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from procrustean.balance import MFW, attachments, blend
from procrustean.balance.mfw_module import Attachment
from procrustean.base import ConfigError, DataError, LayerError
from procrustean.nets import build_net

COUNTS = [500, 400, 20, 10]


class Convolutions(nn.Module):
    """A small model with named layers; with `recompute` the middle one runs under gradient checkpointing."""

    def __init__(self, recompute: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.middle = nn.Sequential(nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.BatchNorm2d(6), nn.ReLU())
        self.last = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU())
        self.head = nn.Linear(8, 4)
        self.recompute = recompute

    def forward(self, x: Tensor) -> Tensor:
        z = self.stem(x)
        z = checkpoint(self.middle, z, use_reentrant=False) if self.recompute else self.middle(z)
        return self.head(self.last(z).mean((2, 3)))


class Labelled(nn.Module):
    """A model that is called with its labels and returns its loss; a random part follows the layer that is mixed."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.dropout = made(), nn.Dropout(0.5)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.dropout(self.body(x)), labels)


class Adapted(nn.Module):
    """A dense layer with a part beside it that is learnt in its place, as LoRA of peft wraps it."""

    def __init__(self, base_layer: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base_layer.requires_grad_(False)
        self.lora_A = nn.Linear(base_layer.in_features, 2, bias=False)
        self.lora_B = nn.Linear(2, base_layer.out_features, bias=False)

    def forward(self, z: Tensor) -> Tensor:
        adapted: Tensor = self.base_layer(z) + self.lora_B(self.lora_A(z))
        return adapted


def made(recompute: bool = False) -> Convolutions:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Convolutions(recompute)


def batches(count: int, size: int = 8) -> Iterator[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        yield (
            torch.randn(size, 1, 6, 6, generator=generator),
            torch.randint(4, (size,), generator=generator),
        )


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def gradients(model: nn.Module) -> list[Tensor]:
    found = [p.grad for p in model.parameters()]
    assert all(g is not None for g in found)
    return [g.clone() for g in found if g is not None]


def trained(model: nn.Module, handle: Attachment | None, noise: float = 0.1) -> dict[str, Tensor]:
    """The state after some steps of the usual loop, and the state of the global generator."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        for x, y in batches(4):
            x = x + noise * torch.randn_like(x)  # a loop that draws random numbers of its own
            optimizer.zero_grad()
            if handle is None:
                loss = F.cross_entropy(model(x), y)
            else:
                with handle(y):
                    loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        return {**copy.deepcopy(model.state_dict()), "generator": torch.get_rng_state()}


class TestLoop:
    def test_the_layer_output_is_blended(self) -> None:
        model, (x, y) = made(), next(batches(1))
        mfw = MFW(COUNTS)
        handle = mfw.attach(model, "middle")
        mix = mfw.sample(y, seeded(3))
        assert mix is not None
        twin = made()
        wanted = twin.head(twin.last(blend(twin.middle(twin.stem(x)), mix)).mean((2, 3)))
        with handle(y, seeded(3)):
            torch.testing.assert_close(model(x), wanted)

    def test_the_state_dict_keeps_its_keys(self) -> None:
        model = made()
        keys = list(model.state_dict())
        MFW(COUNTS).attach(model, "middle")
        assert list(model.state_dict()) == keys
        made().load_state_dict(model.state_dict())

    def test_evaluation_is_bit_equal(self) -> None:
        model, (x, y) = made().eval(), next(batches(1))
        plain = model(x)
        handle = MFW(COUNTS).attach(model, "middle")
        state = torch.get_rng_state()
        assert torch.equal(model(x), plain)
        with handle(y), torch.no_grad():
            assert torch.equal(model(x), plain)
            assert torch.equal(torch.compile(model, fullgraph=True, backend="eager")(x), plain)
        assert torch.equal(torch.get_rng_state(), state)

    def test_training_differs_from_plain_training(self) -> None:
        model = made()
        with_mfw, without = trained(model, MFW(COUNTS).attach(model, "middle")), trained(made(), None)
        assert not torch.equal(with_mfw["head.weight"], without["head.weight"])
        assert not torch.equal(with_mfw["generator"], without["generator"])

    @pytest.mark.parametrize("settings", [{"strength": [0.0] * 4}, {"counts": [30] * 4}])
    def test_strength_zero_is_bit_equal_to_plain_training(self, settings: dict[str, Any]) -> None:
        model = made()
        with pytest.warns(UserWarning, match="MFW changes nothing"):
            handle = MFW(**{"counts": COUNTS, **settings}).attach(model, "middle")
        with_mfw, without = trained(model, handle), trained(made(), None)
        assert with_mfw.keys() == without.keys()
        for name, value in without.items():
            assert torch.equal(with_mfw[name], value), name

    def test_a_permutation_that_moves_nothing_is_plain_training(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch, "randperm", lambda n, **_: torch.arange(n))
        model = made()
        with_mfw = trained(model, MFW(COUNTS).attach(model, "middle"), noise=0.0)
        without = trained(made(), None, noise=0.0)
        for name in without.keys() - {"generator"}:
            torch.testing.assert_close(with_mfw[name], without[name], atol=1e-5, rtol=1e-5)

    def test_draws_are_made_on_entry_and_hold_for_the_context(self) -> None:
        model, (x, y) = made(), next(batches(1))
        model.stem[1].eval()
        model.middle[1].eval()
        handle = MFW(COUNTS).attach(model, "middle")
        with torch.random.fork_rng(devices=[]):
            context = handle(y)
            torch.manual_seed(1)
            with context:
                torch.manual_seed(2)
                first = model(x)
                assert torch.equal(model(x), first)
            torch.manual_seed(1)
            with handle(y):
                assert torch.equal(model(x), first)
            with handle(y):
                assert not torch.equal(model(x), first)

    def test_removed(self) -> None:
        model, (x, _) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        handle.remove()
        assert torch.equal(model(x), made()(x))

    def test_shown(self) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        assert repr(handle) == "<MFW at layer 'middle' (Sequential): waits for labels>"
        with handle(y):
            model(x)
            assert repr(handle) == "<MFW at layer 'middle' (Sequential): has labels>"
        model.eval()
        assert repr(handle) == "<MFW at layer 'middle' (Sequential): in evaluation mode, changes nothing>"
        handle.remove()
        assert repr(handle) == "<MFW at layer 'middle' (Sequential): removed>"

    def test_labels_for_a_handle_that_was_removed(self) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        handle.remove()
        for prepared in (model, model.eval()):
            with pytest.raises(LayerError, match=r"the handle of layer 'middle' was removed.*attach MFW"), handle(y):
                prepared(x)
        with torch.no_grad(), handle(y):  # where MFW changes nothing anyway
            model(x)

    @pytest.mark.parametrize("gradients_off", [False, True])
    def test_a_layer_that_is_frozen_in_a_model_that_trains(self, gradients_off: bool) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        model.middle.eval()

        def one_step() -> None:
            with handle(y), torch.set_grad_enabled(not gradients_off):
                model(x)

        with pytest.raises(LayerError, match="is in evaluation mode, where MFW changes nothing, but has labels"):
            one_step()

    def test_training_mode_that_comes_after_the_labels(self) -> None:
        model, (x, y) = made().eval(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        with pytest.raises(LayerError, match=r"call model\.train\(\) before `with handle\(labels\)`"), handle(y):
            model.train()(x)

    @pytest.mark.parametrize("number", [0, 1, 3])
    def test_labels_of_another_number_of_samples(self, number: int) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="a batch of one sample")
            with pytest.raises(LayerError, match=f"for {number} labels"), handle(y[:number]):
                model(x)

    def test_predictions_of_a_teacher_in_training_mode(self) -> None:
        model, (x, _) = made(), next(batches(1))
        MFW(COUNTS).attach(model, "middle")
        with torch.no_grad(), pytest.raises(LayerError, match=r"a teacher or .*`with handle\.suspended\(\)`"):
            model(x)

    def test_a_shared_layer_by_its_second_name(self) -> None:
        model, (x, y) = made(), next(batches(1))
        model.again = model.middle
        with MFW(COUNTS).attach(model, "again")(y):
            model(x)

    def test_a_number_in_place_of_a_generator(self) -> None:
        model, (_, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        with pytest.raises(ConfigError, match=r"generator = 0 received; give a torch\.Generator"), handle(y, 0):  # type: ignore[arg-type]
            pass

    def test_at_the_input_and_at_several_layers(self) -> None:
        net = build_net("small", channels=1, classes=4, seed=0)
        x, y = next(batches(1))
        mfw = MFW(COUNTS)
        first, second = mfw.attach(net, "input"), mfw.attach(net, "group2")
        with first(y, seeded(0)), second(y, seeded(1)):
            both = net(x)
        second.remove()
        with first(y, seeded(0)):
            assert not torch.equal(net(x), both)

    def test_sequence_features(self) -> None:
        model = nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 2))
        mfw, y = MFW(COUNTS), torch.tensor([0, 1, 2, 3])
        handle = mfw.attach(model, "0")
        x = torch.randn(4, 7, 5)
        mix = mfw.sample(y, seeded(0))
        assert mix is not None
        with handle(y, seeded(0)):
            torch.testing.assert_close(model(x), model[1](blend(model[0].forward(x), mix)))

    def test_a_batch_of_one_passes_and_warns_once(self) -> None:
        model = made()
        handle = MFW(COUNTS).attach(model, "middle")
        x, y = next(batches(1, size=1))
        with pytest.warns(UserWarning, match="batch of one"), handle(y):
            assert torch.equal(model(x), made()(x))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with handle(y):
                model(x)

    def test_autocast(self) -> None:
        model, (x, y) = made(), next(batches(1))
        mfw = MFW(COUNTS)
        handle = mfw.attach(model, "middle")
        outputs: list[Tensor] = []
        model.middle.register_forward_hook(lambda module, args, output: outputs.append(output))
        with torch.autocast("cpu", torch.bfloat16), handle(y, seeded(0)):
            loss = F.cross_entropy(model(x), y)
            assert handle.mix is not None
            assert handle.mix.weight.dtype == torch.float32
        loss.backward()
        assert outputs[0].dtype == torch.bfloat16
        twin = made()
        mix = mfw.sample(y, seeded(0))
        assert mix is not None
        wanted = blend(twin.middle(twin.stem(x)), mix)
        torch.testing.assert_close(outputs[0].float(), wanted, atol=0.05, rtol=0.05)
        assert all(bool(g.isfinite().all()) for g in gradients(model))


class TestCompiled:
    @pytest.fixture(autouse=True)
    def fresh_compiler(self) -> Iterator[None]:
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()

    def test_one_graph_that_equals_eager_and_serves_all_labels(self) -> None:
        model = made()
        handle = MFW(COUNTS).attach(model, "middle")
        twin = made()
        eager = MFW(COUNTS).attach(twin, "middle")
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(model, fullgraph=True, backend=counter)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for seed, (x, y) in enumerate(batches(4)):
                with handle(y, seeded(seed)):
                    loss = F.cross_entropy(compiled(x), y)
                with eager(y, seeded(seed)):
                    wanted = F.cross_entropy(twin(x), y)
                torch.testing.assert_close(loss, wanted)
                model.zero_grad()
                twin.zero_grad()
                loss.backward()
                wanted.backward()
                torch.testing.assert_close(gradients(model), gradients(twin))
        assert counter.frame_count == 1

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
    def test_gradients_reach_the_layers_before_it(self, dtype: torch.dtype, layout: torch.memory_format) -> None:
        """In float32 and narrower types, whose features are blended in float32 and rounded back."""
        x, y = next(batches(1))
        x = x.to(memory_format=layout)
        found = []
        for compile_it in (False, True):
            model = made().to(memory_format=layout)
            handle = MFW(COUNTS).attach(model, "middle")
            called = torch.compile(model, fullgraph=True, backend="aot_eager") if compile_it else model
            with handle(y, seeded(0)), torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
                F.cross_entropy(called(x).float(), y).backward()
            found.append(gradients(model))
        torch.testing.assert_close(found[1], found[0], rtol=0.05, atol=1e-3)
        assert model.stem[0].weight.grad.abs().max() > 1e-2

    def test_evaluation_is_bit_equal(self) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        with handle(y):
            compiled(x)
        model.eval()
        assert torch.equal(compiled(x), made().eval()(x)) is False  # the running statistics have moved
        twin = made()
        twin.load_state_dict(model.state_dict())
        assert torch.equal(compiled(x), twin.eval()(x))

    def test_a_last_batch_of_one_sample_in_a_whole_graph(self) -> None:
        mfw = MFW(COUNTS)
        compiled = torch.compile(lambda z, labels: mfw(z, labels) * 2, fullgraph=True, backend="eager")
        for size in (8, 1):
            z = torch.randn(size, 3)
            assert compiled(z, torch.zeros(size, dtype=torch.long)).shape == z.shape

    def test_missing_labels_are_noticed(self) -> None:
        model, (x, _) = made(), next(batches(1))
        MFW(COUNTS).attach(model, "middle")
        compiled = torch.compile(model, backend="eager")
        with pytest.raises(LayerError, match="got no labels"):
            compiled(x)

    @pytest.mark.parametrize("before", ["an equal model", "the model itself", "the model with another handle"])
    def test_what_was_compiled_without_it_is_not_run_in_its_place(self, before: str) -> None:
        model, (x, y) = made(), next(batches(1))
        if before == "the model with another handle":
            MFW(COUNTS).attach(model, "middle").remove()
        other = made() if before == "an equal model" else model
        torch.compile(other, backend="eager")(x)
        handle = MFW(COUNTS).attach(model, "middle")
        compiled = torch.compile(model, backend="eager")
        with pytest.raises(LayerError, match="got no labels"):
            compiled(x)
        twin = made()
        eager = MFW(COUNTS).attach(twin, "middle")
        with handle(y, seeded(0)), eager(y, seeded(0)):
            torch.testing.assert_close(compiled(x), twin(x))
        handle.remove()
        eager.remove()
        torch.testing.assert_close(compiled(x), twin(x))

    def test_a_forward_that_somebody_else_has_put_stays(self) -> None:
        model = made()
        own = model.middle.forward = nn.Identity().forward
        MFW(COUNTS).attach(model, "middle").remove()
        assert model.middle.forward is own
        handle = MFW(COUNTS).attach(model, "stem")
        own = model.stem.forward = nn.Identity().forward
        handle.remove()
        assert model.stem.forward is own


class TestCopies:
    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
    def test_a_copy_made_in_the_middle_of_a_batch_has_no_part_in_it(
        self, copied: Callable[[Convolutions], Convolutions]
    ) -> None:
        model, (x, y) = made(), next(batches(1))
        with MFW(COUNTS).attach(model, "middle")(y):
            model(x)
            twin = copied(model)
            model(x)
        twin.eval()(x)
        twin.train()
        with pytest.raises(LayerError, match="got no labels"):
            twin(x)
        with attachments(twin)["middle"](y):
            twin(x)

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
    @pytest.mark.parametrize("labels", [None, "labels"])
    @pytest.mark.filterwarnings("ignore:layer 'body.head' gives the scores")
    def test_a_layer_that_is_adapted_in_a_copy(
        self, labels: str | None, copied: Callable[[Labelled], Labelled]
    ) -> None:
        model, (x, y) = Labelled(), next(batches(1))
        MFW(COUNTS).attach(model, "body.head", labels=labels)
        twin = copied(model)
        twin.body.head = Adapted(twin.body.head)
        labelled = nullcontext() if labels else attachments(twin)["body.head.base_layer"](y)
        with pytest.raises(LayerError, match=r"'body\.head' was wrapped or replaced after MFW"), labelled:
            twin(x, y)

    def test_a_kept_model_does_not_hold_the_last_batch(self) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        before = len(pickle.dumps(model))
        with handle(y):
            model(x)
        assert len(pickle.dumps(model)) == before


class TestCheckpointing:
    """The layer runs again inside backward and must see the numbers of its forward pass."""

    def wanted(self, count: int) -> list[list[Tensor]]:
        model = made()
        handle = MFW(COUNTS).attach(model, "middle")
        found = []
        for seed, (x, y) in enumerate(batches(count)):
            model.zero_grad()
            with handle(y, seeded(seed)):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            found.append(gradients(model))
        return found

    @pytest.mark.parametrize("inside", list(itertools.product([False, True], repeat=3)))
    def test_gradients_equal_those_without_it(self, inside: tuple[bool, ...]) -> None:
        model = made(recompute=True)
        handle = MFW(COUNTS).attach(model, "middle")
        wanted = self.wanted(len(inside))
        for seed, (x, y) in enumerate(batches(len(inside))):
            model.zero_grad()
            with handle(y, seeded(seed)):
                loss = F.cross_entropy(model(x), y)
                if inside[seed]:
                    loss.backward()
            if not inside[seed]:
                loss.backward()
            torch.testing.assert_close(gradients(model), wanted[seed])

    def test_micro_batches_with_a_backward_each(self) -> None:
        model = made(recompute=True)
        handle = MFW(COUNTS).attach(model, "middle")
        for seed, (x, y) in enumerate(batches(2)):
            with handle(y, seeded(seed)):
                loss = F.cross_entropy(model(x), y)
            loss.backward()  # gradients add up
        first, second = self.wanted(2)
        torch.testing.assert_close(
            gradients(model), [a + b for a, b in zip(first, second, strict=True)], atol=1e-6, rtol=1e-5
        )

    def test_a_batch_of_one_between_others(self) -> None:
        """Its recomputation ends before the layer: behind it nothing was mixed that backward could ask for."""
        model = made(recompute=True)
        handle = MFW(COUNTS).attach(model, "middle")
        for seed, (x, y) in enumerate(batches(2)):
            model.zero_grad()
            with handle(y, seeded(seed)):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            torch.testing.assert_close(gradients(model), self.wanted(2)[seed])
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="a batch of one sample")
                with handle(y[:1]):
                    loss = F.cross_entropy(model(x[:1]), y[:1])
            loss.backward()

    def test_a_batch_of_one_is_recomputed_where_more_follows_the_layer(self) -> None:
        model = made()
        handle = MFW(COUNTS).attach(model, "middle")
        x, y = next(batches(1))
        with pytest.warns(UserWarning, match="a batch of one sample"), handle(y[:1]):
            checkpoint(model, x[:1].requires_grad_(), use_reentrant=False).sum().backward()

    @pytest.mark.parametrize("inside", [False, True])
    def test_several_batches_before_one_backward_are_refused(self, inside: bool) -> None:
        model = made(recompute=True)
        handle = MFW(COUNTS).attach(model, "middle")
        (first, labels), (second, more_labels) = batches(2)
        with handle(labels):
            total = F.cross_entropy(model(first), labels)
        with handle(more_labels):
            total = total + F.cross_entropy(model(second), more_labels)
            if inside:
                with pytest.raises(LayerError, match="several batches went forward"):
                    total.backward()
        if not inside:
            with pytest.raises(LayerError, match="several batches went forward"):
                total.backward()

    def test_the_loop_goes_on_after_the_refusal(self) -> None:
        model = made(recompute=True)
        handle = MFW(COUNTS).attach(model, "middle")
        losses = []
        for x, y in batches(2):
            with handle(y):
                losses.append(F.cross_entropy(model(x), y))
        with pytest.raises(LayerError):
            losses[1].backward()
        x, y = next(batches(1))
        with handle(y):
            loss = F.cross_entropy(model(x), y)
        loss.backward()

    def test_a_whole_model_that_is_called_with_its_labels(self) -> None:
        found = []
        for recompute in (False, True):
            model, (x, y) = Labelled(), next(batches(1))
            MFW(COUNTS).attach(model, "body.middle", labels="labels")
            torch.manual_seed(3)
            loss = checkpoint(model, x, y, use_reentrant=False) if recompute else model(x, y)
            loss.backward()
            found.append(gradients(model))
        torch.testing.assert_close(*found)

    def test_a_generator_of_which_the_recomputation_would_draw_anew(self) -> None:
        mfw, (_, y), generator = MFW(COUNTS), next(batches(1)), seeded(3)
        mixed = checkpoint(mfw, torch.randn(8, 4, requires_grad=True).exp(), y, generator, use_reentrant=False)
        with pytest.raises(ConfigError, match="would draw other numbers from that generator"):
            mixed.exp().sum().backward()

    def test_a_copy_knows_nothing_of_passes_left_unmixed(self) -> None:
        model, (x, y) = made(recompute=True), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        with handle.suspended():
            model(x)
        twin = copy.deepcopy(model)
        with attachments(twin)["middle"](y):
            F.cross_entropy(twin(x), y).backward()

    def test_several_batches_without_checkpointing_are_fine(self) -> None:
        model = made()
        handle = MFW(COUNTS).attach(model, "middle")
        total = torch.zeros(())
        for seed, (x, y) in enumerate(batches(2)):
            with handle(y, seeded(seed)):
                total = total + F.cross_entropy(model(x), y)
        total.backward()
        first, second = self.wanted(2)
        torch.testing.assert_close(
            gradients(model), [a + b for a, b in zip(first, second, strict=True)], atol=1e-6, rtol=1e-5
        )


class Hidden(NamedTuple):
    state: Tensor
    attention: Tensor | None = None


class Returning(nn.Module):
    """A layer that returns what `form` makes of its output."""

    def __init__(self, form: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.dense, self.form = nn.Linear(3, 3), form

    def forward(self, z: Tensor) -> Any:
        return self.form(self.dense(z))


class Following(nn.Module):
    """Goes on with the first of what a layer returns; keeps what came."""

    def __init__(self, form: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.came = Returning(form), None

    def forward(self, z: Tensor) -> Tensor:
        self.came = self.layer(z)
        return self.came[0].sum(-1)


CODEBOOK = nn.Parameter(torch.ones(4, 7, 3))


class TestTuples:
    """Of a tuple the first is mixed and the rest is passed on, as transformers' blocks return it."""

    FORMS: ClassVar[dict[str, Callable[[Tensor], Any]]] = {
        "alone": lambda z: (z,),
        "with attention weights of each head": lambda z: (z, torch.ones(len(z), 2, 5, 5)),
        "with mean attention weights": lambda z: (z, torch.ones(len(z), 5, 5)),
        "with a loss, a mask and sizes": lambda z: (z, z.mean(), torch.ones(len(z), 5, dtype=torch.bool), (5, 3)),
        "a named tuple": lambda z: Hidden(z),
        "a list": lambda z: [z, None],
        "with weights of as many rows as the batch": lambda z: (z, CODEBOOK),
    }

    @pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
    @pytest.mark.parametrize("compiled", [False, True])
    def test_the_first_is_mixed(self, form: Callable[[Tensor], Any], compiled: bool) -> None:
        torch._dynamo.reset()
        model, z, y = Following(form), torch.randn(4, 5, 3), torch.tensor([0, 1, 2, 3])
        plain = form(model.layer.dense(z).detach())
        mfw = MFW(COUNTS)
        mix = mfw.sample(y, seeded(2))
        assert mix is not None
        handle = mfw.attach(model, "layer")
        called = torch.compile(model, fullgraph=True, backend="aot_eager") if compiled else model
        with handle(y, seeded(2)):
            called(z).square().sum().backward()
        assert type(model.came) is type(plain)
        torch.testing.assert_close(model.came[0], blend(plain[0], mix))
        torch.testing.assert_close(tuple(model.came[1:]), tuple(plain[1:]), equal_nan=True, check_stride=False)
        assert model.layer.dense.weight.grad.abs().max() > 0

    def test_recomputed(self) -> None:
        first, z, y = nn.Sequential(Returning(lambda z: (z, None))), torch.randn(4, 5, 3), torch.tensor([0, 1, 2, 3])
        found = []
        for model, recompute in ((first, False), (copy.deepcopy(first), True)):
            handle = MFW(COUNTS).attach(model, "0")
            with handle(y, seeded(0)):
                out = checkpoint(model, z, use_reentrant=False) if recompute else model(z)
            out[0].square().sum().backward()
            found.append(gradients(model))
        torch.testing.assert_close(found[1], found[0])

    def test_a_batch_of_one_is_recomputed(self) -> None:
        model, z = nn.Sequential(Returning(lambda z: (z, None))), torch.randn(1, 5, 3)
        handle = MFW(COUNTS).attach(model, "0")
        with pytest.warns(UserWarning, match="has no partner"), handle(torch.tensor([0])):
            out = checkpoint(model, z, use_reentrant=False)
        out[0].sum().backward()


class Counting(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.long()


class TestErrors:
    def test_unknown_layer(self) -> None:
        with pytest.raises(LayerError, match=r"no layer 'middel'\. Did you mean 'middle'.*Its layers: .*middle"):
            MFW(COUNTS).attach(made(), "middel")

    def test_unknown_layer_of_a_large_model(self) -> None:
        net = build_net("resnet20", channels=3, classes=4, seed=0)
        with pytest.raises(LayerError, match=r"no layer 'grup2'.*Did you mean 'group2'"):
            MFW(COUNTS).attach(net, "grup2")

    def test_data_parallel(self) -> None:
        """It hands each replica a part of the batch."""
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        with pytest.raises(LayerError, match=r"shape \(4, .*for 8 labels; .*nn\.DataParallel splits it"), handle(y):
            model(x[:4])

    @pytest.mark.parametrize(
        ("layer", "message"),
        [
            (Counting(), "returns Tensor, not a floating-point tensor"),
            (Returning(lambda z: {"z": z}), "returns dict, not a floating-point tensor"),
            (Returning(lambda z: (None, z)), "returns tuple that does not begin with a floating-point tensor"),
            (Returning(lambda z: ()), "returns tuple that does not begin with"),
            (Returning(lambda z: (z, z)), "returns tuple with several features, of which the first alone"),
            (Returning(lambda z: [z, z[:, None]]), "returns list with several features"),
            (nn.GRU(3, 3, batch_first=True), "returns tuple with several features"),
            (nn.LSTM(3, 3, batch_first=True), "returns tuple with several features"),
        ],
    )
    def test_output_that_cannot_be_mixed(self, layer: nn.Module, message: str) -> None:
        model = nn.Sequential(layer)
        handle = MFW(COUNTS).attach(model, "0")
        with handle(torch.tensor([0, 1])), pytest.raises(LayerError, match=f"layer '0' {message}"):
            model(torch.randn(2, 5, 3))

    @pytest.mark.parametrize("once", [False, True])
    def test_labels_missing_in_training(self, once: bool) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        if once:
            with handle(y):
                model(x)
        with pytest.raises(LayerError, match=r"'middle' has MFW attached but got no labels.*model\.eval\(\)"):
            model(x)

    @pytest.mark.parametrize("labels", [None, "labels"])
    def test_a_pass_that_is_meant_to_stay_unmixed(self, labels: str | None) -> None:
        class Labelled(Convolutions):
            def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
                return super().forward(x)

        model, (x, _) = Labelled(), next(batches(1))
        plain = copy.deepcopy(model)
        handle = MFW(COUNTS).attach(model, "middle", labels=labels)
        with handle.suspended():
            assert torch.equal(model(x), plain(x))
        with pytest.raises(LayerError, match="labels"):
            model(x)

    def test_such_a_pass_and_gradient_checkpointing(self) -> None:
        model, (x, y) = made(recompute=True), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        with handle.suspended():
            F.cross_entropy(model(x), y).backward()  # ends its recomputation before it comes to the end of the layer
        with handle(y):
            loss = F.cross_entropy(model(x), y)
        with pytest.raises(LayerError, match=r"'middle', and cannot tell passes inside `with handle\.suspended\(\)`"):
            loss.backward()

    @pytest.mark.parametrize("labels", [None, "labels"])
    @pytest.mark.parametrize("compiled", [False, True])
    @pytest.mark.filterwarnings("ignore:layer 'body.head' gives the scores")
    def test_a_layer_that_is_adapted_later(self, compiled: bool, labels: str | None) -> None:
        model, (x, y) = Labelled(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "body.head", labels=labels)
        model.body.head = Adapted(model.body.head)
        called = torch.compile(model, backend="eager") if compiled else model
        message = r"'body\.head' was wrapped or replaced after MFW was attached: .*Adapted, which.*attach MFW again now"
        with pytest.raises(LayerError, match=message), handle(y) if labels is None else nullcontext():
            called(x, y)
        model.eval()
        with torch.no_grad(), handle(y):  # where nothing is to be mixed
            model(x, y)
        model.body.head = model.body.head.base_layer
        model.train()
        with nullcontext() if labels else handle(y):
            model(x, y).backward()

    @pytest.mark.parametrize("wrap", [checkpoint_wrapper, nn.Sequential, partial(torch.compile, backend="eager")])
    def test_a_layer_that_is_wrapped_later_by_what_has_no_weights(self, wrap: Callable[[Any], Any]) -> None:
        model, twin, (x, y) = made(), made(), next(batches(1))
        for each in (model, twin):
            with MFW(COUNTS).attach(each, "middle")(y, seeded(0)):
                if each is model:
                    model.middle = wrap(model.middle)
                loss = F.cross_entropy(each(x), y)
            loss.backward()
        torch.testing.assert_close(gradients(model), gradients(twin))

    @pytest.mark.parametrize("whole", [True, False], ids=["model left in evaluation mode", "frozen layer"])
    def test_training_in_evaluation_mode(self, whole: bool) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        (model if whole else model.middle).eval()
        with pytest.raises(LayerError, match=r"'middle' is in evaluation mode.*call model\.train\(\) first"), handle(y):
            model(x)
        with torch.no_grad(), handle(y):
            model(x)

    @pytest.mark.parametrize("mistake", ["another layer", "another model"])
    def test_a_layer_that_is_never_called(self, mistake: str) -> None:
        model, (x, y) = made(), next(batches(1))
        if mistake == "another layer":
            model.spare = nn.Linear(2, 2)
            handle = MFW(COUNTS).attach(model, "spare")
        else:
            handle, model = MFW(COUNTS).attach(model, "middle"), made()
        message = r"was not called while it had its labels.*attach before torch\.compile"
        with pytest.raises(LayerError, match=message), handle(y):
            model(x)
        with pytest.raises(KeyError), handle(y):  # another error is not hidden
            raise KeyError

    @pytest.mark.parametrize("ran", [False, True])
    def test_a_model_that_was_compiled_before(self, ran: bool) -> None:
        model, twin, (x, y) = made().eval(), made().eval(), next(batches(1))
        compiled = torch.compile(nn.Sequential(model), backend="eager")
        if ran:
            compiled(x)
        with pytest.raises(LayerError, match=r"no layer '0\.middle'\. It has '_orig_mod\.0\.middle'"):
            MFW(COUNTS).attach(compiled, "0.middle")
        handle = MFW(COUNTS).attach(compiled, "_orig_mod.0.middle")
        eager = MFW(COUNTS).attach(twin, "middle")
        model.train()
        twin.train()
        with handle(y, seeded(0)), eager(y, seeded(0)):
            torch.testing.assert_close(compiled(x), twin(x))
        with pytest.raises(LayerError, match="got no labels"):
            compiled(x)

    def test_labels_are_forgotten_after_an_error(self) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        with pytest.raises(KeyError), handle(y):
            raise KeyError
        with pytest.raises(LayerError, match="got no labels"):
            model(x)

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda y: y + 4, "but there are 4 classes"),
            (lambda y: y.float(), "give class indices"),
            (lambda y: y[:, None], "give class indices"),
        ],
    )
    def test_labels_that_cannot_be(self, spoil: Callable[[Tensor], Tensor], message: str) -> None:
        model, (_, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        with pytest.raises(DataError, match=message), handle(spoil(y)):
            pytest.fail("entered with labels that cannot be used")

    def test_wrong_number_of_labels(self) -> None:
        model, (x, y) = made(), next(batches(1))
        handle = MFW(COUNTS).attach(model, "middle")
        with handle(y[:5]), pytest.raises(LayerError, match=r"returns shape \(8, 6, 3, 3\) for 5 labels"):
            model(x)


def test_a_second_attachment_to_one_layer_is_refused() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    handle = MFW([50, 5]).attach(model, "0")
    with pytest.raises(LayerError, match="has MFW attached already; call remove"):
        MFW([50, 5]).attach(model, "0")
    handle.remove()
    MFW([50, 5]).attach(model, "0").remove()


def test_a_class_in_place_of_a_model() -> None:
    with pytest.raises(LayerError, match="the class Convolutions received; give the model itself"):
        MFW([50, 5]).attach(Convolutions, "stem")  # type: ignore[arg-type]


def test_a_module_in_place_of_its_name() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with pytest.raises(LayerError, match="a layer of type Linear received; give its name"):
        MFW([50, 5]).attach(model, model[0])  # type: ignore[arg-type]


def test_mixed_labels_are_taken_with_a_warning() -> None:
    model = Convolutions()
    handle = MFW(COUNTS).attach(model, "middle")
    images, soft = torch.randn(4, 1, 8, 8), torch.tensor([[0.7, 0.3, 0.0, 0.0]] * 4)
    with pytest.warns(UserWarning, match="no one-hot rows received"), handle(soft):
        F.cross_entropy(model(images), soft).backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with handle(soft):
            F.cross_entropy(model(images), soft).backward()


@pytest.mark.parametrize(("layer", "told"), [("0", False), ("2", True), ("2.1", True), ("2.0", False)])
def test_a_layer_that_gives_the_scores_is_warned_of(layer: str, told: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        MFW([50, 5]).attach(model, layer)
    assert [f"layer {layer!r} gives the scores of the classes" in str(warning.message) for warning in caught] == [
        True
    ] * told

"""MFW under what people wrap around their models: calls with labels, copies, averages, precisions, exports."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from procrustean import DRW, MFW
from procrustean.balance import attachments
from procrustean.base import LayerError

COUNTS = [500, 400, 20, 10]
Batch = Callable[..., tuple[Tensor, Tensor]]
Make = Callable[[], nn.Module]


class Output(NamedTuple):
    logits: Tensor
    loss: Tensor | None


class Called(nn.Module):
    """A model that is called with its labels and returns a record, as those of Hugging Face are."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Output:
        logits = self.model(images)
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return Output(logits, loss)


def seeded() -> None:
    torch.manual_seed(7)


def gradient(model: nn.Module, loss: Callable[[], Tensor]) -> list[Tensor]:
    model.zero_grad()
    seeded()
    loss().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


class TestCalledWithLabels:
    def both(self, made: Make, batch: Batch) -> tuple[nn.Module, list[Tensor], Tensor, Tensor]:
        """A model, and the gradients that the explicit form gives on a batch."""
        model = Called(made())
        x, y = batch()
        handle = MFW(COUNTS).attach(model, "model.layer1")

        def loss() -> Tensor:
            with handle(y):
                return F.cross_entropy(model(x).logits, y)

        wanted = gradient(model, loss)
        handle.remove()
        return model, wanted, x, y

    @pytest.mark.parametrize("by_position", [False, True])
    def test_the_same_as_the_explicit_form(self, by_position: bool, convolutions: Make, batch: Batch) -> None:
        model, wanted, x, y = self.both(convolutions, batch)
        MFW(COUNTS).attach(model, "model.layer1", labels="labels")
        args, kwargs = ((x, y), {}) if by_position else ((x,), {"labels": y})
        torch.testing.assert_close(gradient(model, lambda: model(*args, **kwargs).loss), wanted)

    def test_evaluation_needs_no_labels(self, convolutions: Make, batch: Batch) -> None:
        model = Called(convolutions())
        x, y = batch()
        plain = model.eval()(x).logits
        MFW(COUNTS).attach(model, "model.layer1", labels="labels")
        assert torch.equal(model(x).logits, plain)
        assert torch.equal(model(x, labels=y).logits, plain)

    def test_compiled(self, convolutions: Make, batch: Batch) -> None:
        model, _, x, y = self.both(convolutions, batch)
        mfw = MFW(COUNTS)
        mfw.attach(model, "model.layer1", labels="labels")
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        gradients = [gradient(model, lambda: compiled(x, labels=y).loss)[0] for _ in range(2)]
        torch.testing.assert_close(gradients[0], gradients[1])  # the same seed
        seeded()
        compiled(x, labels=y).loss.backward()
        compiled(x, labels=y).loss.backward()  # another draw, in the same graph
        assert not torch.allclose(model.model.layer1[0].weight.grad, 3 * gradients[0])

    @pytest.mark.parametrize("reentrant", [False, True])
    def test_hugging_face_with_gradient_checkpointing(self, reentrant: bool, batch: Batch) -> None:
        from transformers import ViTConfig, ViTForImageClassification

        config = ViTConfig(
            hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32, patch_size=56
        )
        config.num_labels = 4
        model = ViTForImageClassification(config).train()
        MFW(COUNTS).attach(model, "vit.layers.0", labels="labels")
        twin = copy.deepcopy(model)
        twin.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
        x, y = batch(size=224, images=4)
        for _ in range(2):
            wanted = gradient(model, lambda: model(pixel_values=x, labels=y).loss)
            torch.testing.assert_close(gradient(twin, lambda: twin(pixel_values=x, labels=y).loss), wanted)

    def test_errors(self, convolutions: Make, batch: Batch) -> None:
        model = Called(convolutions())
        x, y = batch()
        with pytest.raises(LayerError, match=r"Called takes no argument 'target' \(it takes images, labels\)"):
            MFW(COUNTS).attach(model, "model.layer1", labels="target")
        handle = MFW(COUNTS).attach(model, "model.layer2", labels="labels")
        with pytest.raises(LayerError, match=r"Called was called in training mode without labels=.*model\.eval\(\)"):
            model(x)
        with pytest.raises(LayerError, match=r"those that Called is called with as labels=, so call that one"):
            model.model(x)
        with pytest.raises(RuntimeError, match="channels"):
            model(x[:, :2], labels=y)
        assert not handle.open  # the error of the model is neither hidden nor are its labels kept
        handle.remove()
        model(x)


def test_nested_wrappers(convolutions: Make, batch: Batch) -> None:
    inner = convolutions()
    model = nn.Sequential(nn.Sequential(inner))
    x, y = batch()
    handle = MFW(COUNTS).attach(model, "0.0.layer1")

    def loss(called: nn.Module) -> Callable[[], Tensor]:
        def compute() -> Tensor:
            with handle(y):
                return F.cross_entropy(called(x), y)

        return compute

    torch.testing.assert_close(gradient(model, loss(model)), gradient(model, loss(inner)))
    assert list(attachments(model)) == ["0.0.layer1"]
    assert list(attachments(inner)) == ["layer1"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype: torch.dtype, convolutions: Make, batch: Batch) -> None:
    model = convolutions()
    x, y = batch()
    handle = MFW(COUNTS).attach(model, "layer1")
    outputs: list[Tensor] = []
    model.get_submodule("layer1").register_forward_hook(lambda module, args, output: outputs.append(output))

    def loss(low: bool) -> Callable[[], Tensor]:
        def compute() -> Tensor:
            with torch.autocast("cpu", dtype, enabled=low), handle(y):
                logits = model(x)
            return F.cross_entropy(logits.float(), y)

        return compute

    low, exact = gradient(model, loss(True)), gradient(model, loss(False))
    assert [output.dtype for output in outputs] == [dtype, torch.float32]
    torch.testing.assert_close(outputs[0].float(), outputs[1], atol=0.05, rtol=0.05)
    assert all(bool(g.isfinite().all()) for g in low)
    # The direction of the gradient survives the precision.
    flat = [torch.cat([g.flatten() for g in found]) for found in (low, exact)]
    assert F.cosine_similarity(*flat, dim=0) > 0.99


def test_fp16_with_a_scaled_loss(convolutions: Make, batch: Batch) -> None:
    model = convolutions()
    x, y = batch()
    handle = MFW(COUNTS).attach(model, "layer1")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = model.get_submodule("layer1.0").weight.clone()
    with torch.autocast("cpu", torch.float16), handle(y):
        loss = F.cross_entropy(model(x).float(), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    after = model.get_submodule("layer1.0").weight
    assert bool(after.isfinite().all())
    assert not torch.equal(before, after)


def test_gradient_accumulation(convolutions: Make, batch: Batch) -> None:
    model = convolutions()
    x, y = batch(images=8)
    handle = MFW(COUNTS).attach(model, "layer1")
    parts = [(x[:4], y[:4]), (x[4:], y[4:])]

    def loss(part: tuple[Tensor, Tensor], seed: int) -> Tensor:
        with handle(part[1], torch.Generator().manual_seed(seed)):
            return F.cross_entropy(model(part[0]), part[1]) / len(parts)

    alone = [gradient(model, lambda part=part, seed=seed: loss(part, seed)) for seed, part in enumerate(parts)]
    model.zero_grad()
    for seed, part in enumerate(parts):
        loss(part, seed).backward()
    summed = [p.grad for p in model.parameters()]
    torch.testing.assert_close(summed, [a + b for a, b in zip(*alone, strict=True)])


class TestCopies:
    def test_a_deep_copy_has_a_handle_of_its_own(self, convolutions: Make, batch: Batch) -> None:
        model = convolutions()
        x, y = batch()
        handle = MFW(COUNTS).attach(model, "layer1")
        with handle(y):
            model(x)
            twin = copy.deepcopy(model)
        (path, own), *others = attachments(twin).items()
        assert (path, others) == ("layer1", [])
        assert own is not handle
        assert own.module is twin.get_submodule("layer1")

        def loss(called: nn.Module, by: Any) -> Callable[[], Tensor]:
            def compute() -> Tensor:
                with by(y):
                    return F.cross_entropy(called(x), y)

            return compute

        torch.testing.assert_close(gradient(twin, loss(twin, own)), gradient(model, loss(model, handle)))
        with pytest.raises(LayerError, match=r"attached already.*balance\.attachments\(model\)"):
            MFW(COUNTS).attach(twin, "layer1")
        own.remove()
        assert not attachments(twin)
        assert list(attachments(model)) == ["layer1"]

    def test_a_copy_of_a_model_that_is_called_with_labels(self, convolutions: Make, batch: Batch) -> None:
        model = Called(convolutions())
        x, y = batch()
        MFW(COUNTS).attach(model, "model.layer1", labels="labels")
        twin = copy.deepcopy(model)
        torch.testing.assert_close(
            gradient(twin, lambda: twin(x, labels=y).loss), gradient(model, lambda: model(x, labels=y).loss)
        )

    def averaged_by_torch(self, model: nn.Module) -> tuple[nn.Module, Callable[[nn.Module], None]]:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5), use_buffers=True)
        return average, average.update_parameters

    def averaged_by_timm(self, model: nn.Module) -> tuple[nn.Module, Callable[[nn.Module], None]]:
        from timm.utils import ModelEmaV3

        average = ModelEmaV3(model, decay=0.5)
        return average, average.update

    @pytest.mark.parametrize("maker", ["averaged_by_torch", "averaged_by_timm"])
    def test_averages(self, maker: str, convolutions: Make, batch: Batch) -> None:
        model = convolutions()
        x, y = batch()
        handle = MFW(COUNTS).attach(model, "layer1")
        average, update = getattr(self, maker)(model)
        update(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        before = model.get_submodule("head").weight.clone()
        with handle(y):
            F.cross_entropy(model(x), y).backward()
        optimizer.step()
        update(model)
        weight = average.get_submodule("module.head").weight
        torch.testing.assert_close(weight, (before + model.get_submodule("head").weight) / 2)
        clean = copy.deepcopy(average.module)
        attachments(clean)["layer1"].remove()
        average.eval()
        assert torch.equal(average(x), clean.eval()(x))


@pytest.mark.filterwarnings("ignore:every class has strength 0")
class TestAccumulationWithClassWeights:
    """Micro-batches of weighted losses, as docs/mfw.md adds them up; nothing is mixed or normalised over the batch."""

    def gradients(self, step: Callable[[nn.Module, Tensor, Tensor], None]) -> list[Tensor]:
        seeded()
        first = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU())
        model = nn.Sequential(first, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
        # Thirds of equal size and unequal sums of weights: the small classes, 2 and 3, are not in all of them.
        images, labels = torch.randn(12, 3, 8, 8), torch.tensor([2, 3, 0, 2, 1, 3, 0, 1, 0, 1, 1, 0])
        step(model, images, labels)
        return [p.grad for p in model.parameters() if p.grad is not None]

    def accumulated(self, loss_of: Callable[[Tensor, Tensor, Tensor], Tensor]) -> list[Tensor]:
        def step(model: nn.Module, images: Tensor, labels: Tensor) -> None:
            handle = MFW(COUNTS, strength=[0.0] * 4).attach(model, "0")
            for x, y in zip(images.split(4), labels.split(4), strict=True):
                with handle(y):
                    logits = model(x)
                loss_of(logits, y, labels).backward()

        return self.gradients(step)

    def whole(self, weight: Tensor) -> list[Tensor]:
        return self.gradients(lambda model, x, y: F.cross_entropy(model(x), y, weight=weight).backward())

    @pytest.mark.parametrize("epoch", [0, 9])
    def test_divided_by_the_weights_of_the_whole_batch(self, epoch: int) -> None:
        weight = DRW(COUNTS, epochs=10)(epoch)

        def exact(logits: Tensor, y: Tensor, every_label: Tensor) -> Tensor:
            return F.cross_entropy(logits, y, weight=weight, reduction="sum") / weight[every_label].sum()

        torch.testing.assert_close(self.accumulated(exact), self.whole(weight))

    def test_divided_by_the_weights_of_each_it_is_another_loss(self) -> None:
        weight = DRW(COUNTS, epochs=10)(9)
        found = self.accumulated(lambda logits, y, _: F.cross_entropy(logits, y, weight=weight) / 3)
        assert (found[0] - self.whole(weight)[0]).norm() > 0.1 * found[0].norm()


def test_export_of_the_evaluated_model(convolutions: Make, batch: Batch) -> None:
    model = convolutions()
    x, y = batch()
    handle = MFW(COUNTS).attach(model, "layer1")
    with handle(y):
        model(x)
    model.eval()
    exported = torch.export.export(model, (x,))
    torch.testing.assert_close(exported.module()(x), model(x))
    assert not [n for n in exported.graph.nodes if "index_select" in str(n.target) or "rand" in str(n.target)]
    strict = torch.export.export(model, (x,), strict=True)
    torch.testing.assert_close(strict.module()(x), model(x))


DERIVED: dict[str, Callable[[nn.Module, Tensor], nn.Module]] = {
    "exported": lambda model, x: torch.export.export(model, (x,)).module(),
    "traced by fx": lambda model, x: torch.fx.symbolic_trace(model).train(),
    "traced by TorchScript": lambda model, x: torch.jit.trace(model, x).train(),
    "copied before": lambda model, x: copied_without_mfw(model).train(),
}


def copied_without_mfw(model: nn.Module) -> nn.Module:
    twin = copy.deepcopy(model)
    attachments(twin)["layer1"].remove()
    return twin


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("derive", DERIVED.values(), ids=DERIVED)
def test_what_comes_of_the_evaluated_model_is_not_trained_unmixed(
    derive: Callable[[nn.Module, Tensor], nn.Module], convolutions: Make, batch: Batch
) -> None:
    model = convolutions().eval()
    x, y = batch()
    handle = MFW(COUNTS).attach(model, "layer1")
    derived = derive(model, x)
    message = "'layer1' has MFW attached but was not called .* exported or traced of the model, or was copied before"
    with pytest.raises(LayerError, match=message), handle(y):
        F.cross_entropy(derived(x), y).backward()
    with torch.no_grad(), handle(y):  # evaluating it is no mistake
        derived(x)


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    yield
    torch._dynamo.reset()

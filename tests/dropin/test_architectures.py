"""MFW at a layer of the usual architectures: its output is blended, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from procrustean import MFW
from procrustean.balance import suggest

COUNTS = [500, 400, 20, 10]


def torchvision_resnet() -> nn.Module:
    from torchvision.models import resnet18

    return resnet18(num_classes=4)


def torchvision_densenet() -> nn.Module:
    from torchvision.models import DenseNet

    return DenseNet(growth_rate=8, block_config=(2, 3, 2), num_init_features=16, num_classes=4)


def torchvision_convnext() -> nn.Module:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(8, 16, 2), CNBlockConfig(16, 24, 2), CNBlockConfig(24, None, 1)], num_classes=4)


def torchvision_efficientnet() -> nn.Module:
    from torchvision.models import efficientnet_b0

    return efficientnet_b0(num_classes=4)


def torchvision_vit() -> nn.Module:
    from torchvision.models import VisionTransformer

    return VisionTransformer(
        image_size=32, patch_size=8, num_layers=6, num_heads=2, hidden_dim=16, mlp_dim=32, num_classes=4
    )


def timm_model(name: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, num_classes=4, **settings)

    return make


def huggingface_resnet() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 24], depths=[1, 1, 1], layer_type="basic", num_labels=4
    )
    return Scores(ResNetForImageClassification(config))


def huggingface_vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=16, num_hidden_layers=6, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8
    )
    config.num_labels = 4
    return Scores(ViTForImageClassification(config))


class Scores(nn.Module):
    """A wrapper as users write them: scores of a model that returns a record."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.model(x).logits
        return scores


MODELS = {
    "torchvision ResNet": (torchvision_resnet, "layer1"),
    "torchvision DenseNet": (torchvision_densenet, "features.denseblock1"),
    "torchvision ConvNeXt": (torchvision_convnext, "features.1"),
    "torchvision EfficientNet": (torchvision_efficientnet, "features.1"),
    "torchvision ViT": (torchvision_vit, "encoder.layers.encoder_layer_1"),
    "timm ResNet": (timm_model("test_resnet"), "layer1"),
    "timm DenseNet": (timm_model("densenet121", growth_rate=8, block_config=(2, 2, 2)), "features.denseblock1"),
    "timm ConvNeXt": (timm_model("test_convnext"), "stages.0"),
    "timm EfficientNet": (timm_model("test_efficientnet"), "blocks.1"),
    "timm ViT": (timm_model("test_vit", img_size=32, patch_size=8), "blocks.1"),
    "Hugging Face ResNet": (huggingface_resnet, "model.resnet.encoder.stages.0"),
    "Hugging Face ViT": (huggingface_vit, "model.vit.layers.1"),
}


@pytest.fixture(params=MODELS.items(), ids=lambda item: item[0])
def case(request: pytest.FixtureRequest) -> tuple[nn.Module, str]:
    _, (make, layer) = request.param
    return make(), layer


def test_attached(case: tuple[nn.Module, str], batch: Callable[..., tuple[Tensor, Tensor]]) -> None:
    model, layer = case
    x, y = batch()
    assert suggest(model, x).second_group == layer
    keys = list(model.state_dict())
    model.eval()
    with torch.no_grad():
        plain_scores = model(x)

    before: list[Tensor] = []
    after: list[Tensor] = []
    module = model.get_submodule(layer)
    module.register_forward_hook(lambda module, args, output: before.append(output.detach()))
    mfw = MFW(COUNTS)
    handle = mfw.attach(model, layer)
    module.register_forward_hook(lambda module, args, output: after.append(output.detach()))
    assert list(model.state_dict()) == keys
    with torch.no_grad():
        assert torch.equal(model(x), plain_scores)
    assert torch.equal(before.pop(), after.pop())

    model.train()
    mix = mfw.sample(y, torch.Generator().manual_seed(3))
    assert mix is not None
    with handle(y, torch.Generator().manual_seed(3)):
        F.cross_entropy(model(x), y).backward()
    z = before[0].double()
    share = mix.weight.double().view(-1, *[1] * (z.dim() - 1))
    torch.testing.assert_close(after[0].double(), (1 - share) * z + share * z[mix.partner], atol=1e-5, rtol=1e-5)
    assert not torch.equal(before[0], after[0])
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in model.parameters())

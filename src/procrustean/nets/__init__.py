"""The table of networks, and how one is built and initialised."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from ..errors import ConfigError, did_you_mean
from ..rng import torch_seed
from .classifier import Backbone, Classifier
from .group_norm import GroupNormResNet
from .layer_norm import LayerNormNet
from .resnet_cifar import ResNetCifar
from .small import SmallNet

#: name -> backbone factory; each takes `channels`, the number of colour channels.
NETS: dict[str, Callable[..., Backbone]] = {
    "resnet20": partial(ResNetCifar, blocks=3),
    "resnet32": partial(ResNetCifar, blocks=5),
    "resnet44": partial(ResNetCifar, blocks=7),
    "resnet56": partial(ResNetCifar, blocks=9),
    "resnet20-gn": partial(GroupNormResNet, blocks=3),
    "resnet32-gn": partial(GroupNormResNet, blocks=5),
    "convnet-ln": LayerNormNet,
    "small": SmallNet,
}


def build_net(
    name: str,
    *,
    channels: int,
    classes: int,
    seed: int,
    head: Callable[[int, int], nn.Module] | None = None,
) -> Classifier:
    """A network with its initial weights, a function of the seed alone; no global generator is changed."""
    check_net(name)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would also reseed the generators of all GPUs.
        torch.default_generator.manual_seed(torch_seed(seed, "weights"))
        backbone = NETS[name](channels=channels)
        net = Classifier(backbone, (head or nn.Linear)(backbone.features, classes))
        initialise(net)
    return net


def layers_of(name: str) -> type[Backbone]:
    """The class of a network, which publishes its mixable layers, without building one."""
    check_net(name)
    factory: Any = NETS[name]
    made: type[Backbone] = getattr(factory, "func", factory)  # a partial hides its class
    return made


def check_net(name: str) -> None:
    """ConfigError for a network that is not in the table."""
    if name not in NETS:
        raise ConfigError(f"there is no network {name!r}. {did_you_mean(name, NETS)}")


@torch.no_grad()
def restart(net: nn.Module) -> None:
    """Initial weights and statistics once more, from torch's generator; heads that are no linear layers stay."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.fill_(1)
            module.bias.zero_()
            if module.running_mean is not None and module.running_var is not None:
                module.running_mean.zero_()
                module.running_var.fill_(1)
        elif isinstance(module, nn.Conv2d | nn.Linear | nn.GroupNorm | nn.LayerNorm):
            module.reset_parameters()
    initialise(net)


def initialise(net: nn.Module) -> None:
    """Kaiming-normal weights (fan-in) of convolutions and linear layers, the head's too, not of biases."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)

"""How a network is built from its name, initialised, and tried on images of a size."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from procrustean.base.errors import ConfigError, did_you_mean
from procrustean.base.own_code import file_meant, pinned_name, use_file
from procrustean.base.random_numbers import torch_seed
from procrustean.data.recipe import Tune
from procrustean.nets.adapters import add_adapter
from procrustean.nets.classifier import Backbone, Classifier
from procrustean.nets.foreign import check_foreign, foreign_backbone, whole_model
from procrustean.nets.hugging_face import check_hugging_face, hugging_face_backbone, whole_hugging_face
from procrustean.nets.net_table import NETS
from procrustean.nets.noise import Noise
from procrustean.nets.own_net import check_own, is_own, module_factory, own_backbone, own_model
from procrustean.nets.published import HUB

if TYPE_CHECKING:
    from procrustean.nets.pretrained import Pretrained

#: Side of the images that most networks of other libraries are made for.
USUAL_SIZE = 224


def build_net(
    name: str,
    *,
    channels: int,
    classes: int,
    seed: int,
    head: Callable[[int, int], nn.Module] | None = None,
    size: tuple[int, int] | None = None,
    pretrained: Pretrained | None = None,
    tune: Tune = "all",
) -> Classifier:
    """A network with its initial weights, a function of the seed alone; no global generator is changed.

    Args:
        name: one of `NETS`, "timm:NAME", "torchvision:NAME", "hf:ORGANISATION/MODEL", FILE.py:NAME, or what `use_net`
            has returned.
        channels, classes: of the images.
        seed: of the weights.
        head: builds the head from (features, classes); a linear layer by default.
        size: height and width of the images, which some networks are made for.
        pretrained: weights for the backbone; the head starts anew.
        tune: what of it is to learn; a head alone does so on centred features.
    """
    check_net(name)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would also reseed the generators of all GPUs.
        torch.default_generator.manual_seed(torch_seed(seed, "weights"))
        backbone = build_backbone(name, channels=channels, classes=classes, size=size)
        state = None if pretrained is None else pretrained.state
        own_head = None if head else backbone.first_head()
        made = own_head or (head or nn.Linear)(backbone.features, classes)
        net = Classifier(backbone, made, state, tune=tune)
        backbone.initialise(net)
        _begin(net, backbone)
    return net


def build_backbone(name: str, *, channels: int = 3, classes: int = 10, size: tuple[int, int] | None = None) -> Backbone:
    """A network up to its features, with initial values from torch's generator; `classes` is for a user's own."""
    if ":" not in name:
        return NETS[name](channels=channels)
    if is_own(name):
        return own_backbone(name, channels=channels, classes=classes, size=size)
    if name.startswith(HUB):
        return hugging_face_backbone(name, channels=channels)
    return foreign_backbone(name, channels=channels, size=size)


def layers_of(name: str, *, channels: int = 3, classes: int = 10, size: tuple[int, int] | None = None) -> Backbone:
    """A network that shows its mixable layers and sizes, and has no weights worth using."""
    check_net(name)
    if ":" not in name:
        with torch.device("meta"):
            return build_backbone(name)
    # Networks of other libraries have the same layers for all images; a user's may be made for some alone.
    images: dict[str, Any] = {"channels": channels, "classes": classes, "size": size} if is_own(name) else {}
    with torch.random.fork_rng(devices=[]):
        return build_backbone(name, **images)


def check_net(name: str) -> None:
    """ConfigError for a network that is not there."""
    if is_own(name):
        check_own(name)
    elif name.startswith(HUB):
        check_hugging_face(name)
    elif ":" in name:
        check_foreign(name)
    elif name not in NETS:
        near = file_meant(name) or did_you_mean(name, NETS)
        raise ConfigError(
            f"there is no network {name!r}. {near} Others are called timm:NAME, torchvision:NAME, "
            "hf:ORGANISATION/MODEL and, your own, FILE.py:NAME"
        )


def model_by_name(name: str, *, channels: int = 3) -> tuple[nn.Module, int]:
    """A whole model, as its own code makes it, and the side of the images it is made for.

    Args:
        name: as of `build_net`, or package.module:factory, a function or class that needs no arguments.
        channels: of the images, for networks that take other than colour images.
    """
    if is_own(name):
        use_file(pinned_name(name, "network"))  # who calls this has it from the user
        return own_model(name, channels=channels, classes=10, size=(USUAL_SIZE, USUAL_SIZE)), USUAL_SIZE
    library, colon, what = name.partition(":")
    if library in ("timm", "torchvision") or not colon:
        check_net(name)
    if not colon:
        net = build_net(name, channels=channels, classes=10, seed=0)
        return net, USUAL_SIZE if net.backbone.shrinks > 8 else 32
    if library == "hf":
        return whole_hugging_face(name)
    if library in ("timm", "torchvision"):
        return whole_model(library, what)
    return module_factory(library, what), USUAL_SIZE


@torch.no_grad()
def restart(net: Classifier) -> None:
    """Initial weights and statistics once more, from torch's generator; heads that are no linear layers stay."""
    fresh = net.backbone.rebuilt()
    if fresh is not None:
        _begin(net, fresh)
        net.backbone.load_state_dict(fresh.state_dict())
    for module in (net if fresh is None else net.head).modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.fill_(1)
            module.bias.zero_()
            if module.running_mean is not None and module.running_var is not None:
                module.running_mean.zero_()
                module.running_var.fill_(1)
        elif isinstance(module, nn.Conv2d | nn.Linear | nn.GroupNorm | nn.LayerNorm | Noise):
            module.reset_parameters()
    net.backbone.initialise(net)
    if fresh is None:
        _begin(net, net.backbone)


def _begin(net: Classifier, backbone: Backbone) -> None:
    """Give a backbone of initial weights those that a network starts from, and the adapter."""
    if net.pretrained is not None:
        from procrustean.nets.pretrained import load_pretrained

        load_pretrained(backbone, net.pretrained)
    if net.tune != "all" and net.tune != "head":
        add_adapter(backbone, net.tune)

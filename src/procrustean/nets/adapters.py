"""A few new parameters in a network whose others stay as they are: LoRA, scale and shift, BitFit."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from procrustean.base.errors import ConfigError
from procrustean.base.optional_libraries import optional
from procrustean.data.recipe import Adapter

#: Layers that are scaled and shifted, by where their channels lie.
_CHANNELS_LAST = (nn.Linear, nn.LayerNorm)
_CHANNELS_SECOND = (nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm, nn.GroupNorm)


def takes_adapters(layers: nn.Module) -> bool:
    """Whether a network has attention layers, by what these are called in all libraries."""
    return any(re.search("Attention|Attn", type(module).__name__) for module in layers.modules())


def adapter_of(layers: nn.Module, kind: Adapter, name: str, say: Callable[[str], None]) -> tuple[str, ...]:
    """The paths of an adapter's parameters in a network; ConfigError for one that takes none.

    Args:
        layers: its backbone, of any weights, which is changed.
        kind: which adapter.
        name: of the network, for messages.
        say: told how many parameters learn.
    """
    if not takes_adapters(layers):
        raise ConfigError(
            f"tune {kind!r} received, but {name} has no attention layers, which adapters are for; use --tune head or "
            "all, or name a vision transformer, for example --net timm:vit_small_patch16_224"
        )
    every = sum(parameter.numel() for parameter in layers.parameters())
    with torch.random.fork_rng(devices=[]):
        found = add_adapter(layers, kind)
    if not found:
        raise ConfigError(f"tune {kind!r} received, but it finds no layers to work on in {name}; use another --tune")
    count = sum(layers.get_parameter(path).numel() for path in found)
    say(f"{kind}: {count:,} parameters learn beside those of the head; the {every:,} of {name} are pretrained")
    return tuple(f"backbone.{path}" for path in found)


def add_adapter(backbone: nn.Module, kind: Adapter, *, rank: int = 8) -> list[str]:
    """Put an adapter into a backbone that has its weights; it computes what it computed before.

    Args:
        backbone: is changed; LoRA draws from torch's generator.
        kind: which adapter.
        rank: of LoRA's changes.

    Returns:
        The paths of the parameters that are to learn.
    """
    if kind == "lora":
        return _lora(backbone, rank)
    if kind == "scale_shift":
        return _scale_and_shift(backbone)
    return [name for name, _ in backbone.named_parameters() if name.endswith("bias")]


def _never_called(net: nn.Module) -> set[nn.Module]:
    """Layers whose weights the module around them takes itself, as attention often does, so that they are not called.

    PyTorch's own layer of an encoder does so in evaluation alone.
    """
    return {
        part
        for module in net.modules()
        for name, part in module.named_children()
        if f"self.{name}.weight" in _text(type(module).forward)
    }


@cache
def _text(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # of code that is in no file
        return ""


def _lora(backbone: nn.Module, rank: int) -> list[str]:
    left_out = _never_called(backbone)
    linear = [
        name for name, module in backbone.named_modules() if isinstance(module, nn.Linear) and module not in left_out
    ]
    if not linear:
        return []
    peft = optional("peft", "adapters", "LoRA")
    # Twice the rank is the usual scale; without dropout, whose numbers would not be the run's.
    settings = peft.LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=linear)
    peft.inject_adapter_in_model(settings, backbone)
    backbone.requires_grad_(True)  # what learns is the stage's to say
    return [name for name, _ in backbone.named_parameters() if ".lora_" in name]


def _scale_and_shift(backbone: nn.Module) -> list[str]:
    found, left_out = [], _never_called(backbone)
    for name, module in backbone.named_modules():
        if not isinstance(module, _CHANNELS_LAST + _CHANNELS_SECOND) or module.weight is None or module in left_out:
            continue
        # Parameters of the layer itself, so that those it has keep their names.
        channels = module.weight.shape[-1] if isinstance(module, nn.LayerNorm) else module.weight.shape[0]
        module.register_parameter("scale", nn.Parameter(torch.ones(channels, device=module.weight.device)))
        module.register_parameter("shift", nn.Parameter(torch.zeros(channels, device=module.weight.device)))
        module.register_forward_hook(_scaled_and_shifted)
        found += [f"{name}.scale", f"{name}.shift"]
    return found


def _scaled_and_shifted(module: nn.Module, given: Any, output: Tensor) -> Tensor:
    # Layer normalisation of maps, as in timm's LayerNorm2d, is named so.
    second = isinstance(module, _CHANNELS_SECOND) or type(module).__name__.endswith("2d")
    shape = (-1, *[1] * (output.dim() - 2)) if second else (-1,)
    # In the number format of the layer, as its own weights are, whether they are kept in it or in float32.
    scale, shift = (getattr(module, name).to(output.dtype).view(shape) for name in ("scale", "shift"))
    changed: Tensor = output * scale + shift
    return changed

"""A few new parameters in a network whose others stay as they are: LoRA, scale and shift, BitFit."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from procrustean.base.errors import ConfigError
from procrustean.base.optional_libraries import installing, why_not_imported
from procrustean.nets.classifier import Classifier

#: Low-rank changes of linear layers (Hu et al. 2021); a factor and a summand for each channel behind every layer (Lian
#: et al. 2022, SSF); the biases that are there (Ben Zaken et al. 2021).
Adapter = Literal["lora", "scale_shift", "bitfit"]

#: Layers that are scaled and shifted, by where their channels lie.
_CHANNELS_LAST = (nn.Linear, nn.LayerNorm)
_CHANNELS_SECOND = (nn.modules.conv._ConvNd, nn.modules.batchnorm._BatchNorm, nn.GroupNorm)


def add_adapter(net: Classifier, kind: Adapter, *, rank: int = 8) -> tuple[str, ...]:
    """Put an adapter into a network that has its weights; the network computes what it computed before.

    Args:
        net: the network, which is changed; LoRA draws from torch's generator.
        kind: which adapter.
        rank: of LoRA's changes.

    Returns:
        The paths of the parameters that are to learn, and of the head: what a `Stage` takes as `trainable`.
    """
    if kind == "lora":
        found = _lora(net.backbone, rank)
    elif kind == "scale_shift":
        found = _scale_and_shift(net.backbone)
    else:
        found = [name for name, _ in net.backbone.named_parameters() if name.rpartition(".")[2] == "bias"]
    if not found:
        raise ConfigError(f"the adapter {kind!r} finds nothing to work on in {type(net.backbone).__name__}")
    return (*(f"backbone.{name}" for name in found), "head")


def _lora(backbone: nn.Module, rank: int) -> list[str]:
    linear = [name for name, module in backbone.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ConfigError("LoRA changes linear layers, and this network has none; choose scale_shift or bitfit")
    peft = _peft()
    # Twice the rank is the usual scale; without dropout, whose numbers would not be the run's.
    settings = peft.LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=linear)
    peft.inject_adapter_in_model(settings, backbone)
    backbone.requires_grad_(True)  # what learns is the stage's to say
    return [name for name, _ in backbone.named_parameters() if ".lora_" in name]


def _peft() -> Any:
    try:
        import peft
    except ModuleNotFoundError as error:
        raise ConfigError(f"LoRA needs {error.name}; install it {installing('adapters')}") from None
    except (ImportError, RuntimeError) as error:  # it imports transformers, and that torchvision
        raise ConfigError(why_not_imported("peft", "adapters", error)) from error
    return peft


def _scale_and_shift(backbone: nn.Module) -> list[str]:
    found = []
    for name, module in backbone.named_modules():
        if isinstance(module, _CHANNELS_LAST + _CHANNELS_SECOND) and hasattr(module, "weight"):
            # Parameters of the layer itself, so that those it has keep their names.
            channels = module.weight.shape[-1] if isinstance(module, nn.LayerNorm) else module.weight.shape[0]
            module.register_parameter("scale", nn.Parameter(torch.ones(channels, device=module.weight.device)))
            module.register_parameter("shift", nn.Parameter(torch.zeros(channels, device=module.weight.device)))
            module.register_forward_hook(_scaled_and_shifted)
            found += [f"{name}.scale", f"{name}.shift"]
    return found


def _scaled_and_shifted(module: nn.Module, given: Any, output: Tensor) -> Tensor:
    behind = output.dim() - 2 if isinstance(module, _CHANNELS_SECOND) else 0
    scale, shift = (module.get_parameter(name).view(-1, *[1] * behind) for name in ("scale", "shift"))
    return output * scale + shift

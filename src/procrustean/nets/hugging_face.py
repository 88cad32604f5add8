"""Image classifiers of the Hugging Face hub as backbones: `hf:google/vit-base-patch16-224`, or `hf:FOLDER`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from procrustean.base.errors import ConfigError
from procrustean.base.optional_libraries import needing
from procrustean.nets.classifier import Backbone
from procrustean.nets.foreign import ForeignBackbone, groups_of, last_linear, put_in_place, replace_noise
from procrustean.nets.published import HUB, OnHub

#: Settings by which attention draws numbers that would not be the run's.
_ATTENTION_DROPOUT = ("attention_probs_dropout_prob", "attention_dropout")


class HuggingFaceBackbone(ForeignBackbone):
    """A classifier of transformers without its last linear layer; its layers keep their names, below `net`."""

    def __init__(self, net: nn.Module, features: int, groups: Mapping[str, str], build: Callable[[], Backbone]) -> None:
        super().__init__(net, features, groups, build)
        # Positions are learnt for one image size; with it they are made to fit others.
        takes = inspect.signature(net.forward).parameters
        self._more = {"interpolate_pos_encoding": True} if "interpolate_pos_encoding" in takes else {}

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.net(self.input(x), **self._more).logits
        return features


def hugging_face_backbone(name: str, *, channels: int = 3) -> HuggingFaceBackbone:
    """The network that `name` stands for, with initial weights from torch's generator.

    Args:
        name: hf:ORGANISATION/MODEL or hf:FOLDER.
        channels: colour channels of the image.
    """
    net = _model(name, channels)
    side = int(getattr(net.config, "image_size", 224))
    path, last = last_linear(net, name)
    put_in_place(net, path, nn.Identity())
    replace_noise(net, name)
    groups = groups_of(net, (channels, side, side))
    return HuggingFaceBackbone(net, last.in_features, groups, lambda: hugging_face_backbone(name, channels=channels))


def check_hugging_face(name: str) -> None:
    """ConfigError for a network that is not there; its configuration is fetched if it is not on this machine."""
    _config(name)


def whole_hugging_face(name: str) -> tuple[nn.Module, int]:
    """The classifier, head included, and the side of the images it is made for."""
    net = _model(name, 3)
    return net, int(getattr(net.config, "image_size", 224))


def hugging_face_state(name: str, published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Published weights by the names of the network: transformers knows what older files called them.

    Args:
        name: of the network.
        published: what its file holds.
    """
    try:
        with torch.random.fork_rng(devices=[]):  # what the file lacks is drawn
            net = _model(name, _config(name).num_channels)
            loaded, report = type(net).from_pretrained(
                None, config=net.config, state_dict=dict(published), output_loading_info=True
            )
    except RuntimeError as error:
        raise ConfigError(f"these pretrained weights do not fit {name}: {str(error).splitlines()[0]}") from error
    state: dict[str, Tensor] = loaded.float().state_dict()
    return {key: value for key, value in state.items() if key not in report["missing_keys"]}


def _model(name: str, channels: int) -> Any:
    config = _config(name)
    config.num_channels = channels
    for setting in _ATTENTION_DROPOUT:
        if hasattr(config, setting):
            setattr(config, setting, 0.0)
    try:
        return _transformers("AutoModelForImageClassification").from_config(config).float()
    except ValueError as error:
        raise ConfigError(f"{name} is no image classifier of transformers: {str(error).splitlines()[0]}") from error


def _config(name: str) -> Any:
    path = OnHub(name.removeprefix(HUB), ("config.json",)).fetch(lambda line: None)
    try:
        return _transformers("AutoConfig").from_pretrained(path.parent, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{name} is none of the models of transformers: {str(error).splitlines()[0]}") from error


def _transformers(name: str) -> Any:
    """What is called so there; importing the library itself imports next to nothing."""
    with needing("transformers", "transformers", "a network of Hugging Face"):
        library = import_module("transformers")
        _ = library.PreTrainedModel
        return getattr(library, name)

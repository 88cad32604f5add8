"""Weights that a backbone starts from: a state dict in a file, found, read without running code, and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from procrustean.base.errors import ConfigError
from procrustean.base.optional_libraries import installing
from procrustean.nets.classifier import Backbone
from procrustean.nets.hugging_face import hugging_face_state
from procrustean.nets.noise import Noise
from procrustean.nets.published import HUB, InPackage, Normalisation, published

#: What stands for the weights that are published for the network.
PUBLISHED = "published"
#: Wrappers of research codes around a state dict, and prefixes of the names in it.
_WRAPPERS, _PREFIXES = ("state_dict", "model", "params"), ("module.", "backbone.")
#: How linear heads are called.
_HEADS = ("head.", "heads.", "fc.", "classifier.", "linear.")


@dataclass(frozen=True)
class Pretrained:
    """A state dict, where it comes from, and the pixels it was trained with where that is known."""

    state: Mapping[str, Tensor]
    path: Path
    sha256: str
    normalisation: Normalisation | None = None


def read_pretrained(choice: str, net: str, say: Callable[[str], None] = lambda line: None) -> Pretrained:
    """The weights that `--pretrained` names.

    Args:
        choice: a .safetensors file, a file of torch.save, or "published" for those of the network, which are fetched if
            they are not on this machine.
        net: the network they are for.
        say: called with one line of progress at a time.
    """
    source = published(net) if choice == PUBLISHED else None
    path = Path(choice).expanduser() if source is None else source.fetch(say)
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"cannot read the pretrained weights {path} ({error.strerror})") from error
    if isinstance(source, InPackage) and sha256 != source.sha256:
        raise ConfigError(
            f"{path} is not the published file (sha256 {sha256}, expected {source.sha256}); install it again "
            f"{installing('pretrained')}"
        )
    state = _state(path)
    if net.startswith(HUB) and not any(key.startswith("backbone.") for key in state):  # as in the file of a run
        state = hugging_face_state(net, state)
    return Pretrained(state, path, sha256, None if source is None else source.normalisation)


def load_pretrained(backbone: Backbone, state: Mapping[str, Tensor]) -> None:
    """Put a state dict into a backbone; every weight has to be there and to fit, a head is left out."""
    named = {_own_name(backbone, key): value for key, value in state.items()}
    noise = {f"{path}.{key}" for path, m in backbone.named_modules() if isinstance(m, Noise) for key in m._buffers}
    wanted = {key: value for key, value in backbone.state_dict().items() if key not in noise}
    # Counters of batches are in some files and not in others, and nothing depends on them.
    missing = [key for key in wanted if key not in named and not key.endswith("num_batches_tracked")]
    left_over = [
        key
        for key in named
        if key not in wanted
        and key not in noise
        and not key.removeprefix("net.").startswith(_HEADS)
        and not key.startswith(getattr(backbone, "head_name", ()))
        and not key.endswith("num_batches_tracked")
    ]
    if missing or left_over:
        raise ConfigError(
            f"these pretrained weights are of another network: {_some(missing)} missing in the file, "
            f"{_some(left_over)} unknown to the network"
        )
    for key, value in wanted.items():
        if key in named and named[key].dim() == 4 and (named[key].shape[1], value.shape[1]) == (3, 1):
            # A grey image is one whose three colours are equal, so their weights add up.
            named[key] = named[key].sum(1, keepdim=True)
        if key in named and named[key].shape != value.shape:
            raise ConfigError(
                f"these pretrained weights do not fit: {key} has shape {list(named[key].shape)} in the file and "
                f"{list(value.shape)} in the network (another stem, another number of channels or image size)"
            )
    backbone.load_state_dict({key: named[key] for key in wanted if key in named}, strict=False)


def _own_name(backbone: Backbone, key: str) -> str:
    own = key
    for prefix in _PREFIXES:
        own = own.removeprefix(prefix)
    return own if key.startswith("backbone.") else backbone.published_name(own)


def _some(keys: list[str]) -> str:
    return "nothing" if not keys else ", ".join(keys[:3]) + (f" and {len(keys) - 3} more" if len(keys) > 3 else "")


def _state(path: Path) -> dict[str, Tensor]:
    content: Any
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError as error:
        raise ConfigError(
            f"{path} holds more than tensors, or is no file of torch.save; only plain state dicts are read, because "
            f"others can run code. Save one with: torch.save(model.state_dict(), ...) ({str(error).splitlines()[0]})"
        ) from error
    except Exception as error:  # the readers raise errors of many kinds on a damaged file
        raise ConfigError(f"{path} is damaged or no file of weights ({error})") from error
    for wrapper in _WRAPPERS:
        if isinstance(content, dict) and isinstance(content.get(wrapper), dict):
            content = content[wrapper]
    if not isinstance(content, dict) or not content or not all(isinstance(v, Tensor) for v in content.values()):
        raise ConfigError(f"{path} holds no state dict: names with a tensor each")
    return content

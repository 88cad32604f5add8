"""How to get the libraries that only some parts need, and what to do where one does not fit another."""

from __future__ import annotations

from importlib.metadata import version

from .errors import ConfigError


def installing(extra: str) -> str:
    """The command that installs an extra, with the versions that are tested, and where to give it.

    In the clone the library is installed as it lies there (-e). Without that an extra would bring a copy of it, which
    later changes of the clone do not reach.

    >>> installing("nets")
    "in the clone of this project: pip install -c constraints.txt -e '.[nets]'"
    """
    return f"in the clone of this project: pip install -c constraints.txt -e '.[{extra}]'"


def first_cause(error: BaseException) -> str:
    """What an error says that others may have been wrapped around, in a line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def refuse_torchvision_misfit(library: str, error: BaseException) -> None:
    """ConfigError if the import of a library has failed by a torchvision that does not fit torch; else nothing.

    Lightning and transformers import torchvision where it is installed, whether they need it or not.
    """
    said = first_cause(error)
    if "torchvision" in said and "No module named" not in said:
        raise ConfigError(f"{library} imports torchvision, which {not_built_for_torch(said)}") from None


def not_built_for_torch(said: str) -> str:
    """The sentence about a torchvision that has failed with these words, from its verb on."""
    return f"was not built for torch {version('torch')} ({said}). Install both from the same place: {_together()}"


def _together() -> str:
    """The command that installs the torchvision that belongs to the torch there is.

    Both are named, and reinstalled: pip would leave a torchvision of the right number as it is, whatever it was built
    for.
    """
    import torch

    plain, cuda = version("torch").partition("+")[0], torch.version.cuda
    build = "cpu" if cuda is None else f"cu{cuda.replace('.', '')}"
    index = f"https://download.pytorch.org/whl/{build}"
    return f"pip install --force-reinstall torch=={plain} torchvision --index-url {index}"

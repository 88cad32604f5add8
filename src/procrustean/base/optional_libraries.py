"""How to get the libraries that only some parts need, and what to do where one does not fit another."""

from __future__ import annotations

import re
from importlib.metadata import version

from procrustean.base.errors import ConfigError

#: What Python says where a package is there and a name that is wanted of it is not.
_LACKS_A_NAME = re.compile(r"cannot import name '\w+' from '(\w+)")


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


def why_not_imported(library: str, extra: str, error: BaseException) -> str:
    """What to say of a library that is installed and whose import has failed.

    Args:
        library: its name, as it begins the sentence.
        extra: what installs it in a version that is tested.
        error: of the import.
    """
    said = first_cause(error)
    return (
        _misfit(library, extra, said) or f"{library} cannot be imported ({said}); install it again {installing(extra)}"
    )


def refuse_misfit(library: str, extra: str, error: BaseException) -> None:
    """ConfigError if the import of a library has failed because others do not fit; else nothing."""
    misfit = _misfit(library, extra, first_cause(error))
    if misfit is not None:
        raise ConfigError(misfit) from None


def _misfit(library: str, extra: str, said: str) -> str | None:
    """The sentence about libraries that do not fit each other; None where the words are of something else.

    timm, Lightning and transformers import torchvision where it is installed, whether they need it or not.
    """
    wrong_version = unfit_version(extra, said)
    if wrong_version is not None:
        return f"{library} cannot be imported ({said}): {wrong_version}"
    if "torchvision" in said and "No module named" not in said:
        return f"{library} cannot be imported: torchvision {not_built_for_torch(said)}"
    return None


def unfit_version(extra: str, said: str) -> str | None:
    """Which package has the wrong version, where an import has failed for a name that it lacks; else None.

    >>> unfit_version("nets", "cannot import name 'v2' from 'torchvision.transforms' (/lib/torchvision)")
    "the installed version of torchvision does not fit; install those that are tested \
in the clone of this project: pip install -c constraints.txt -e '.[nets]'"
    """
    lacking = _LACKS_A_NAME.search(said)
    if lacking is None:
        return None
    return f"the installed version of {lacking[1]} does not fit; install those that are tested {installing(extra)}"


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

"""How to get the libraries that only some parts need, and what to do where one does not fit another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

from procrustean.base.errors import ConfigError


def installing(extra: str) -> str:
    """The command that installs an extra, with the versions that are tested, and where to give it.

    In the clone the library is installed as it lies there (-e). Without that an extra would bring a copy of it, which
    later changes of the clone do not reach.

    >>> installing("nets")
    "in the clone of this project: pip install -c constraints.txt -e '.[nets]'"
    """
    return f"in the clone of this project: pip install -c constraints.txt -e '.[{extra}]'"


@contextmanager
def needing(library: str, extra: str, needed_by: str) -> Iterator[None]:
    """In it a library is imported that only some parts need; a ConfigError says how to get it.

    Args:
        library: its name.
        extra: what installs it in a version that is tested.
        needed_by: the beginning of the sentence that says so.
    """
    try:
        yield
    except (ImportError, RuntimeError) as error:  # torchvision raises both beside a torch that it was not built for
        if isinstance(error, ModuleNotFoundError) and error.name:
            raise ConfigError(f"{needed_by} needs {error.name}; install it {installing(extra)}") from None
        raise ConfigError(why_not_imported(library, extra, error)) from error


def optional(library: str, extra: str, needed_by: str) -> Any:
    """The library itself, by its name; the arguments are those of `needing`."""
    with needing(library, extra, needed_by):
        return import_module(library)


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
    said, remedy = first_cause(error), f"install it again {installing(extra)}"
    # Others import it where it is installed, whether they need it or not.
    if "torchvision" in said and "No module named" not in said:
        remedy = f"torchvision has to be built for the torch there is: {_with_torchvision()}"
    return f"{library} cannot be imported ({said}); {remedy}"


def _with_torchvision() -> str:
    """The command that installs the torchvision that belongs to the torch there is.

    Both are named, and reinstalled: pip would leave a torchvision of the right number as it is, whatever it was built
    for.
    """
    import torch

    plain, cuda = version("torch").partition("+")[0], torch.version.cuda
    build = "cpu" if cuda is None else f"cu{cuda.replace('.', '')}"
    index = f"https://download.pytorch.org/whl/{build}"
    return f"pip install --force-reinstall torch=={plain} torchvision --index-url {index}"

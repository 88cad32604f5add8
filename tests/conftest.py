"""Fixtures and rules for every test."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import typing
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import settings

from missing_operators import declare_missing_operators

CHECKOUT = Path(__file__).resolve().parents[1]
CIFAR10 = "cifar-10-batches-py"
_DECLARED: list[torch.library.Library] = []

# Parallel test processes on few cores must start no threads of their own; child processes get the variables.
torch.set_num_threads(1)
os.environ.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="PASSIVE", MPLBACKEND="Agg")

# Shells start programs in the background with Ctrl-C ignored, and so would the children that tests stop by it be.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test takes the power away: what was written need not be on the disk. Several tests refuse or count these requests.
os.fsync = lambda handle: None  # type: ignore[assignment]

# Before anything imports torchvision, as Lightning and transformers do.
declare_missing_operators()

# A busy machine is not a failure.
settings.register_profile("procrustean", deadline=None, print_blob=True)
settings.load_profile("procrustean")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All tests and what they import stay to the end: no search for garbage has to go through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)  # it would take a tenth of all the time
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if "tests/browser" in report.nodeid]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} browser tests were skipped: {skipped[0].longrepr[2]}")


@dataclass(frozen=True)
class Answer:
    """What a command gave back."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def same_random_numbers() -> None:
    """Tests that draw from the global generators draw the same every time, alone or after others."""
    if torch.cuda.is_available():
        torch.manual_seed(0)
    else:
        # The other would write down the stack for every kind of device there is none of, a millisecond each time.
        torch.default_generator.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


@pytest.fixture(scope="session", autouse=True)
def short_timing() -> None:
    """Steps of a network are timed for a moment, not for seconds."""
    from procrustean.runs import cost

    cost.SECONDS = 0.05


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """`program("train", "digits", ...)`: what the program answers, in this process."""
    from procrustean.cli import main

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:  # how the parser ends
            code = end.code if isinstance(end.code, int) else 1
        seen = capsys.readouterr()
        return Answer(code, seen.out, seen.err)

    return run


@pytest.fixture
def files_up_to() -> Callable[[int], AbstractContextManager[None]]:
    """`with files_up_to(size)`: the system refuses to write files of more bytes, as on a disk that fills up."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limited(size: int) -> Generator[None, None, None]:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Large material outside the repository: $PROCRUSTEAN_SHARED, or `shared` beside the checkout."""
    path = Path(os.environ.get("PROCRUSTEAN_SHARED") or CHECKOUT.parent / "shared")
    if not path.is_dir():
        pytest.skip(f"needs the shared material; {path} is not there ($PROCRUSTEAN_SHARED names another place)")
    return path


@pytest.fixture(scope="session")
def cifar10_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that holds the official CIFAR-10 python files in `cifar-10-batches-py`."""
    given = os.environ.get("PROCRUSTEAN_DATA")
    if given and (Path(given) / CIFAR10).is_dir():
        return Path(given)
    shared: Path = request.getfixturevalue("shared_dir")
    return restored_cifar10(shared, session_root(tmp_path_factory) / "cifar10")


@pytest.fixture(scope="session")
def torchvision() -> ModuleType:
    """torchvision, and with it timm, which no wheel of PyPI is next to a CPU-only torch: two operators are missing."""
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.append(library)  # they last as long as the object does
    return typing.cast(ModuleType, pytest.importorskip("torchvision"))


@pytest.fixture(scope="session")
def timm(torchvision: ModuleType) -> ModuleType:
    return typing.cast(ModuleType, pytest.importorskip("timm"))


def session_root(factory: pytest.TempPathFactory) -> Path:
    """The temporary folder that all parallel workers of this session see."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def restored_cifar10(shared: Path, data_dir: Path) -> Path:
    """Unpack CIFAR-10 once, whichever worker comes first."""
    done = data_dir / "complete"
    data_dir.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{data_dir}.lock"):
        if not done.exists():
            tool, packs = shared / "tools" / "cifar_packs.py", shared / "data" / "cifar10"
            if not (tool.is_file() and packs.is_dir()):
                pytest.skip(f"needs CIFAR-10 ($PROCRUSTEAN_DATA); neither it nor its packs in {packs} are there")
            command = [sys.executable, tool, "unpack", packs, data_dir / CIFAR10]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            if result.returncode or not result.stdout.rstrip().endswith("complete"):
                pytest.fail(f"CIFAR-10 could not be restored:\n{result.stdout}{result.stderr}")
            done.touch()
    return data_dir


@pytest.fixture(scope="session")
def stripes() -> Callable[[Path], Path]:
    """Writes a file of sixty training images of four classes, eight by eight, into a folder."""

    def write(folder: Path) -> Path:
        random, arrays = np.random.RandomState(0), {}
        for split, counts in (("train", (24, 18, 12, 6)), ("test", (10, 10, 10, 10))):
            labels = np.repeat(np.arange(4), counts)
            images = random.randint(0, 160, (len(labels), 8, 8))
            for image, label in zip(images, labels, strict=True):
                image[:, 2 * label : 2 * label + 2] += 90
            arrays |= {f"{split}_images": images.astype(np.uint8), f"{split}_labels": labels}
        np.savez(folder / "stripes.npz", **arrays)
        return folder / "stripes.npz"

    return write


@pytest.fixture
def two_threads() -> Generator[None]:
    """Two threads compute, however many do in the other tests."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)

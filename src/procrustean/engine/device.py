"""Where a run computes: device and number format, CUDA streams of its own, CPU threads, a single process."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from procrustean.base.errors import ConfigError, RunError


@dataclass(frozen=True)
class Placement:
    """Where a run computes and in which format."""

    device: torch.device
    precision: Literal["fp32", "bf16"]
    reason: str

    @property
    def low_precision(self) -> torch.dtype | None:
        """The working format of the weights, None for float32."""
        return torch.bfloat16 if self.precision == "bf16" else None


def place(device: str = "auto", precision: str = "auto", *, small: bool = False) -> Placement:
    """Choose device and precision; `small` says that the network is too small for bf16 to pay on a CPU."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device 'cuda' received, but this PyTorch ({torch.__version__}) sees no usable GPU; "
            "install a CUDA build and driver, or use --device cpu"
        )
    on_gpu = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    chosen = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    where = torch.cuda.get_device_name(chosen) if on_gpu else "CPU"
    where += " (asked for)" if device != "auto" else (" (found)" if on_gpu else " (no GPU found)")
    if precision != "auto":
        return Placement(chosen, "bf16" if precision == "bf16" else "fp32", f"{where}, {precision} as asked for")
    native, why = _bf16_on_gpu() if on_gpu else _bf16_on_cpu(small)
    return Placement(chosen, "bf16" if native else "fp32", f"{where}, {'bf16' if native else 'fp32'}: {why}")


def _bf16_on_gpu() -> tuple[bool, str]:
    native = torch.cuda.is_bf16_supported(including_emulation=False)
    return native, "the GPU computes in it" if native else "this GPU has no bf16 arithmetic"


def _bf16_on_cpu(small: bool) -> tuple[bool, str]:
    flags = cpu_flags()
    found = [name for name in ("amx_bf16", "avx512_bf16") if name in flags]
    if not found:
        return False, "this CPU has no bf16 arithmetic"
    if small:
        return False, "the network is too small for bf16 to pay"
    return True, f"the CPU computes in it ({found[0]})"


def cpu_flags() -> frozenset[str]:
    """Instruction-set flags of the processor; empty where the system does not list them."""
    return frozenset(_cpu_info("flags").split())


def _cpu_info(name: str) -> str:
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """A stream of the run's own on a GPU, which capturing needs; nothing on a CPU."""
    if device.type != "cuda":
        yield
        return
    stream = take_stream(device)
    try:
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            yield
        torch.cuda.current_stream(device).wait_stream(stream)
    finally:
        give_back(stream)


#: What a stream is for: to compute a run, or to copy images to the device.
Purpose = Literal["run", "copies"]
#: Streams that PyTorch has for a GPU; it deals them out in turn, and then the same ones again.
DIFFERENT_STREAMS = 32

#: Streams that nobody uses at present, by the number of their GPU.
_idle: dict[tuple[int, Purpose], list[torch.cuda.Stream]] = {}
#: Handles of all streams that are in use or idle.
_dealt: set[int] = set()


def take_stream(device: torch.device, purpose: Purpose = "run") -> torch.cuda.Stream:
    """A stream that nobody else uses, one that was given back where there is one.

    The libraries keep memory for every stream that they have worked on, 65 MB each, so that a new one for every run
    would look like a leak. That memory is also why copies have streams apart.
    """
    idle = _idle.get((torch.cuda.current_device() if device.index is None else device.index, purpose))
    return idle.pop() if idle else _another_stream(device)


def _another_stream(device: torch.device) -> torch.cuda.Stream:
    """One that has not been dealt yet: what one user captures on a stream, another's copies must not fall into."""
    stream = torch.cuda.Stream(device)
    for _ in range(DIFFERENT_STREAMS):
        if stream.cuda_stream not in _dealt:
            break
        stream = torch.cuda.Stream(device)
    _dealt.add(stream.cuda_stream)
    return stream


def give_back(stream: torch.cuda.Stream, purpose: Purpose = "run") -> None:
    """What was done on it has ended; somebody else may have it."""
    _idle.setdefault((stream.device.index, purpose), []).append(stream)


def machine(device: torch.device) -> str:
    """The machine in words, for records."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return _cpu_info("model name") or platform.processor() or platform.machine()


#: Networks whose layers are shorter than the hand-over between threads.
_ONE_THREAD = ("small", "small-2d")


def on_one_thread(net: str) -> bool:
    """Whether a network computes on one thread, however many there are."""
    return net in _ONE_THREAD


@contextmanager
def sane_threads(net: str) -> Iterator[None]:
    """One thread for networks that are faster with one, and numbers too small to matter taken for 0; undone outside.

    One thread is also faster beside other work, and gives the same numbers on machines with any number of cores.
    """
    threads, flushes = torch.get_num_threads(), _flushes_denormals()
    if on_one_thread(net):
        torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushes)


def _flushes_denormals() -> bool:
    return bool(torch.tensor(1e-40) * 1.0 == 0)  # torch has no way to ask


def refuse_several_ranks() -> None:
    """RunError in every process of such a launcher; else one would train, until the launcher ends it for the others."""
    ranks = os.environ.get("WORLD_SIZE", "1")
    if ranks not in ("", "0", "1"):
        raise RunError(
            f"WORLD_SIZE = {ranks} received, but a run is trained by one process; start the same command without "
            "torchrun or another launcher of several"
        )

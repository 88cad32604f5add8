"""GPU, driver and the build of torch: do they go together."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

from procrustean.cli.doctor.finding import Finding, fine, note, problem

TOPIC = "GPU"
VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Graphics:
    """What the driver and torch say, each for itself."""

    driver: str | None  # version, None without one
    card: str  # name, "" if the driver names none
    torch: str  # version of torch
    cuda: str | None  # CUDA that torch was built for, None for a CPU or ROCm build
    usable: bool  # whether torch can compute on it
    error: str = ""  # what torch said when it tried
    visible: str | None = None  # $CUDA_VISIBLE_DEVICES, None where it is not set
    cards: int = 1  # that the driver names

    @property
    def hidden(self) -> bool:
        """Whether the variable leaves no GPU to programs: devices before the first impossible one count."""
        if self.visible is None:
            return False
        first = self.visible.split(",")[0].strip()
        is_index = first.removeprefix("-").isdigit()
        return not 0 <= int(first) < self.cards if is_index else not first.upper().startswith(("GPU-", "MIG-"))


def look() -> Graphics:
    """Ask the driver and torch."""
    import torch

    driver, names = _asked_driver()
    error = ""
    usable = bool(torch.cuda.is_available())
    if usable:
        try:
            torch.zeros(1, device="cuda").add_(1).item()
        except RuntimeError as raised:
            usable, error = False, str(raised).splitlines()[0]
    return Graphics(
        driver=driver,
        card=names[0] if names else "",
        torch=torch.__version__,
        cuda=torch.version.cuda,
        usable=usable,
        error=error,
        visible=os.environ.get(VISIBLE),
        cards=max(1, len(names)),
    )


def judge(seen: Graphics) -> list[Finding]:
    """What that means."""
    card = seen.card or "an NVIDIA GPU"
    if seen.usable:
        text = f"{seen.card or 'found'}, driver {seen.driver or 'unknown'}, torch built for CUDA {seen.cuda}"
        return [fine(TOPIC, text)]
    if seen.driver is None:
        if seen.cuda is not None:
            return [note(TOPIC, "no NVIDIA driver found: training runs on the CPU, though this torch could use a GPU")]
        return [note(TOPIC, "none found; training runs on the CPU, which suits thousands of small images")]
    if seen.cuda is None:
        return [
            problem(
                TOPIC,
                f"the driver ({seen.driver}) sees {card}, but this torch ({seen.torch}) was built without CUDA. "
                "Install a build with it: https://pytorch.org/get-started/locally",
            )
        ]
    if seen.hidden:
        text = f"the driver ({seen.driver}) sees {card}, but the variable {VISIBLE}={seen.visible!r} hides it: unset it"
        return [note(TOPIC, f"{text}, unless training is to run on the CPU")]
    because = f" ({seen.error})" if seen.error else ""
    return [
        problem(
            TOPIC,
            f"the driver ({seen.driver}) sees {card}, and torch was built for CUDA {seen.cuda}, but it cannot compute "
            f"on it{because}. Usually the driver is older than the CUDA of the build: update the driver, or install "
            "the torch build for an older CUDA from https://pytorch.org/get-started/locally",
        )
    ]


def _asked_driver() -> tuple[str | None, list[str]]:
    """The version of the driver, None without one, and the names of the cards."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None, []
    command = [program, "--query-gpu=driver_version,name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "that does not answer", []
    if answer.returncode or not answer.stdout.strip():
        return "that does not answer", []
    lines = [line.partition(",") for line in answer.stdout.splitlines()]
    return lines[0][0].strip(), [name.strip() for _, _, name in lines]

"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """What was found and, if it is not fine, what to do about it."""

    level: Literal["fine", "note", "problem"]
    topic: str
    text: str


def fine(topic: str, text: str) -> Finding:
    return Finding("fine", topic, text)


def note(topic: str, text: str) -> Finding:
    """Something that works without, or that only some need."""
    return Finding("note", topic, text)


def problem(topic: str, text: str) -> Finding:
    """Something that has to be mended."""
    return Finding("problem", topic, text)

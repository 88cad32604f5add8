"""What a part of the campaign counts."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """Faults of one kind: each is survived, refused with a clear message, or lost."""

    name: str
    survived: int = 0
    refused: int = 0
    problems: list[str] = field(default_factory=list)  # one text for each that was lost
    details: Counter[str] = field(default_factory=Counter)
    measured: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def injected(self) -> int:
        return self.survived + self.refused + len(self.problems)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "injected": self.injected,
            "survived": self.survived,
            "refused": self.refused,
            "lost": len(self.problems),
            "seconds": round(time.monotonic() - self.began, 1),
            "details": dict(sorted(self.details.items())),
            **({"measured": self.measured} if self.measured else {}),
            **({"problems": self.problems[:20]} if self.problems else {}),
        }

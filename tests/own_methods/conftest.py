"""A folder with methods of a user's own, images to train them on, and the program as a new process would be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

#: A loss, a mixer with deferred weights, two stages with a new head, and mistakes. Imports a module beside it.
METHODS = '''
"""Methods of one's own."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.base import ConfigError
from procrustean.balance import Loss
from procrustean.methods import Method, Stage, make_method
from procrustean.balance import Classify
from procrustean.balance import Problem
from procrustean.balance import deferred
from shared_numbers import TEMPERATURE

NUMBER = 3


class Tempered(Loss):
    def __init__(self, temperature: float) -> None:
        super().__init__(reduction="none")
        self.temperature = temperature

    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(logits / self.temperature, labels, reduction="none")


def tempered(
    problem: Problem, *, temperature: float = TEMPERATURE, form: Literal["a", "b"] = "a", drw: bool = False
) -> Method:
    """Cross-entropy of scores that are divided."""
    objective = Classify(loss=Tempered(temperature), weight=deferred(problem.counts, drw))
    return Method(stages=(Stage(objective),), label="Tempered" + "-DRW" * drw)


def soft_mixup(problem: Problem, *, alpha: float = 0.4, drw: bool = False) -> Method:
    """mixup with a small alpha."""
    stages = make_method("mixup", problem, {"alpha": alpha, "drw": drw}).stages
    return Method(stages=stages, label="Soft mixup" + "-DRW" * drw)


def new_head(net: nn.Module) -> None:
    nn.init.normal_(net.head.weight, std=0.1)


def two_stages(problem: Problem) -> Method:
    """Features, then a new head."""
    later = Stage(Classify(), name="head", share=0.5, trainable="head", reshape=new_head)
    return Method(stages=(Stage(Classify(), name="features", share=0.5), later), label="Two stages")


class Wrong(Tempered):
    def per_sample(self, logits: Tensor, labels: Tensor) -> Tensor:
        return logits @ labels


def wrong_loss(problem: Problem, *, temperature: float = 1) -> Method:
    return Method(stages=(Stage(Classify(loss=Wrong(temperature))),), label="Wrong")


def raises(problem: Problem, *, drw: bool = False) -> Method:
    return {}["alpha"]


def exits(problem: Problem) -> Method:
    raise SystemExit


def refuses(problem: Problem) -> Method:
    raise ConfigError("too few classes; give more")


def no_method(problem: Problem, *, drw: bool = False) -> Method:
    return "Method"


def not_problem(counts: list[int], *, drw: bool = False) -> Method: ...


def not_keyword(problem: Problem, drw: bool = False) -> Method: ...


def no_default(problem: Problem, *, drw: bool) -> Method: ...


def no_type(problem: Problem, *, drw=False) -> Method: ...


def odd_type(problem: Problem, *, layers: list[str] = ()) -> Method: ...


def unknown_type(problem: Problem, *, drw: Boolean = False) -> Method: ...
'''


@pytest.fixture
def work(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, which is the current one, with the file and the module that it imports."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    (tmp_path / "mine.py").write_text(METHODS)
    (tmp_path / "shared_numbers.py").write_text("TEMPERATURE = 2.0\n")
    return tmp_path


@pytest.fixture
def npz(work: Path, stripes: Callable[[Path], Path]) -> str:
    """The file by its name in the folder."""
    return stripes(work).name


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forgets which files have been named and imported, as a new process has."""

    def forget() -> None:
        monkeypatch.setattr("procrustean.base.own_code._named", {})
        monkeypatch.setattr("procrustean.base.own_code._loaded", {})

    return forget


@pytest.fixture(autouse=True)
def _as_a_new_process(new_process: Callable[[], None]) -> None:
    new_process()


@pytest.fixture
def call(work: Path, program: Call, new_process: Callable[[], None]) -> Call:
    """The program in the folder, each time as a process of its own."""

    def run(*arguments: str) -> Any:
        new_process()
        return program(*arguments)

    return run


@pytest.fixture(scope="session")
def tiny() -> dict[str, Any]:
    # Nothing is left open: torch would import its compiler in every process to reckon the work of the network.
    given = {"net": "small", "epochs": 2, "batch_size": 16, "lr": 0.05, "evaluate_every": 1, "hold_out": 0}
    return {**given, "device": "cpu", "precision": "fp32"}

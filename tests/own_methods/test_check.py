"""`procrustean list methods FILE.py:NAME --check` finds what makes the runs of a method untrustworthy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

FAULTY = '''
from typing import Literal

import torch
from torch import nn

from procrustean.balance import Loss
from procrustean.methods import Method, Stage
from procrustean.balance import Mix
from procrustean.balance import inverse_permutation
from procrustean.balance import Classify, Mixer, Mixture
from procrustean.balance import Problem
from procrustean.balance import FixedWeights


class Noisy(Loss):
    """Draws random numbers where nobody counts them."""

    def per_sample(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels, reduction="none") * torch.rand(len(labels))


class Counting(Loss):
    """Remembers in Python how often it was asked."""

    asked = 0

    def per_sample(self, logits, labels):
        self.asked += 1
        return nn.functional.cross_entropy(logits, labels, reduction="none") / self.asked


class Drawing(Loss):
    """Is given the random numbers that it names."""

    draws = {"noise": (), "more": (2,)}

    def per_sample(self, logits, labels, noise, more):
        assert noise.shape == labels.shape and more.shape == (len(labels), 2)
        return nn.functional.cross_entropy(logits, labels, reduction="none") * (noise + more.sum(1))


class Endless(Loss):
    def per_sample(self, logits, labels):
        return logits.sum(1) * float("inf")


class Idling(Loss):
    """Has every score in it, and no gradient."""

    def per_sample(self, logits, labels):
        return logits.sum(1) * 0 + 2


class Constant(Loss):
    """Does not look at the scores at all."""

    def per_sample(self, logits, labels):
        return torch.ones(len(labels))


class Elsewhere(Loss):
    """Depends on a number of its own, and on no weight of the network."""

    def __init__(self):
        super().__init__(reduction="none")
        self.height = nn.Parameter(torch.ones(()))

    def per_sample(self, logits, labels):
        return self.height * torch.ones(len(labels))


class Backwards(Loss):
    """Learns what is wrong."""

    def per_sample(self, logits, labels):
        return -nn.functional.cross_entropy(logits.tanh(), labels, reduction="none")


class Turned(nn.Linear):
    """A head with something that the state dict does not hold."""

    def __init__(self, features, classes):
        super().__init__(features, classes)
        self.turn = torch.randperm(classes, generator=torch.Generator().manual_seed(torch.seed() % 2**31))

    def forward(self, x):
        return super().forward(x)[:, self.turn]


class Mixing(Mixer):
    """Half of everybody is the partner's."""

    at = ("group2",)

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, batch):
        half, partner, inverse = torch.full((len(batch.y),), 0.5), batch.partner, batch.inverse
        if self.kind == "backwards":
            inverse = partner
        if self.kind == "turned":
            partner = partner.flip(0)
            inverse = inverse_permutation(partner)
        return Mixture((Mix(partner, inverse, half),), half)


def method(loss=None, head=None):
    return Method(stages=(Stage(Classify(loss=loss) if loss else Classify()),), label="Faulty", head=head)


def in_stages(*objectives):
    return Method(stages=tuple(Stage(one, share=1 / len(objectives)) for one in objectives), label="Faulty")


def mixing(problem: Problem, *, kind: Literal["backwards", "turned", "right"] = "right") -> Method:
    return Method(stages=(Stage(Classify(mixer=Mixing(kind))),), label="Mixing")


def weighted(problem: Problem) -> Method:
    return Method(stages=(Stage(Classify(weight=FixedWeights(torch.ones(20)))),), label="Weighted")


def beheaded(problem: Problem) -> Method:
    return method(head=lambda features, classes: nn.Linear(features, classes + 1))


def many(labels, count, stream):
    return stream.permutation(count).repeat(2)


def sampling(problem: Problem) -> Method:
    return Method(stages=(Stage(Classify(), sampler=many),), label="Sampling")


def noisy(problem: Problem) -> Method:
    return method(Noisy(reduction="none"))


def counting(problem: Problem) -> Method:
    return method(Counting(reduction="none"))


def idling(problem: Problem) -> Method:
    return method(Idling(reduction="none"))


def idling_later(problem: Problem) -> Method:
    return in_stages(Classify(), Classify(loss=Idling(reduction="none")))


def constant(problem: Problem) -> Method:
    return method(Constant(reduction="none"))


def constant_later(problem: Problem) -> Method:
    return in_stages(Classify(), Classify(loss=Constant(reduction="none")))


def elsewhere(problem: Problem) -> Method:
    return method(Elsewhere())


def backwards(problem: Problem) -> Method:
    return method(Backwards(reduction="none"))


def endless(problem: Problem) -> Method:
    return method(Endless(reduction="none"))


def turned(problem: Problem) -> Method:
    return method(head=Turned)


def drawing(problem: Problem) -> Method:
    return method(Drawing(reduction="none"))


def one_form(problem: Problem, *, form: Literal["a", "b"] | None = "a", keep: bool = True) -> Method:
    return method(None if keep else Endless(reduction="none"))


def idle(problem: Problem, *, drw: bool = False) -> Method:
    return method()
'''


@pytest.fixture
def short_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs of 17 steps; the second training is stopped within the second."""
    monkeypatch.setattr("procrustean.runs.method_trial.EPOCHS", 2)
    monkeypatch.setattr("procrustean.runs.method_trial.STOPPED_AFTER", 20)


@pytest.mark.usefixtures("short_trials")
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("noisy", "defaults: another run with the same seed ends differently: it draws random numbers itself; a loss"),
        ("counting", "defaults: a run that is stopped and goes on ends differently"),
        ("endless", "no finite number"),
        ("idling", "defaults: the loss of stage 1 has no gradient, so nothing is learnt"),
        ("idling_later", "defaults: the loss of stage 2 has no gradient, so nothing is learnt"),
        ("constant", "defaults: the loss of stage 1 has no gradient, so nothing is learnt"),
        ("constant_later", "defaults: the loss of stage 2 has no gradient, so nothing is learnt"),
        ("elsewhere", "defaults: the loss of stage 1 has no gradient, so nothing is learnt"),
        ("turned", "the network that is loaded again is not the one that was trained"),
        (
            "one_form",
            "form=b: it trains the same network as without this option, test balanced accuracy 48.3 %\n"
            "keep=false: a loss, gradient or weight is no finite number",
        ),
        ("idle", "drw=true: it trains the same network as without this option"),
    ],
)
def test_faults_are_named(name: str, fault: str, call: Call) -> None:
    Path("faulty.py").write_text(FAULTY)
    answer = call("list", "methods", f"faulty.py:{name}", "--check")
    assert answer.code == 1, answer.err
    assert fault in answer.out


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("weighted", "class weights of shape (20,) received for 10 classes"),
        ("beheaded", "the head Linear (linear.py) gives (2, 11) for two images of 10 classes"),
        (
            "sampling",
            "the sampler many (faulty.py, line {line}) returned 1050 indices from 0 to 524; 525 indices are needed",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(name: str, message: str, call: Call) -> None:
    Path("faulty.py").write_text(FAULTY)
    line = FAULTY.splitlines().index("def many(labels, count, stream):") + 1
    answer = call("list", "methods", f"faulty.py:{name}", "--check")
    assert (answer.code, answer.out) == (2, "")
    assert message.format(line=line) in answer.err


@pytest.mark.usefixtures("short_trials")
def test_mixtures_that_cannot_be_meant(call: Call) -> None:
    Path("faulty.py").write_text(FAULTY)
    answer = call("list", "methods", "faulty.py:mixing", "--check")
    right, backwards, turned = answer.out.splitlines()
    assert right.startswith("defaults: trains, repeats itself, goes on, is loaded, test"), answer.err
    assert "kind=backwards: the inverse in a Mix of Mixing (faulty.py) is not that of its partner" in backwards
    assert "kind=turned: Mixing (faulty.py) mixes features with other partners than batch.partner" in turned
    assert answer.code == 1


def test_an_error_in_training_is_told_with_its_place(call: Call) -> None:
    line = Path("mine.py").read_text().splitlines().index("        return logits @ labels") + 1
    answer = call("list", "methods", "mine.py:wrong_loss", "--check")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    place = f"RuntimeError in {Path('mine.py').resolve()}, line {line}: size mismatch"
    assert answer.err.startswith(f"procrustean: mine.py:wrong_loss, defaults: training fails with {place}")
    assert answer.err.endswith("; --debug shows the way there\n")
    assert "Traceback" in call("list", "methods", "mine.py:wrong_loss", "--check", "--debug").err


def test_training_names_a_loss_that_cannot_be_minimised(call: Call) -> None:
    Path("faulty.py").write_text(FAULTY)
    settings = ("--imbalance", "step", "--rho", "20", "--epochs", "1", "--device", "cpu")
    answer = call("train", "digits", "--method", "faulty.py:constant", *settings)
    assert answer.code == 2, answer.err
    assert "the loss has no gradient: it does not depend on the scores of the network" in answer.err


def test_an_accuracy_of_chance_is_called_so(call: Call) -> None:
    Path("faulty.py").write_text(FAULTY)
    answer = call("list", "methods", "faulty.py:backwards", "--check")
    assert "is loaded, test balanced accuracy" in answer.out
    assert " %, which is not above chance: in these few epochs" in answer.out
    assert "chance" not in call("list", "methods", "faulty.py:drawing", "--check").out


@pytest.mark.usefixtures("short_trials")
def test_a_loss_is_given_the_random_numbers_that_it_names(call: Call) -> None:
    Path("faulty.py").write_text(FAULTY)
    answer = call("list", "methods", "faulty.py:drawing", "--check")
    assert answer.code == 0, answer.out + answer.err


def test_a_method_without_a_docstring_is_explained_by_its_options(call: Call) -> None:
    Path("faulty.py").write_text(FAULTY)
    answer = call("list", "methods", "faulty.py:idle")
    assert answer.code == 0, answer.err
    assert "Defaults: drw=False" in answer.out
    assert "\n\n\n" not in answer.out


def test_a_method_without_faults(call: Call) -> None:
    answer = call("list", "methods", "mine.py:soft_mixup", "--check")
    assert answer.code == 0, answer.err
    for options, line in zip(("defaults", "drw=true"), answer.out.splitlines(), strict=True):
        assert line.startswith(f"{options}: trains, repeats itself, goes on, is loaded, test balanced accuracy ")


def test_a_check_needs_a_method(call: Call) -> None:
    answer = call("list", "methods", "--check")
    assert answer.code == 2
    assert "--check received without a method" in answer.err

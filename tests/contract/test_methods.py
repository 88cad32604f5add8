"""What every method in the table has to do, whatever it is."""

from __future__ import annotations

import ast
import copy
import inspect
import math
import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

import procrustean.methods
from procrustean.errors import ConfigError
from procrustean.methods import METHODS, checked_options, factory, make_method, option_defaults
from procrustean.methods.base import Method, Stage
from procrustean.mixing import inverse_permutation
from procrustean.nets import build_net
from procrustean.nets.classifier import Classifier
from procrustean.recipes import lr_table, recipe_for
from procrustean.types import Batch, Clock, Problem

FOLDER = Path(procrustean.methods.__file__).parent
COUNTS = (24, 12, 6, 3)
BATCH, EPOCHS = 16, 10
PROBLEM = Problem(COUNTS, "long_tailed", "digits", ("input", "group1", "group2", "group3"), "group2")

Case = tuple[str, dict[str, object]]


def cases() -> Iterator[Case]:
    for name in METHODS:
        yield name, {}
        if "drw" in option_defaults(name):
            yield name, {"drw": True}


def case_name(case: object) -> str:
    name, options = typing.cast(Case, case)
    return "-".join([name, *options])


every_method = pytest.mark.parametrize("case", list(cases()), ids=case_name)
every_file = pytest.mark.parametrize("name", METHODS)


@dataclass
class Training:
    """A method at work on a few small images; nothing but the interface of methods is used."""

    method: Method
    net: Classifier
    stage: Stage

    @classmethod
    def of(cls, case: Case, seed: int = 0) -> Training:
        method = make_method(case[0], PROBLEM, case[1])
        net = build_net("small", channels=1, classes=len(COUNTS), seed=seed, head=method.head)
        stage = method.stages[0]
        if stage.begin:
            stage.begin(net)
        for name, parameter in net.named_parameters():
            parameter.requires_grad_(stage.trainable == "all" or f"{name}.".startswith(f"{stage.trainable}."))
        stage.objective.bind(net)
        return cls(method, net.train(), stage)

    @property
    def trainable(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self.net.named_parameters() if p.requires_grad}

    def loss(self, batch: Batch, epoch: int = 0) -> Tensor:
        value: Tensor = self.stage.objective(self.net, batch, clock(epoch))
        return value

    def steps(self, count: int, *, seed: int = 0, epoch: int = 0) -> list[float]:
        optimizer = torch.optim.SGD(self.trainable.values(), lr=0.05, momentum=0.9)
        losses = []
        for number in range(count):
            loss = self.loss(self.batch(seed + number), epoch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def batch(self, seed: int = 0) -> Batch:
        """Images of a pattern per class under noise, classes as frequent as in COUNTS."""
        generator = torch.Generator().manual_seed(seed)
        y = torch.multinomial(torch.tensor(COUNTS, dtype=torch.float32), BATCH, True, generator=generator)
        patterns = torch.randn(len(COUNTS), 1, 8, 8, generator=torch.Generator().manual_seed(99))
        x = patterns[y] + 0.3 * torch.randn(BATCH, 1, 8, 8, generator=generator)
        partner = torch.randperm(BATCH, generator=generator)
        u = {name: torch.rand(BATCH, *shape, generator=generator) for name, shape in self.stage.objective.draws.items()}
        return Batch(x, y, partner, inverse_permutation(partner), u)


def clock(epoch: int) -> Clock:
    return Clock(torch.tensor(epoch), torch.tensor(0.05), EPOCHS)


class TestTraining:
    @every_method
    def test_builds_from_defaults(self, case: Case) -> None:
        method = make_method(case[0], PROBLEM, case[1])
        assert isinstance(method, Method)
        assert math.isclose(sum(stage.share for stage in method.stages), 1.0)
        assert all(stage.share > 0 for stage in method.stages)
        assert method.label

    @every_method
    def test_the_loss_is_finite_and_falls(self, case: Case) -> None:
        losses = Training.of(case).steps(30)
        assert all(math.isfinite(loss) for loss in losses)
        assert sum(losses[-5:]) < 0.6 * sum(losses[:5])

    @every_method
    def test_it_learns_to_tell_the_classes_apart(self, case: Case) -> None:
        training = Training.of(case)
        training.steps(30)
        if training.method.finish:
            training.method.finish(training.net)
        batch = training.batch(seed=1000)
        with torch.no_grad():
            predicted = training.net.eval()(batch.x).argmax(1)
        assert (predicted == batch.y).float().mean() > 0.6

    @every_method
    @pytest.mark.parametrize("epoch", [0, EPOCHS - 1])
    def test_gradients_reach_what_learns_and_nothing_else(self, case: Case, epoch: int) -> None:
        training = Training.of(case)
        training.loss(training.batch(), epoch).backward()
        gradients = {name: p.grad for name, p in training.net.named_parameters() if p.grad is not None}
        assert gradients.keys() == training.trainable.keys()
        assert training.stage.trainable != "all" or len(gradients) == len(list(training.net.parameters()))
        for name, gradient in gradients.items():
            assert bool(gradient.isfinite().all()), name
            assert gradient.abs().sum() > 0, name

    @every_method
    def test_the_same_seed_gives_the_same_weights(self, case: Case) -> None:
        states = []
        for seed in (0, 0, 1):
            training = Training.of(case, seed)
            torch.rand(3)  # what others draw in between makes no difference
            training.steps(3, seed=seed)
            states.append(training.net.state_dict())
        for name, value in states[0].items():
            assert torch.equal(value, states[1][name]), name
        assert not torch.equal(states[0]["head.weight"], states[2]["head.weight"])

    @every_method
    def test_the_global_generator_is_left_alone(self, case: Case) -> None:
        before = torch.get_rng_state()
        Training.of(case).steps(2)
        assert torch.equal(torch.get_rng_state(), before)

    @every_method
    def test_labels_do_not_reach_evaluation(self, case: Case) -> None:
        training = Training.of(case)
        batch, state = training.batch(), copy.deepcopy(training.net.state_dict())
        found = []
        for labels in (batch.y, batch.y.flip(0), torch.zeros_like(batch.y)):
            training.loss(batch._replace(y=labels))
            training.net.load_state_dict(state)  # the running statistics have moved
            found.append(training.net.eval()(batch.x))
            training.net.train()
        plain = build_net("small", channels=1, classes=4, seed=0, head=training.method.head).eval()(batch.x)
        assert all(torch.equal(scores, plain) for scores in found)

    @every_method
    def test_the_keys_of_the_network_stay(self, case: Case) -> None:
        training = Training.of(case)
        plain = build_net("small", channels=1, classes=4, seed=0, head=training.method.head)
        assert list(training.net.state_dict()) == list(plain.state_dict())

    @every_method
    def test_evaluation_is_a_function_of_each_image_alone(self, case: Case) -> None:
        training = Training.of(case)
        training.steps(2)
        x = training.batch().x
        scores = training.net.eval()(x)
        torch.testing.assert_close(training.net(x[:1]), scores[:1])
        torch.testing.assert_close(training.net(x.flip(0)), scores.flip(0))


class TestClock:
    @every_method
    def test_weights_are_deferred_if_and_only_if_asked_for(self, case: Case) -> None:
        training = Training.of(case)
        batch = training.batch()
        early, before, after, late = (training.loss(batch, epoch).item() for epoch in (0, 7, 8, 9))
        assert early == pytest.approx(before, rel=1e-5)
        assert after == pytest.approx(late, rel=1e-5)
        assert (before != pytest.approx(after, rel=1e-3)) == bool(case[1].get("drw"))

    @every_method
    def test_recipes_accept_its_changes(self, case: Case) -> None:
        method = make_method(case[0], PROBLEM, case[1])
        for changes in (method.paper, method.own, *(stage.recipe for stage in method.stages)):
            recipe = recipe_for("cifar10").changed(changes)
            assert len(lr_table(recipe, recipe.epochs)) == recipe.epochs


class TestCompiled:
    @every_method
    def test_one_graph_that_equals_eager_and_is_never_compiled_again(self, case: Case) -> None:
        training, eager = Training.of(case), Training.of(case)
        if not training.stage.objective.capturable:
            pytest.skip(f"{case_name(case)} says that it has to run eagerly")
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(training.stage.objective, fullgraph=True, backend=counter)
        time = clock(0)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for number, epoch in enumerate((0, 7, 8, 9)):
                batch = training.batch(seed=number)
                time.epoch.fill_(epoch)
                loss = compiled(training.net, batch, time)
                wanted = eager.loss(batch, epoch)
                torch.testing.assert_close(loss, wanted)
                gradients = torch.autograd.grad(loss, list(training.trainable.values()))
                torch.testing.assert_close(
                    gradients, torch.autograd.grad(wanted, list(eager.trainable.values())), rtol=1e-4, atol=1e-5
                )
        assert counter.frame_count == 1
        torch._dynamo.reset()


class TestTable:
    def test_every_file_is_in_the_table_and_the_other_way_round(self) -> None:
        files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "base"}
        assert files == set(METHODS)

    def test_a_row_of_the_paper_belongs_to_one_method(self) -> None:
        rows = [row for entry in METHODS.values() for row in entry.rows]
        assert len(rows) == len(set(rows))

    @every_file
    def test_the_rows_of_the_paper_are_labels_of_the_method(self, name: str) -> None:
        labels = {make_method(name, PROBLEM, options).label for n, options in cases() if n == name}
        assert set(METHODS[name].rows) <= labels
        assert METHODS[name].source

    @every_file
    def test_files_are_short(self, name: str) -> None:
        assert len((FOLDER / f"{name}.py").read_text().splitlines()) <= 130

    @every_file
    def test_files_say_what_they_are(self, name: str) -> None:
        tree = ast.parse((FOLDER / f"{name}.py").read_text())
        assert ast.get_docstring(tree)
        functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
        assert functions == [name]

    @every_file
    def test_options_are_keyword_only_and_typed(self, name: str) -> None:
        problem, *options = inspect.signature(factory(name)).parameters.values()
        assert problem.name == "problem"
        assert all(option.kind is option.KEYWORD_ONLY for option in options)
        hints = typing.get_type_hints(factory(name))
        assert hints.keys() == {"problem", "return", *option_defaults(name)}
        assert hints["return"] is Method

    @every_file
    def test_the_formula_and_every_option_are_explained(self, name: str) -> None:
        text = inspect.getdoc(factory(name)) or ""
        summary, _, rest = text.partition("\n")
        assert summary.endswith(".")
        assert "Formula: " in rest
        explained = re.findall(r"^    (\w+): \S", rest.partition("Args:")[2], flags=re.MULTILINE)
        assert explained == list(option_defaults(name))

    @every_file
    def test_defaults_pass_the_check_of_the_command_line(self, name: str) -> None:
        defaults = option_defaults(name)
        assert checked_options(name, defaults) == defaults
        texts = {key: str(value).lower() for key, value in defaults.items()}
        assert checked_options(name, texts) == defaults

    @every_file
    def test_an_unknown_option_is_refused(self, name: str) -> None:
        with pytest.raises(ConfigError, match=f"method '{name}' has no option 'colour'"):
            make_method(name, PROBLEM, {"colour": "red"})

    @every_file
    @pytest.mark.parametrize("counts", [(50, 5), (7, 7, 7), (500,) * 50 + (5,) * 50])
    @pytest.mark.parametrize("kind", ["long_tailed", "step"])
    @pytest.mark.filterwarnings("ignore:every class has strength 0")
    def test_builds_for_other_problems(self, name: str, counts: tuple[int, ...], kind: typing.Any) -> None:
        assert make_method(name, Problem(counts, kind, "cifar100")).stages

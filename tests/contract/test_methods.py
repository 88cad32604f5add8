"""What every method in the table has to do, whatever it is."""

from __future__ import annotations

import ast
import copy
import inspect
import math
import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

import procrustean
from procrustean.balance import Batch, Clock, Images, Problem, inverse_permutation
from procrustean.base import ConfigError, Stream
from procrustean.data import Sampler, all_sets, lr_table, recipe_for
from procrustean.engine import freeze_all_but, keep_statistics, reshape_for
from procrustean.methods import (
    METHODS,
    Method,
    Stage,
    check_parts,
    checked_options,
    factory,
    make_method,
    option_defaults,
)
from procrustean.nets import Classifier, build_net, check_scores
from procrustean.runs import check_class_weights, check_named_parts

FOLDER = Path(procrustean.methods.__file__).parent
COUNTS = (24, 12, 6, 3)
LABELS = torch.arange(4).repeat_interleave(torch.tensor(COUNTS))
BATCH, EPOCHS = 16, 10
PROBLEM = Problem(COUNTS, "long_tailed", "digits", ("input", "group1", "group2", "group3"), "group2")

Case = tuple[str, dict[str, object]]


def cases() -> Iterator[Case]:
    for name in METHODS:
        yield name, {}
        if "drw" in option_defaults(name):
            yield name, {"drw": True}
        for option, default in option_defaults(name).items():
            if default is False and option != "drw":
                yield name, {option: True}
        # A form is another loss, and may be another head.
        for option in ("form", "loss"):
            for choice in typing.get_args(typing.get_type_hints(factory(name)).get(option)):
                if choice != option_defaults(name)[option]:
                    yield name, {option: choice}


def case_name(case: object) -> str:
    name, options = typing.cast(Case, case)
    return "-".join([name, *(key if value is True else f"{key}={value}" for key, value in options.items())])


every_method = pytest.mark.parametrize("case", list(cases()), ids=case_name)
# Before weights are deferred.
every_beginning = pytest.mark.parametrize("case", [case for case in cases() if case[1] != {"drw": True}], ids=case_name)
STAGES = [
    pytest.param(case, number, id=case_name(case) + f"-stage{number + 1}" * (len(stages) > 1))
    for case in cases()
    for stages in [make_method(case[0], PROBLEM, case[1]).stages]
    for number in range(len(stages))
]
every_stage = pytest.mark.parametrize(("case", "number"), STAGES)
# With DRW an objective does all that it does without, and more.
every_graph = pytest.mark.parametrize(
    ("case", "number"), [one for one in STAGES if one.values[0][1] or "drw" not in option_defaults(one.values[0][0])]
)
every_file = pytest.mark.parametrize("name", METHODS)


def network(method: Method, seed: int, stages: int) -> Classifier:
    """The untrained network as so many stages make it."""
    net = build_net("small", channels=1, classes=len(COUNTS), seed=seed, head=method.head)
    for number in range(stages):
        reshape_for(net, method, number, seed)
    return net


@dataclass
class Training:
    """A stage of a method at work on a few small images; nothing but the interface of methods is used."""

    method: Method
    net: Classifier
    stage: Stage

    @classmethod
    def of(cls, case: Case, seed: int = 0, number: int = 0) -> Training:
        method = make_method(case[0], PROBLEM, case[1])
        return cls(method, network(method, seed, number + 1), method.stages[number]).begun()

    def begun(self) -> Training:
        """Itself, ready for the first step of its stage; the network has its shape already."""
        if self.stage.begin:
            self.stage.begin(self.net, lambda: iter([self.clean_images()]))
        freeze_all_but(self.net, self.stage.trainable)
        self.stage.objective.bind(self.net)
        self.train()
        return self

    def then(self, number: int, seed: int = 0) -> Training:
        """The next stage, on the same network."""
        self.stage.objective.unbind()
        reshape_for(self.net, self.method, number, seed)
        return Training(self.method, self.net, self.method.stages[number]).begun()

    def train(self) -> None:
        self.net.train()
        if self.stage.norm == "eval":
            keep_statistics(self.net, self.stage.trainable)

    @property
    def trainable(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self.net.named_parameters() if p.requires_grad}

    def loss(self, batch: Batch, epoch: int = 0) -> Tensor:
        objective, now = self.stage.objective, clock(epoch)
        objective.phase = objective.phase_at(epoch, now.epochs)
        value: Tensor = objective(self.net, batch, now)
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
        """Images of a pattern per class under noise, classes as frequent as in COUNTS or as the samplers draw them."""
        generator = torch.Generator().manual_seed(seed)
        y = torch.multinomial(torch.tensor(COUNTS, dtype=torch.float32), BATCH, True, generator=generator)
        if self.stage.sampler:
            y = drawn(self.stage.sampler, seed)
        x = images_of(y, generator)
        partner = torch.randperm(BATCH, generator=generator)
        u = {name: torch.rand(BATCH, *shape, generator=generator) for name, shape in self.stage.objective.draws.items()}
        batch = Batch(x, y, partner, inverse_permutation(partner), u)
        if self.stage.extra is None:
            return batch
        other_y = drawn(self.stage.extra, seed + 1)
        return batch._replace(extra=Images(images_of(other_y, generator), other_y))

    def clean_images(self) -> tuple[Tensor, Tensor]:
        return images_of(LABELS, torch.Generator().manual_seed(7)), LABELS


def images_of(y: Tensor, generator: torch.Generator) -> Tensor:
    patterns = torch.randn(len(COUNTS), 1, 8, 8, generator=torch.Generator().manual_seed(99))
    return patterns[y] + 0.3 * torch.randn(len(y), 1, 8, 8, generator=generator)


def drawn(sampler: Sampler, seed: int) -> Tensor:
    """Labels of a batch of the sampler's."""
    return LABELS[torch.from_numpy(sampler(LABELS.numpy(), BATCH, Stream(seed, "contract")))]


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
        # Every option that may be left open is settled.
        settled = {**option_defaults(case[0]), **case[1], **method.resolved}
        assert [name for name, value in settled.items() if value is None] == []
        assert set(method.resolved) <= set(option_defaults(case[0]))

    @every_beginning
    def test_the_loss_is_finite_and_falls(self, case: Case) -> None:
        training = Training.of(case)
        losses = training.steps(30)
        assert all(math.isfinite(loss) for loss in losses)
        assert sum(losses[-5:]) < 0.6 * sum(losses[:5])
        for number in range(1, len(training.method.stages)):
            # Later stages may have no more than a few numbers to learn, and a good network to start from.
            training = training.then(number)
            losses = training.steps(30)
            assert all(math.isfinite(loss) for loss in losses)
            assert sum(losses[-5:]) < sum(losses[:5])

    @every_beginning
    def test_it_learns_to_tell_the_classes_apart(self, case: Case) -> None:
        training = Training.of(case)
        training.steps(30, epoch=5)
        for number in range(1, len(training.method.stages)):
            training = training.then(number)
            training.steps(30)
        if training.method.finish:
            training.method.finish(training.net, None)
        batch = training.batch(seed=1000)
        with torch.no_grad():
            predicted = training.net.eval()(batch.x).argmax(1)
        assert (predicted == batch.y).float().mean() > 0.6

    @every_stage
    def test_gradients_reach_what_learns_and_nothing_else(self, case: Case, number: int) -> None:
        training = Training.of(case, number=number)
        learns = training.trainable
        assert training.stage.trainable != "all" or len(learns) == len(list(training.net.parameters()))
        assert all(training.stage.trainable in ("all", name) or name.startswith(training.stage.trainable + ".")
                   for name in learns)  # fmt: skip
        reached = {name: torch.zeros_like(p) for name, p in learns.items()}
        for epoch in (0, EPOCHS - 1):  # a part may be idle in some epochs
            training.net.zero_grad()
            training.loss(training.batch(), epoch).backward()
            gradients = {name: p.grad for name, p in training.net.named_parameters() if p.grad is not None}
            assert gradients.keys() == learns.keys()
            for name, gradient in gradients.items():
                assert bool(gradient.isfinite().all()), name
                reached[name] += gradient.abs()
        assert not [name for name, gradient in reached.items() if not gradient.sum() > 0]

    @every_stage
    def test_a_stage_changes_what_learns_and_statistics_alone(self, case: Case, number: int) -> None:
        training = Training.of(case, number=number)
        before = copy.deepcopy(training.net.state_dict())
        training.steps(2, epoch=EPOCHS - 1)
        parameters = dict(training.net.named_parameters())
        for name, value in training.net.state_dict().items():
            if name in parameters:
                assert torch.equal(value, before[name]) != (name in training.trainable), name
            elif training.stage.norm == "eval":
                assert torch.equal(value, before[name]), name

    @every_stage
    def test_the_same_seed_gives_the_same_weights(self, case: Case, number: int) -> None:
        states = []
        for seed in (0, 0, 1):
            training = Training.of(case, seed, number)
            torch.rand(3)  # what others draw in between makes no difference
            training.steps(3, seed=seed, epoch=EPOCHS // 2)
            states.append(training.net.state_dict())
        for name, value in states[0].items():
            assert torch.equal(value, states[1][name]), name
        learnt = list(training.trainable)
        assert not any(torch.equal(states[0][name], states[2][name]) for name in learnt if name.endswith("weight"))
        assert not all(torch.equal(states[0][name], states[2][name]) for name in learnt)

    @every_stage
    def test_the_global_generator_is_left_alone(self, case: Case, number: int) -> None:
        before = torch.get_rng_state()
        Training.of(case, number=number).steps(2)
        assert torch.equal(torch.get_rng_state(), before)

    @every_stage
    def test_labels_do_not_reach_evaluation(self, case: Case, number: int) -> None:
        training = Training.of(case, number=number)
        batch, state = training.batch(), copy.deepcopy(training.net.state_dict())
        found = []
        for labels in (batch.y, batch.y.flip(0), torch.zeros_like(batch.y)):
            training.loss(batch._replace(y=labels))
            training.net.load_state_dict(state)  # the running statistics have moved
            found.append(training.net.eval()(batch.x))
            training.train()
        assert all(torch.equal(scores, found[0]) for scores in found)
        if training.stage.begin is None:
            plain = network(training.method, 0, number + 1).eval()(batch.x)
            assert torch.equal(found[0], plain)

    @every_stage
    def test_the_keys_of_the_network_stay(self, case: Case, number: int) -> None:
        training = Training.of(case, number=number)
        training.steps(1)
        assert list(training.net.state_dict()) == list(network(training.method, 0, number + 1).state_dict())

    @every_stage
    def test_evaluation_is_a_function_of_each_image_alone(self, case: Case, number: int) -> None:
        training = Training.of(case, number=number)
        training.steps(2)
        x = training.batch().x
        scores = training.net.eval()(x)
        torch.testing.assert_close(training.net(x[:1]), scores[:1])
        torch.testing.assert_close(training.net(x.flip(0)), scores.flip(0))


class TestClock:
    @pytest.mark.parametrize("case", [c for c in cases() if "drw" in option_defaults(c[0])], ids=case_name)
    def test_weights_are_deferred_if_and_only_if_asked_for(self, case: Case) -> None:
        training = Training.of(case)
        batch = training.batch()
        early, before, after, late = (training.loss(batch, epoch).item() for epoch in (0, 7, 8, 9))
        assert early == pytest.approx(before, rel=1e-5)
        assert after == pytest.approx(late, rel=1e-5)
        assert (before != pytest.approx(after, rel=1e-3)) == bool(case[1].get("drw"))

    @every_method
    def test_its_parts_are_what_they_have_to_be(self, case: Case) -> None:
        for found in all_sets():
            check_parts(make_method(case[0], replace(PROBLEM, source=found.name), case[1]), case[0])

    @every_stage
    def test_it_fits_the_network_and_the_classes(self, case: Case, number: int) -> None:
        method = make_method(case[0], PROBLEM, case[1])
        net = network(method, 0, number + 1)
        check_scores(net, PROBLEM.classes)
        check_named_parts(method.stages[number], net)
        check_class_weights(method.stages[number].objective, PROBLEM.classes)

    @every_method
    def test_recipes_accept_its_changes(self, case: Case) -> None:
        method = make_method(case[0], PROBLEM, case[1])
        for changes in (method.paper, method.own or {}, *(stage.recipe for stage in method.stages)):
            recipe = recipe_for("cifar10").changed(changes)
            assert len(lr_table(recipe, recipe.epochs)) == recipe.epochs


@pytest.mark.slow
class TestCompiled:
    @every_graph
    def test_one_graph_that_equals_eager_and_is_never_compiled_again(self, case: Case, number: int) -> None:
        training, eager = Training.of(case, number=number), Training.of(case, number=number)
        if not training.stage.objective.compilable:
            pytest.skip(f"{case_name(case)} says that it cannot be compiled")
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(training.stage.objective, fullgraph=True, backend=counter)
        time = clock(0)
        with torch._dynamo.config.patch(error_on_recompile=True):
            for seed, epoch in enumerate((0, 5, 8, 9)):
                batch = training.batch(seed=seed)
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
    def test_every_method_in_the_folder_is_in_the_table(self) -> None:
        found = {path.stem for path in FOLDER.glob("*.py") if f"\ndef {path.stem}(" in path.read_text()}
        assert found == set(METHODS)

    def test_a_row_of_the_paper_belongs_to_one_method(self) -> None:
        rows = [row for entry in METHODS.values() for row in entry.rows]
        assert len(rows) == len(set(rows))

    @every_file
    def test_the_rows_of_the_paper_are_labels_of_the_method(self, name: str) -> None:
        labels = {make_method(name, PROBLEM, options).label for n, options in cases() if n == name}
        assert set(METHODS[name].rows) <= labels
        assert METHODS[name].source
        assert re.match(r"\d", METHODS[name].cost)

    @every_file
    def test_files_are_short(self, name: str) -> None:
        assert len((FOLDER / f"{name}.py").read_text().splitlines()) <= 300

    @every_file
    def test_files_say_what_they_are(self, name: str) -> None:
        tree = ast.parse((FOLDER / f"{name}.py").read_text())
        assert ast.get_docstring(tree)
        assert name in [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]

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
    def test_what_it_refuses_with_a_reason_is_no_option(self, name: str) -> None:
        for option, reason in METHODS[name].refused.items():
            assert option not in option_defaults(name)
            with pytest.raises(ConfigError, match=f"method '{name}' takes no {option}: {reason}"):
                make_method(name, PROBLEM, {option: True})

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

"""Importing files of the user's: what they may hold, and what is said about the rest."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from procrustean import make_method, use_file
from procrustean.balance import Problem
from procrustean.base import ConfigError
from procrustean.methods import Method, checked_options, factory, option_defaults

PROBLEM = Problem(counts=(50, 20, 5), kind="step", layers=("input", "group1", "group2"))


def test_a_method_of_a_file_is_built_like_any_other(work: Path) -> None:
    name = use_file("mine.py:tempered")
    assert make_method(name, PROBLEM, {"temperature": "3", "drw": "true"}).label == "Tempered-DRW"
    assert option_defaults(name) == {"temperature": 2.0, "form": "a", "drw": False}
    assert make_method("mine.py:soft_mixup", PROBLEM).stages[0].objective.draws  # by its path, once it is named


def test_options_are_checked_under_the_name_a_user_knows(work: Path) -> None:
    name = use_file("mine.py:tempered")
    with pytest.raises(ConfigError, match=r"option form = 'c' of method 'mine\.py:tempered' is not one of 'a', 'b'"):
        checked_options(name, {"form": "c"})
    with pytest.raises(ConfigError, match=r"method 'mine\.py:tempered' has no option 'temprature'. Did you mean"):
        checked_options(name, {"temprature": 1})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("temperd", r"mine\.py has no 'temperd'. Did you mean 'tempered'\?"),
        ("NUMBER", "mine.py:NUMBER is no function"),
        ("Tempered", "mine.py:Tempered is no function"),
        ("not_problem", "its first argument has to be problem; write def not_problem"),
        ("not_keyword", "the argument 'drw' is no option: options are keyword-only and have a default"),
        ("no_default", "the argument 'drw' is no option"),
        ("no_type", "the argument 'drw' has no type that an option can have"),
        ("odd_type", "the argument 'layers' has no type that an option can have"),
        ("unknown_type", "a type hint means nothing here .*Boolean"),
        ("no_method", "mine.py:no_method returned str, not a Method"),
        ("raises", r"mine\.py:raises builds no method: KeyError, line \d+: 'alpha'$"),
        ("exits", r"mine\.py:exits builds no method: SystemExit, line \d+$"),
        ("refuses", "^too few classes; give more$"),
    ],
)
def test_what_builds_no_method_is_refused(function: str, message: str, work: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        make_method(use_file(f"mine.py:{function}"), PROBLEM)


def refused_parts(work: Path, parts: str, message: str) -> None:
    (work / "parts.py").write_text(
        "from procrustean.balance import CrossEntropy\n"
        "from procrustean.methods import Method, Stage\n"
        "from procrustean.balance import Classify\n"
        "OBJECTIVE = Classify(loss=CrossEntropy(reduction='none'))\n"
        f"def parts(problem): return Method({parts})\n"
    )
    with pytest.raises(ConfigError, match=message):
        make_method(use_file("parts.py:parts"), PROBLEM)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            "stages=(Stage(OBJECTIVE)), label='P'",
            r"parts.py:parts: stages of type Stage .* a tuple .*\(Stage\(objective\),\)$",
        ),
        ("stages=(), label='P'", "stages of type tuple received that are no Stages"),
        ("stages=(OBJECTIVE,), label='P'", "stages of type tuple received that are no Stages"),
        ("stages=(Stage(OBJECTIVE.loss),), label='P'", r"a Stage of CrossEntropy received; .*Stage\(Classify\(loss="),
        ("stages=(Stage(OBJECTIVE),), label=None", "label = None received; give the name that it has in tables"),
        (
            "stages=(Stage(OBJECTIVE), Stage(OBJECTIVE)), label='P'",
            "^parts.py:parts: stages with the shares 1 and 1 of the epochs received, which add up to 2; give each",
        ),
        ("stages=(Stage(OBJECTIVE),), label='P', head=lambda width: 0", r"parts: head: .* of \(features, classes\)"),
        ("stages=(Stage(OBJECTIVE),), label='P', finish=lambda net: 0", r"parts: finish: .* of \(net, judge\)"),
    ],
)
def test_a_method_of_wrong_parts_is_refused(parts: str, message: str, work: Path) -> None:
    refused_parts(work, parts, message)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("norm='off'", "^parts.py:parts, stage 'train': norm = 'off' received: Invalid enum value 'off'"),
        ("extra_from='test'", "extra_from = 'test' received: Invalid enum value 'test'"),
        ("name=3", "stage 3: name = 3 received: Expected `str`, got `int`"),
        ("trainable=None", "trainable = None received: Expected `str | array`, got `null`"),
        ("trainable=()", r"trainable = \(\) received: Expected `array` of length >= 1"),
        ("meta_per_class=0", "meta_per_class = 0 received: Expected `int` >= 1"),
        ("rates={'head': -1}", "rates = {'head': -1} received: Expected `float` >= 0"),
        ("no_decay='head'", "no_decay = 'head' received: Expected `array`, got `str`"),
        ("recipe=[('lr', 1)]", "recipe = .* received: Expected `object`, got `array`"),
        ("recipe={'flip': True}", "^parts.py:parts: 'flip' received in the recipe of the stage 'train', where it cha"),
        ("recipe={'lr': -1}", "^parts.py:parts: lr = -1 received; it has to be above 0"),
        ("recipe={'lr': '1'}", "^parts.py:parts: '<' not supported between instances of 'int' and 'str'"),
        ("sampler=3", r"sampler = 3 received; write a function of \(labels, count, stream\)"),
        (
            "begin=lambda net: None",
            r"begin: <lambda> \(parts.py, line 5\) takes \(net\), but is called with 2 arguments; write a function of "
            r"\(net, batches\)",
        ),
        ("reshape=lambda: 0", r"reshape: .* takes \(\), but is called with 1 argument; write a function of \(net\)"),
        ("extra=lambda a: 0", r"extra: .* write a function of \(labels, count, stream\)"),
    ],
)
def test_a_stage_of_wrong_parts_is_refused(part: str, message: str, work: Path) -> None:
    refused_parts(work, f"stages=(Stage(OBJECTIVE, {part}),), label='P'", message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = x / 0\n", "ZeroDivisionError, line 2: division by zero"),
        ("import no_such_module\n", "ModuleNotFoundError, line 1: No module named 'no_such_module'"),
        ("from . import shared_numbers\n", "ImportError, line 1: attempted relative import"),
        ("import sys\n\nsys.exit(3)\n", "SystemExit, line 3: 3"),
        ("from shared_numbers import NONE\n", "ImportError, line 1: cannot import name 'NONE'"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_with_its_line(text: str, message: str, work: Path) -> None:
    (work / "bad.py").write_text(text + "def f(problem): ...\n")
    with pytest.raises(ConfigError, match=f"bad.py cannot be imported: {message}"):
        factory(use_file("bad.py:f"))
    assert str(work) not in sys.path
    assert not [name for name, module in sys.modules.items() if getattr(module, "__file__", "") == str(work / "bad.py")]


def test_what_was_named_is_imported_whatever_becomes_of_the_file(work: Path) -> None:
    name = use_file("mine.py:tempered")
    (work / "mine.py").write_text("raise SystemError\n")
    assert isinstance(make_method(name, PROBLEM), Method)
    assert use_file(name) == name


def test_an_edited_file_is_imported_anew(work: Path) -> None:
    before = use_file("mine.py:tempered")
    assert option_defaults(before)["temperature"] == 2.0
    (work / "shared_numbers.py").write_text("TEMPERATURE = 5.0\n")
    after = use_file("mine.py:tempered")
    assert option_defaults(after)["temperature"] == 5.0
    assert option_defaults(before)["temperature"] == 2.0


def test_an_edited_module_in_a_folder_is_imported_anew(work: Path) -> None:
    (work / "shared_numbers.py").write_text("from numbers_of_ours.heat import TEMPERATURE\n")
    (work / "numbers_of_ours").mkdir()
    names = []
    for number in (3.0, 4.0):
        (work / "numbers_of_ours" / "heat.py").write_text(f"TEMPERATURE = {number}\n")
        names.append(use_file("mine.py:tempered"))
        assert option_defaults(names[-1])["temperature"] == number
    assert option_defaults(names[0])["temperature"] == 3.0


def test_modules_of_one_name_beside_two_files_are_two(work: Path) -> None:
    (work / "lab").mkdir()
    (work / "lab" / "mine.py").write_text((work / "mine.py").read_text())
    (work / "lab" / "shared_numbers.py").write_text("TEMPERATURE = 7.0\n")
    here, there = use_file("mine.py:tempered"), use_file("lab/mine.py:tempered")
    assert here.rpartition("@")[2] != there.rpartition("@")[2]
    assert [option_defaults(name)["temperature"] for name in (here, there, here)] == [2.0, 7.0, 2.0]


def test_a_module_beside_it_must_not_be_called_like_another(work: Path) -> None:
    (work / "json.py").write_text("")
    (work / "bad.py").write_text("import json\ndef f(problem): ...\n")
    with pytest.raises(
        ConfigError, match=r"json\.py has the name of a module that is imported already from .*rename it"
    ):
        factory(use_file("bad.py:f"))


def test_its_classes_can_be_pickled_and_its_source_be_read(work: Path) -> None:
    made = factory(use_file("mine.py:tempered"))
    loss = made(PROBLEM, temperature=3.0).stages[0].objective.loss
    assert pickle.loads(pickle.dumps(loss)).temperature == 3.0
    assert "deferred(problem.counts, drw)" in inspect.getsource(made)
    assert not (work / "__pycache__").exists()


@pytest.mark.parametrize("name", ["mine.py:tempered", "mine.py:tempered@" + 64 * "0"])
def test_a_file_that_nobody_named_is_not_imported(name: str, work: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no file is imported that you have not named yourself. Name it: --method mine"
    ):
        factory(name)


def test_another_text_than_the_wanted_one_is_told(work: Path, new_process: Callable[[], None]) -> None:
    name = use_file("mine.py:tempered")
    (work / "mine.py").write_text((work / "mine.py").read_text() + "\n")
    new_process()
    told = r"mine\.py or a module beside it that it imports has changed since .* then, .* now"
    with pytest.raises(ConfigError, match=told):
        use_file(name)
    use_file("mine.py")
    with pytest.raises(ConfigError, match=told):
        factory(name)

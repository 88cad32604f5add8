"""What CONTRIBUTING.md adds to the package passes what every other of its kind has to."""

from __future__ import annotations

import pytest

from contributing_page import Copy

#: The cases of what is added, what lists all there is, and the commands below.
CASES = """
    (poly1 and not one_graph) or plain6 or fashion or (figures and precision)
    or test_sources or test_recipes or test_commands
"""
COMMANDS = """
def test_commands(program):
    assert "poly1" in program("list", "methods").out
    refused = program("train", "digits", "--method", "poly1", "--recipe", "own", "--dry-run")
    assert "recipe 'own' received, but poly1 was not published on digits with a recipe known here" in refused.err
    assert "plain6" in program("list", "nets").out
    assert "fashion-mnist" in program("list", "sources").out
    assert "fashion-mnist" in program("list", "recipes").out
    assert "precision: precision beside recall" in program("figures", "--help").out
"""


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tests that passed in a copy of the package with all that is added."""
    copy = Copy(tmp_path_factory.mktemp("copy"), "Add a method", "Add a network", "Add a data set", "Add a figure")
    (copy.folder / "tests" / "test_commands.py").write_text(COMMANDS)
    folders = ("contract", "methods", "data", "report/figures", "test_commands.py")
    return copy.passed(*(f"tests/{name}" for name in folders), "-k", " ".join(CASES.split()))


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        ("contract/test_methods.py::TestTable::test_files_say_what_they_are[poly1]", "methods/test_poly1.py::"),
        ("contract/test_nets.py::test_it_publishes_its_layers[plain6]",),
        ("contract/test_data_sets.py::", "data/sets/test_fashion_mnist.py::"),
        (
            "contract/test_figures.py::test_it_is_written_as_a_picture_and_as_a_drawing[precision]",
            "report/figures/test_precision.py::",
        ),
        ("test_commands.py::test_commands",),
    ],
    ids=["method", "network", "data set", "figure", "commands"],
)
def test_it_passes_as_a_file_a_line_and_a_test(names: tuple[str, ...], passed: str) -> None:
    assert all(f"tests/{name}" in passed for name in names)

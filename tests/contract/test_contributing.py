"""What CONTRIBUTING.md adds to the package passes what every other of its kind has to."""

from __future__ import annotations

from pathlib import Path

from contributing_page import Copy


def test_the_method_passes_as_a_file_a_line_and_a_test(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "Add a method")
    whole = "tests/contract/test_methods.py::TestTable::test_files_say_what_they_are[poly1]"  # an error where none is
    copy.passes("tests/contract/test_methods.py", "tests/methods", whole, "-k", "poly1 and not one_graph")
    assert "poly1" in copy.run("list", "methods")
    refused = copy.refusal("train", "digits", "--method", "poly1", "--recipe", "own", "--dry-run")
    assert "recipe 'own' received, but poly1 was not published on digits with a recipe known here" in refused


def test_the_network_passes_as_a_file_and_a_line(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "Add a network")
    copy.passes("tests/contract/test_nets.py", "-k", "plain6")
    assert "plain6" in copy.run("list", "nets")


def test_the_data_set_passes_as_a_file_a_line_and_a_test(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "Add a data set")
    copy.passes("tests/contract/test_data_sets.py", "tests/data/sets", "-k", "fashion")
    copy.passes("tests/data/test_sources.py", "tests/data/test_recipes.py")  # which list what there is
    assert "fashion-mnist" in copy.run("list", "sources")
    assert "fashion-mnist" in copy.run("list", "recipes")


def test_the_figure_passes_as_a_file_a_line_and_a_test(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "Add a figure")
    copy.passes("tests/contract/test_figures.py", "tests/report/figures", "-k", "precision")
    assert "precision: precision beside recall" in copy.run("figures", "--help")

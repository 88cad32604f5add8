from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from procrustean.methods import METHODS
from procrustean.methods.make import factory

Call = Callable[..., Any]


def test_a_method_is_explained_by_its_docstring(call: Call) -> None:
    shown = call("list", "methods", "oltr").out
    assert (inspect.getdoc(factory("oltr")) or "").strip() in shown
    assert "Source: Liu" in shown


def test_the_list_has_one_line_each(call: Call) -> None:
    lines = call("list", "methods").out.splitlines()
    assert [line.split()[0] for line in lines if line] == [*METHODS, "procrustean"]

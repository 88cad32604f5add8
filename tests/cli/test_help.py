from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean.cli.commands import COMMANDS as COMMANDS_AT_THE_TOP

COMMANDS = {
    "": ["Start", "Train", "Compare", "Use", "Look up", "Paper", "methods | nets | layers", "reproduce | claims | toy"],
    "train": [
        "implies --probes",
        "--imbalance",
        "--rho",
        "--method",
        "--drw",
        "--epochs",
        "--seed",
        "--run-dir",
        "--config",
        "--hold-out",
        "15 % with auto and of your own images",
    ],
    "resume": ["Folder of the run"],
    "evaluate": ["--weights", "{last,held_out,ema,swa}", "--statistics", "--adjust", "--tau", "--output", "--json"],
    "list layers": ["--size", "--channels", "--every"],
    "inspect": ["broken files", "--device"],
    "predict": ["--prior", "--top", "--output"],
    "thresholds": ["--precision", "--recall", "--prior"],
    "export": ["{safetensors,torch,onnx}", "--output"],
    "doctor": ["--data-dir"],
    "compare": ["--format", "markdown", "csv", "latex"],
    "list methods": ["List the training methods"],
    "list": ["methods", "nets", "layers", "recipes", "sources"],
    "paper": ["reproduce", "claims", "toy"],
    "data": ["describe", "prepare", "verify"],
    "data prepare": ["--source", "--on-bad-image", "--download", "--dry-run", "tiny-imagenet"],
    "data describe": ["--imbalance", "--rho", "--hold-out"],
    "list sources": ["List the data sets"],
    "fleet": ["--width", "--output"],
    "paper reproduce": ["--rows", "--columns", "--seeds", "--minutes", "--dry-run", "--pages"],
    "tune": ["--over", "--choose-on", "--hold-out", "--trials", "--minutes"],
    "demo": ["--photos", "--seeds", "--epochs", "--output"],
}
HEAVY = ("torch", "matplotlib", "sklearn", "scipy", "PIL", "safetensors", "numpy")

PROGRAM = f"""
import contextlib, io, json, sys
from procrustean.cli import main
answers = {{}}
for command in {list(COMMANDS)!r}:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            code = main([*command.split(), "--help"])
        except SystemExit as end:
            code = end.code
    loaded = [name for name in {HEAVY!r} if name in sys.modules]
    answers[command] = [code, out.getvalue(), loaded]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    """Exit code, text and heavy modules loaded so far, for each command, from a fresh process."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_help_explains_the_command(command: str, answers: dict[str, Any]) -> None:
    code, text, _ = answers[command]
    assert code == 0
    assert f"usage: procrustean {command}".rstrip() in text
    flat = " ".join(text.replace("│", " ").split())
    for part in COMMANDS[command]:
        assert part in flat, part


@pytest.mark.parametrize("command", COMMANDS)
def test_help_speaks_no_python(command: str, answers: dict[str, Any]) -> None:
    assert "None" not in answers[command][1]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_loads_nothing_heavy(command: str, answers: dict[str, Any]) -> None:
    assert answers[command][2] == []


def test_every_setting_of_a_run_has_a_flag_with_an_explanation(answers: dict[str, Any]) -> None:
    from dataclasses import fields

    from procrustean.records import RunSpec

    text = answers["train"][1]
    for field in fields(RunSpec):
        if field.name != "source":
            assert f"--{field.name.replace('_', '-')} " in text.replace("│", " "), field.name


def test_the_overview_is_shown_alone_too(call: Callable[..., Any], answers: dict[str, Any]) -> None:
    for words in ((), ("data",), ("list",)):
        assert (call(*words).code, call(*words).out) == (0, call(*words, "--help").out)
    assert len(COMMANDS_AT_THE_TOP) <= 18
    assert max(map(len, answers[""][1].splitlines())) <= 88


def test_the_readme_lists_every_command() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    table = readme.split("## The command\n")[1].split("```")[0]
    assert [name for name in COMMANDS_AT_THE_TOP if f"`procrustean {name}" not in table] == []

from __future__ import annotations

from pathlib import Path

import pytest

from page_blocks import PageError, blocks, commands, objection, pages, steps

PROJECT = Path(__file__).resolve().parents[2]


def fenced(language: str, code: str, before: str = "") -> str:
    return f"{before}```{language}\n{code}\n```\n"


def step_texts(page: str) -> list[tuple[str, str]]:
    return [(step.kind, step.text) for step in steps(page, "p.md", PROJECT)]


def test_blocks_know_language_line_and_code() -> None:
    text = "Title\n\n```python\na = 1\n\nb = 2\n```\n\ntext\n\n```console\n$ make test\n```\n"
    first, second = blocks(text, "docs/p.md")
    assert (first.language, first.line, first.code) == ("python", 4, "a = 1\n\nb = 2\n")
    assert (second.language, second.where) == ("console", "docs/p.md:12")


def test_a_block_in_a_list_loses_the_indentation_of_its_fence() -> None:
    (block,) = blocks("- item\n  ```python\n  if True:\n      a = 1\n  ```\n", "p.md")
    assert block.code == "if True:\n    a = 1\n"


def test_a_longer_fence_hides_the_fences_inside() -> None:
    (block,) = blocks("````markdown\n```python\nraise SystemExit\n```\n````\n", "p.md")
    assert block.language == "markdown"


def test_a_directive_belongs_to_the_block_below_it_only() -> None:
    text = fenced("bash", "procrustean demo", "<!-- test: args --epochs 2 -->\n") + fenced("bash", "procrustean demo")
    first, second = blocks(text, "p.md")
    assert (first.verb, first.text) == ("args", "--epochs 2")
    assert second.verb is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\na = 1\n", "p.md:1: the code fence is never closed"),
        ("<!-- test: dry-run -->\n\n```bash\nprocrustean demo\n```\n", "p.md:1: the test directive must be"),
        ("text\n<!-- test: dry-run -->\n", "p.md:2: the test directive must be"),
        ("<!-- test dry-run -->\n", "cannot read this test directive"),
        (fenced("bash", "procrustean demo", "<!-- test: dryrun -->\n"), "unknown directive 'dryrun'"),
        (fenced("bash", "procrustean demo", "<!-- test: skip -->\n"), "'skip' needs a text"),
        (fenced("python", "a = 1", "<!-- test: args --epochs 2 -->\n"), "for blocks of commands"),
        (fenced("py", "a = 1"), "label this block 'python'"),
        (fenced("text", "Then:\n  $ procrustean demo"), "p.md:3: a command in a block that is not executed"),
        (fenced("", "procrustean demo"), "a command in a block that is not executed"),
    ],
)
def test_pages_that_would_go_unchecked_are_refused(text: str, message: str) -> None:
    with pytest.raises(PageError, match=message):
        blocks(text, "p.md")


def test_commands_join_continued_lines_and_drop_comments() -> None:
    text = fenced("bash", "# first\nprocrustean train digits \\\n    --epochs 3  # short\n\nmake test")
    (block,) = blocks(text, "p.md")
    assert list(commands(block)) == [(3, "procrustean train digits --epochs 3"), (6, "make test")]


def test_behind_prompts_the_other_lines_are_output() -> None:
    (block,) = blocks(fenced("console", "$ procrustean list methods\nprocrustean knows 5 methods\n  mfw"), "p.md")
    assert list(commands(block)) == [(2, "procrustean list methods")]


def test_steps_come_in_the_order_of_the_page() -> None:
    text = (
        fenced("python", "a = 1")
        + fenced("bash", "export DATA='x y'\nprocrustean list methods mfw\npip install .")
        + fenced("yaml", "epochs: 2", "<!-- test: file run.yaml -->\n")
        + fenced("json", "{}")
        + fenced("python", "raise SystemExit", "<!-- test: skip cannot end -->\n")
    )
    found = [(step.kind, step.name, step.text) for step in steps(text, "p.md", PROJECT)]
    assert found == [
        ("python", "", "a = 1\n"),
        ("env", "DATA", "x y"),
        ("cli", "", "procrustean list methods mfw"),
        ("file", "run.yaml", "epochs: 2\n"),
    ]


def test_directives_append_arguments() -> None:
    short = fenced("bash", "procrustean train digits\nprocrustean train x", "<!-- test: args --epochs 2 -->\n")
    assert step_texts(short) == [
        ("cli", "procrustean train digits --epochs 2"),
        ("cli", "procrustean train x --epochs 2"),
    ]
    dry = fenced("bash", "procrustean train cifar10", "<!-- test: dry-run -->\n")
    assert step_texts(dry) == [("cli", "procrustean train cifar10 --dry-run")]


@pytest.mark.parametrize(
    "command",
    [
        "procrustean list methods | head -3",
        "procrustean compare runs/* > t",
        "SEED=1 procrustean demo",
        "procrustean x > t",
    ],
)
def test_shell_syntax_goes_through_bash(command: str) -> None:
    assert step_texts(fenced("sh", command)) == [("bash", command)]


@pytest.mark.parametrize("command", ["procrustean compare runs/*", "procrustean list methods $METHOD"])
def test_words_are_expanded_by_bash(command: str) -> None:
    assert step_texts(fenced("sh", command)) == [("expanded", command)]


def test_arguments_are_not_appended_behind_a_pipe() -> None:
    text = fenced("bash", "procrustean list methods | head", "<!-- test: dry-run -->\n")
    with pytest.raises(PageError, match=r"p\.md:3: arguments cannot be appended"):
        steps(text, "p.md", PROJECT)


@pytest.mark.parametrize(
    "command",
    [
        "make demo",
        "make test PYTHON=python3.12",
        "pip install procrustean",
        "pip install -c constraints.txt -e '.[test,dev]'",
        "python -m pip install .",
        ".venv/bin/pip install dist/procrustean-0.1.0-py3-none-any.whl",
        "git clone https://example.org/procrustean",
        "cd procrustean",
        "python3 -m venv .venv",
        "source .venv/bin/activate",
        "python experiments/normalisation.py --minutes 9",
        "torchrun --nproc-per-node 2 examples/balanced_ddp.py",
    ],
)
def test_known_commands_are_allowed(command: str) -> None:
    assert objection(command, PROJECT) is None


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("make everything", "no target everything"),
        ("pip install '.[gpu]'", "no extra gpu"),
        ("pip install -c pins.txt .", "no constraints file 'pins.txt'"),
        ("pip install requests", "'requests' is not known"),
        ("pip uninstall procrustean", "only `pip install`"),
        ("rm -rf /", "neither executed nor known"),
        ("git push", "neither executed nor known"),
        ("python train.py", "neither executed nor known"),
        ("python experiments/nowhere.py", "neither executed nor known"),
        ("python src/procrustean/api.py", "neither executed nor known"),
    ],
)
def test_unknown_commands_are_refused(command: str, reason: str) -> None:
    assert reason in (objection(command, PROJECT) or "")
    with pytest.raises(PageError, match=r"p\.md:2"):
        steps(fenced("bash", command), "p.md", PROJECT)


def test_pages_are_the_readme_and_everything_under_docs(tmp_path: Path) -> None:
    assert pages(tmp_path) == []
    (tmp_path / "docs" / "guides").mkdir(parents=True)
    for name in ("README.md", "CHANGELOG.md", "docs/design.md", "docs/guides/data.md", "docs/picture.png"):
        (tmp_path / name).touch()
    found = [page.relative_to(tmp_path).as_posix() for page in pages(tmp_path)]
    assert found == ["README.md", "docs/design.md", "docs/guides/data.md"]

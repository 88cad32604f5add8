"""What the documentation asks a reader to do, as a list of steps that a test can execute.

Every ```python block and every command of a ```console, ```bash or ```sh block of a page becomes a step.
Python blocks of one page share one namespace; all steps of a page share one working directory, in which
`my_images` is a small image folder (`train` and `test`). In a block with `$ ` prompts only the lines behind a
prompt are commands.

An HTML comment on the line before a block directs it:

    <!-- test: args --epochs 2 -->       append these arguments to each procrustean command of the block
    <!-- test: dry-run -->               append --dry-run (long, GPU or missing-data commands)
    <!-- test: file run.yaml -->         save the block, of any language, under this name
    <!-- test: skip REASON -->           leave the block out; test_blocks.py caps how many there may be

Commands other than procrustean are not executed, but must be of a known form: see `objection`.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

PYTHON = {"python"}
SHELL = {"console", "bash", "sh"}
ALIASES = {"py": "python", "python3": "python", "pycon": "python", "shell": "console", "zsh": "bash"}
DIRECTIVES = {"args", "dry-run", "file", "skip"}

FENCE = re.compile(r"^(?P<indent>\s*)(?P<mark>`{3,}|~{3,})\s*(?P<language>[^\s`{]*)")
DIRECTIVE = re.compile(r"^\s*<!--\s*test:\s*(?P<verb>\S+)\s*(?P<text>.*?)\s*-->\s*$")
PROCRUSTEAN = re.compile(r"^(?:\w+=\S*\s+)*procrustean(?:\s|$)")
EXPORT = re.compile(r"^export (?P<name>\w+)=(?P<value>.*)$")
OPERATORS = set("|&;<>`")
EXPANSIONS = set("$*?[]{}~")


class PageError(Exception):
    """A page that cannot be tested as it is written."""


@dataclass(frozen=True)
class Block:
    page: str
    line: int  # of the first line of code, from 1
    language: str
    code: str
    verb: str | None = None
    text: str = ""

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Step:
    """One thing to do: a python block, a cli line, one whose words bash expands, a bash line, a variable for env, or a
    file to write.
    """

    kind: str
    page: str
    line: int
    text: str
    name: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def pages(project: Path) -> list[Path]:
    """README.md, where there is one, and every page under docs."""
    readme = project / "README.md"
    return [*([readme] if readme.exists() else []), *sorted((project / "docs").rglob("*.md"))]


def blocks(text: str, page: str) -> list[Block]:
    """The fenced blocks of a page, each with the directive on the line before it."""
    found: list[Block] = []
    lines = text.splitlines()
    directive: re.Match[str] | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        fence = FENCE.match(line)
        if fence:
            end = _closing(lines, number, fence["mark"])
            if end is None:
                raise PageError(f"{page}:{number}: the code fence is never closed")
            code = "\n".join(row.removeprefix(fence["indent"]) for row in lines[number:end]) + "\n"
            verb, rest = (directive["verb"], directive["text"]) if directive else (None, "")
            block = Block(page, number + 1, fence["language"].lower(), code, verb, rest)
            _check(block)
            found.append(block)
            number, directive = end + 1, None
            continue
        if directive:
            raise PageError(f"{page}:{number - 1}: the test directive must be on the line before a code fence")
        directive = DIRECTIVE.match(line)
        if directive is None and re.search(r"<!--\s*test\b", line):
            raise PageError(f"{page}:{number}: cannot read this test directive: {line.strip()}")
    if directive:
        raise PageError(f"{page}:{number}: the test directive must be on the line before a code fence")
    return found


def _closing(lines: list[str], start: int, mark: str) -> int | None:
    closing = re.compile(rf"^\s*{re.escape(mark[0])}{{{len(mark)},}}\s*$")
    return next((i for i in range(start, len(lines)) if closing.match(lines[i])), None)


def _check(block: Block) -> None:
    executed = PYTHON | SHELL
    if block.language in ALIASES:
        raise PageError(f"{block.where}: label this block {ALIASES[block.language]!r}, not {block.language!r}")
    if block.verb is not None and block.verb not in DIRECTIVES:
        raise PageError(f"{block.where}: unknown directive {block.verb!r}; known: {', '.join(sorted(DIRECTIVES))}")
    if block.verb in {"args", "dry-run"} and block.language not in SHELL:
        raise PageError(f"{block.where}: {block.verb!r} is for blocks of commands")
    if block.verb in {"args", "file", "skip"} and not block.text:
        raise PageError(f"{block.where}: {block.verb!r} needs a text after it")
    if block.language not in executed and block.verb is None:
        for offset, line in enumerate(block.code.splitlines()):
            if re.match(r"^\s*(\$ |procrustean [a-z])", line):
                raise PageError(
                    f"{block.page}:{block.line + offset}: a command in a block that is not executed; "
                    "label the block console"
                )


def commands(block: Block) -> Iterator[tuple[int, str]]:
    """Line number and text of each command of a shell block, continued lines joined, comments dropped."""
    lines = block.code.splitlines()
    prompted = any(line.lstrip().startswith("$ ") for line in lines)
    number = 0
    while number < len(lines):
        start, text = number, lines[number].strip()
        number += 1
        if prompted and not text.startswith("$ "):
            continue
        text = text.removeprefix("$ ")
        while text.endswith("\\") and number < len(lines):
            text = f"{text[:-1].rstrip()} {lines[number].strip().removeprefix('> ')}"
            number += 1
        text = re.sub(r"(^|\s)#.*$", "", text).strip()
        if text:
            yield block.line + start, text


def steps(text: str, page: str, project: Path) -> list[Step]:
    """What a reader of this page would do, in order."""
    found: list[Step] = []
    for block in blocks(text, page):
        if block.verb == "skip":
            continue
        if block.verb == "file":
            found.append(Step("file", page, block.line, block.code, block.text))
        elif block.language in PYTHON:
            found.append(Step("python", page, block.line, block.code))
        elif block.language in SHELL:
            for line, command in commands(block):
                found.extend(_command_steps(block, line, command, project))
    return found


def _command_steps(block: Block, line: int, command: str, project: Path) -> list[Step]:
    export = EXPORT.match(command)
    if export:
        return [Step("env", block.page, line, shlex.split(export["value"] or "''")[0], export["name"])]
    if not PROCRUSTEAN.match(command):
        reason = objection(command, project)
        if reason:
            raise PageError(f"{block.page}:{line}: {reason}: {command}")
        return []
    extra = {"args": block.text, "dry-run": "--dry-run"}.get(block.verb or "", "")
    symbols = set(command)
    if extra and symbols & OPERATORS:
        raise PageError(f"{block.page}:{line}: arguments cannot be appended to a line with shell operators")
    kind = "cli"
    if symbols & OPERATORS or not command.startswith("procrustean"):
        kind = "bash"
    elif symbols & EXPANSIONS:
        kind = "expanded"
    return [Step(kind, block.page, line, f"{command} {extra}".strip())]


def objection(command: str, project: Path) -> str | None:
    """Why a command that is not executed may not stand in the documentation, or None."""
    words = shlex.split(command)
    while words and (Path(words[0]).name in {"python", "python3"} and words[1:2] == ["-m"]):
        words = words[2:]
    program, rest = Path(words[0]).name, words[1:]
    if program == "make":
        return _make_objection(rest, project)
    if program == "pip":
        return _pip_objection(rest, project)
    harmless = (
        (program == "git" and rest[:1] == ["clone"] and len(rest) in (2, 3))
        or (program == "cd" and len(rest) == 1)
        or (program == "venv" and len(rest) == 1)
        or (words[0] in {"source", "."} and rest == [".venv/bin/activate"])
        or _script_of_ours(program, rest, project)
    )
    return None if harmless else "a command that is neither executed nor known"


def _script_of_ours(program: str, rest: list[str], project: Path) -> bool:
    """A script of examples/, experiments/ or benchmarks/, which tests of their own run."""
    if program == "torchrun":
        rest = [word for word in rest if word.endswith(".py")]
    elif program not in {"python", "python3"}:
        return False
    ours = bool(rest) and Path(rest[0]).parts[0] in {"examples", "experiments", "benchmarks"}
    return ours and (project / rest[0]).is_file()


def _make_objection(rest: list[str], project: Path) -> str | None:
    makefile = (project / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    unknown = [word for word in rest if "=" not in word and word not in targets]
    return f"the Makefile has no target {', '.join(unknown)}" if unknown else None


def _pip_objection(rest: list[str], project: Path) -> str | None:
    if rest[:1] != ["install"]:
        return "only `pip install` is known"
    extras = tomllib.loads((project / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    words = iter(rest[1:])
    for word in words:
        if word in {"-e", "-U", "--upgrade"}:
            continue
        if word in {"-c", "--constraint"}:
            file = next(words, "")
            if not (project / file).is_file():
                return f"there is no constraints file {file!r}"
            continue
        known = re.fullmatch(
            r"(?:procrustean|\.|dist/procrustean-\S+\.whl|procrustean @ \S+|git\+https://\S+)(?:\[([\w,]+)\])?",
            word,
        )
        if not known:
            return f"pip install of {word!r} is not known"
        missing = [name for name in (known[1] or "").split(",") if name and name not in extras]
        if missing:
            return f"pyproject.toml has no extra {', '.join(missing)}"
    return None

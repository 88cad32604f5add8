"""Where the program writes: results to stdout, messages and progress to stderr, each safe against what ends a stream.

So a result can be piped while progress stays visible.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from procrustean.base.errors import RunError
from procrustean.base.escaping import printable

if TYPE_CHECKING:
    from rich.console import Console

    from procrustean.base.table_formats import Table

#: A command of this program to be copied, on a line of its own or after a colon.
_COMMAND = re.compile(r"(^ *|: )(procrustean [a-z]|python \S)")


def write_result(*results: str | Table) -> None:
    """Writes results to stdout: a table is drawn on a terminal and written as markdown elsewhere.

    A blank line parts them: markdown takes what follows a table for one more row, and a title for the end of a list.
    """
    if sys.stdout.isatty():
        _draw(results)
        return
    from procrustean.base.table_formats import to_markdown

    texts = [result if isinstance(result, str) else to_markdown(result) for result in results]
    stream = ResultStream()
    stream.write("\n".join(text if text.endswith("\n") else text + "\n" for text in texts))
    stream.flush()


def _draw(results: Sequence[str | Table]) -> None:
    from rich.console import Console

    from procrustean.base.table_formats import to_rich

    console = Console()
    for before, result in zip((None, *results), results, strict=False):
        if isinstance(before, str):  # a table that is drawn ends with an empty line
            console.print()
        if isinstance(result, str):
            print_wrapped(console, result)
        else:
            console.print(to_rich(result, width=console.width))


def print_wrapped(console: Console, text: str) -> None:
    """Prose is wrapped between words, which a terminal by itself does not do.

    A line that ends in a command is left to the terminal: copied out of it, the command is whole.
    """
    for line in printable(text).split("\n"):
        whole = _COMMAND.search(line) is not None
        console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=whole)


class ResultStream:
    """stdout for results that come piece by piece, safe for a terminal."""

    def write(self, text: str) -> None:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        # A terminal that cannot show "±" should show the numbers all the same.
        self._ask(sys.stdout.write, printable(text).encode(encoding, errors="replace").decode(encoding))

    def flush(self) -> None:
        self._ask(sys.stdout.flush)

    def _ask(self, function: Callable[..., object], *arguments: str) -> None:
        try:
            function(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            abandon(sys.stdout)
            raise RunError(
                f"cannot write the result to the output ({error.strerror}); what was computed is kept"
            ) from error


class ProgressStream:
    """A stream that may close while a run goes on: the terminal is gone, the disk of the log is full.

    From then on what is written to it is lost, which is no reason to lose the run.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with self._or_lost():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._or_lost():
            self._stream.flush()

    @contextmanager
    def _or_lost(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            abandon(self._stream)
        except ValueError:
            if not getattr(self._stream, "closed", False):
                raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)  # whether it is a terminal, its encoding and so on


def notify(text: str) -> None:
    """A message of the program on stderr, if anybody still reads it: the exit code has to be right in any case."""
    stream = ProgressStream(sys.stderr)
    stream.write(f"procrustean: {printable(text)}\n")
    stream.flush()


def abandon(stream: TextIO) -> None:
    """Send what a stream still holds nowhere: Python would try to write it once more at exit, and fail."""
    try:
        number = stream.fileno()
    except (OSError, ValueError, AttributeError):  # a stream of the caller's own, which is no file
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)


def can_show_bars() -> bool:
    """Whether stderr is a terminal on which a line can be drawn again."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def command_text(*words: object) -> str:
    """A command of this program as it can be pasted into a shell.

    >>> command_text("resume", "runs/my cells")
    "procrustean resume 'runs/my cells'"
    """
    return shlex.join(["procrustean", *map(str, words)])


def number_of(number: int, what: str) -> str:
    """A number with what it counts.

    >>> number_of(1, "group"), number_of(3, "class")
    ('1 group', '3 classes')
    """
    return f"{number} {what}{('es' if what.endswith('s') else 's') * (number != 1)}"


def duration_text(seconds: float) -> str:
    """A length of time as people say it.

    >>> duration_text(42), duration_text(200), duration_text(8000)
    ('42 s', '3 min 20 s', '2 h 13 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

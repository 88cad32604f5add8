"""The live bars of runs that go on: what each shows in the width that the terminal has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from procrustean.base.console import progress_texts

#: Characters of a bar at its shortest; it takes all that the others leave.
SHORTEST_BAR = 6


class LiveBars(Progress):
    """A line per run: its name, a bar, the epochs, the newest numbers, the time left.

    Epochs and time left are always there. Of the rest, what matters least goes first in a narrow terminal: the speed,
    the loss, the result, and last the end of the name.
    """

    def __init__(self, console: Console) -> None:
        self._name, self._numbers = _Name(), _Numbers()
        self._always: tuple[ProgressColumn, ...] = (MofNCompleteColumn(), TimeRemainingColumn())
        epochs, left = self._always
        bar = BarColumn(bar_width=None, table_column=Column(ratio=1))
        columns = (self._name, bar, epochs, self._numbers, left)
        super().__init__(*columns, console=console, transient=True, expand=True, refresh_per_second=4)

    def make_tasks_table(self, tasks: Iterable[Task]) -> Table:
        tasks = list(tasks)
        if tasks:
            taken = sum(max(cell_len(str(column(task))) for task in tasks) for column in self._always)
            gaps = len(self.columns) - 1
            room = self.console.width - SHORTEST_BAR - gaps - taken
            self._name.room = max(1, min(room, max(cell_len(task.description) for task in tasks)))
            self._numbers.room = room - self._name.room
        return super().make_tasks_table(tasks)


class _Name(ProgressColumn):
    room = 0

    def render(self, task: Task) -> Text:
        text = Text(task.description, style="bold")
        text.truncate(self.room, overflow="ellipsis")
        return text


class _Numbers(ProgressColumn):
    room = 0

    def render(self, task: Task) -> Text:
        return Text(fitting(task.fields["record"], task.fields["result"], self.room), style="dim")


def fitting(record: dict[str, Any], result: str | None, room: int) -> str:
    """The numbers of an epoch in so many characters.

    >>> record, result = {"loss": 0.5, "images_per_second": 900.0}, "test accuracy 80.0 %"
    >>> [fitting(record, result, room) for room in (50, 40, 30, 10)]
    ['loss 0.500, test accuracy 80.0 %, 900 images/s', 'loss 0.500, test accuracy 80.0 %', 'test accuracy 80.0 %', '']
    """
    for dropped in ((), ("images_per_second",), ("images_per_second", "loss")):
        kept = {name: value for name, value in record.items() if name not in dropped}
        text = ", ".join(progress_texts(kept, result))
        if cell_len(text) <= room:
            return text
    return ""

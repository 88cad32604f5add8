"""The numbers of a training for TensorBoard, wandb or trackio, once per epoch, beside the progress on the terminal.

A reporter hears of an epoch after its last step, so nothing here can touch the training.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, get_args

from procrustean.base.epochs import EpochRecord
from procrustean.base.errors import ConfigError, one_of
from procrustean.base.optional_libraries import installing
from procrustean.base.progress import PassingOn, Reporter
from procrustean.records.run_folder import RunFolder

Tool = Literal["tensorboard", "wandb", "trackio"]
#: Those with which a process logs one run at a time.
HOSTED: tuple[Tool, ...] = ("wandb", "trackio")
PROJECT = "procrustean"
MOST_CLASSES = 100  # with more, a chart per class helps nobody


class TrackingReporter(PassingOn):
    """Hands everything on to another reporter, and the numbers of each epoch to a tracking tool.

    Args:
        inner: shows the progress.
        tool: tensorboard (files in the run directory), wandb or trackio.
        directory: the run directory; it need not exist yet.

    Raises:
        ConfigError: when the tool is not installed.
    """

    def __init__(self, inner: Reporter, tool: Tool, directory: Path) -> None:
        super().__init__(inner)
        self._tool, self._directory = tool, directory
        self._module = imported(tool)
        self._sink: _TensorBoard | _Hosted | None = None
        self._classes: list[str] = []

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        super().run_started(name, epochs, first_epoch)
        began = RunFolder(self._directory).beginning()
        self._classes = began.identity.classes
        config = {**began.config.to_json(), **began.identity.recipe.to_json()}
        try:
            if self._tool == "tensorboard":
                self._sink = _TensorBoard(self._module, self._directory / "tensorboard", config, first_epoch)
            else:
                self._sink = _Hosted(self._module, self._tool, name, config, self._directory)
        except Exception as error:
            self._give_up(error)

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        super().epoch_done(name, epoch, record)
        if self._sink is not None:
            try:
                self._sink.log(epoch + 1, scalars_of(record, self._classes))
            except Exception as error:
                self._give_up(error)

    def run_finished(self, name: str, summary: str) -> None:
        self.end()
        super().run_finished(name, summary)

    def close(self) -> None:
        self.end()
        super().close()

    def end(self) -> None:
        """No more numbers will come, whatever has become of the run; the other reporter goes on."""
        sink, self._sink = self._sink, None
        if sink is not None:
            try:
                sink.close()
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        # Hours of training must not end because a disk or a server of a by-product does not answer.
        self._sink = None
        self._inner.say(f"logging to {self._tool} failed and has ended, the training goes on: {error}")


def scalars_of(record: EpochRecord, classes: list[str]) -> dict[str, float]:
    """The numbers of an epoch by name; recalls per class where the classes are not too many.

    >>> from procrustean.base.epochs import Evaluated
    >>> test = Evaluated(headline="accuracy", accuracy=0.75, balanced_accuracy=1.0, recall=[1.0, None])
    >>> scalars_of(EpochRecord(stage=0, epoch=0, loss=0.5, lr=0.1, test=test), ["a", "b"])
    {'loss': 0.5, 'lr': 0.1, 'test/accuracy': 0.75, 'test/balanced_accuracy': 1.0, 'test_recall/a': 1.0}
    """
    training = {"loss": record.loss, "lr": record.lr, "images_per_second": record.images_per_second}
    scalars = {name: value for name, value in training.items() if value is not None}
    for split, measured in (("test", record.test), ("held_out", record.held_out), ("train", record.train)):
        if measured is None:
            continue
        scalars[f"{split}/accuracy"] = measured.accuracy
        scalars[f"{split}/balanced_accuracy"] = measured.balanced_accuracy
        recalls = zip(classes, measured.recall, strict=True) if len(classes) <= MOST_CLASSES else ()
        scalars |= {f"{split}_recall/{label}": recall for label, recall in recalls if recall is not None}
    return scalars


class _TensorBoard:
    def __init__(self, module: Any, folder: Path, config: Mapping[str, Any], first_epoch: int) -> None:
        # A resumed run trains the epochs after its checkpoint again, all of them if there is none; what was logged of
        # them does not count.
        self._writer = module.SummaryWriter(log_dir=str(folder), purge_step=first_epoch + 1)
        lines = "\n".join(f"    {name}: {value}" for name, value in config.items())
        self._writer.add_text("config", lines, 0)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Hosted:
    """wandb, and trackio, which has the same interface."""

    def __init__(self, module: Any, tool: Tool, name: str, config: Mapping[str, Any], directory: Path) -> None:
        # The parts of an interrupted run are one group.
        place = {"dir": str(directory.resolve())} if tool == "wandb" else {}
        self._module = module
        with redirect_stdout(sys.stderr):  # what they say is progress; stdout is for results
            module.init(project=PROJECT, name=name, group=directory.name, config=dict(config), **place)

    def log(self, step: int, scalars: Mapping[str, float]) -> None:
        self._module.log(dict(scalars), step=step)

    def close(self) -> None:
        with redirect_stdout(sys.stderr):
            self._module.finish()


def imported(tool: Tool) -> Any:
    """The tool's module; ConfigError with the extra to install where it is missing."""
    one_of("log", tool, get_args(Tool))
    module = {"tensorboard": "torch.utils.tensorboard"}.get(tool, tool)
    try:
        return import_module(module)
    except ImportError as error:
        remedy = f"install it {installing(tool)}"
        if tool == "trackio":
            remedy = "up to 0.43 it wants an older Pillow than this library: take a newer one, or another tool"
        raise ConfigError(
            f"--log {tool} needs the package {tool}, which cannot be imported ({error}); {remedy}"
        ) from error

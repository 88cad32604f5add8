from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

from made_records import begun
from procrustean import fit
from procrustean.base import ConfigError, RunError
from procrustean.base.epochs import EpochRecord, Evaluated
from procrustean.base.progress import Reporter
from procrustean.records import RunSpec
from procrustean.runs import train_api as api
from procrustean.runs.loggers import TrackingReporter, scalars_of
from saved_states import saved_states

SETTINGS: dict[str, Any] = {"imbalance": "step", "rho": 20, "epochs": 3, "device": "cpu", "track_training": True}


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """A folder of images: two classes of ten."""
    random = np.random.default_rng(0)
    for name in ("red", "blue"):
        (tmp_path / "colours" / name).mkdir(parents=True)
        for number in range(10):
            image = Image.fromarray(random.integers(0, 255, (8, 8, 3)).astype(np.uint8))
            image.save(tmp_path / "colours" / name / f"{number}.png")
    return tmp_path / "colours"


class Listener(Reporter):
    """Keeps what was said, and which events came."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.events: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def run_started(self, name: str, epochs: int, first_epoch: int) -> None:
        self.events.append("started")

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        self.events.append(f"epoch {epoch}")

    def run_finished(self, name: str, summary: str) -> None:
        self.events.append("finished")

    def close(self) -> None:
        self.events.append("closed")


class FakeTool(ModuleType):
    """What wandb and trackio have in common."""

    def __init__(self, name: str, fails_at: int | None = None) -> None:
        super().__init__(name)
        self.begun: list[dict[str, Any]] = []
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.finished = 0
        self.fails_at = fails_at

    def init(self, **settings: Any) -> None:
        sys.stdout.write("chatter\n")
        self.begun.append(settings)

    def log(self, scalars: dict[str, float], step: int) -> None:
        if step == self.fails_at:
            raise ConnectionError("no server")
        self.logged.append((step, scalars))

    def finish(self) -> None:
        self.finished += 1


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_gets_the_numbers_of_every_epoch_and_the_training_stays_the_same(tmp_path: Path) -> None:
    inner = Listener()
    logged = fit(
        "digits",
        run_dir=tmp_path / "logged",
        reporter=TrackingReporter(inner, "tensorboard", tmp_path / "logged"),
        **SETTINGS,
    )
    plain = fit("digits", run_dir=tmp_path / "plain", **SETTINGS)
    assert (tmp_path / "logged/model.safetensors").read_bytes() == (tmp_path / "plain/model.safetensors").read_bytes()
    assert inner.events == ["started", "epoch 0", "epoch 1", "epoch 2", "finished"]
    found = scalars(logged.path / "tensorboard")
    curves = plain.record.curves
    assert found["loss"] == [(epoch + 1, pytest.approx(loss)) for epoch, loss in enumerate(curves.loss)]
    assert [value for _, value in found["test/balanced_accuracy"]] == pytest.approx(curves.test_balanced_accuracy)
    assert [value for _, value in found["train_recall/9"]] == pytest.approx([row[9] for row in curves.train_recall])
    assert {"lr", "images_per_second", "test/accuracy"} <= set(found)


def test_a_resumed_run_goes_on_in_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class InTheSecondEpoch:
        exit_code, asked = 130, 0

        def __call__(self) -> bool:
            self.asked += 1
            return self.asked > 20

    def logging_to(run: Path) -> TrackingReporter:
        return TrackingReporter(Reporter(), "tensorboard", run)

    run = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(api, "stop_on_signal", lambda say: nullcontext(InTheSecondEpoch()))
        with pytest.raises(api.Stopped):
            fit("digits", run_dir=run, reporter=logging_to(run), **SETTINGS)
    assert [step for step, _ in scalars(run / "tensorboard")["loss"]] == [1]
    api.resume(run, reporter=logging_to(run))
    assert [step for step, _ in scalars(run / "tensorboard")["loss"]] == [1, 2, 3]


def test_a_run_that_begins_anew_is_logged_once(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    class InTheSecondEpoch(Reporter):
        def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
            if epoch == 1:
                raise Killed

    run = tmp_path / "run"
    with pytest.raises(Killed):
        fit("digits", run_dir=run, reporter=InTheSecondEpoch(), log="tensorboard", **SETTINGS)
    assert not saved_states(run)
    api.resume(run, log="tensorboard")
    assert [step for step, _ in scalars(run / "tensorboard")["loss"]] == [1, 2, 3]


@pytest.mark.parametrize("tool", ["wandb", "trackio"])
def test_hosted_tools_get_config_and_numbers(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeTool(tool)
    monkeypatch.setitem(sys.modules, tool, fake)
    run = tmp_path / "run"
    fit("digits", run_dir=run, reporter=TrackingReporter(Reporter(), tool, run), **SETTINGS)
    (begun,) = fake.begun
    assert begun["project"] == "procrustean"
    assert begun["name"] == "MFW, step 20, seed 0"
    assert begun["group"] == "run"
    assert begun["config"]["rho"] == 20
    assert begun["config"]["lr"] == 0.05, "as the recipe has it"
    assert ("dir" in begun) == (tool == "wandb")
    assert [step for step, _ in fake.logged] == [1, 2, 3]
    assert fake.finished == 1
    assert capsys.readouterr().out == "", "stdout is for results"


def test_a_tool_that_fails_does_not_end_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTool("wandb", fails_at=2)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    inner = Listener()
    run = fit("digits", run_dir=tmp_path / "a", reporter=TrackingReporter(inner, "wandb", tmp_path / "a"), **SETTINGS)
    assert len(run.record.curves.loss) == 3
    assert (run.path / "result.json").exists()
    assert len(fake.logged) == 1
    assert [text for text in inner.said if "wandb" in text] == [
        "logging to wandb failed and has ended, the training goes on: no server"
    ]


def test_a_run_that_fails_ends_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTool("wandb")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    with pytest.raises(RunError, match="non-finite"):
        fit("digits", run_dir=tmp_path / "run", log="wandb", lr=1e30, **SETTINGS)
    assert (len(fake.begun), fake.finished) == (1, 1)


def test_images_of_ones_own_are_logged_in_the_folder_of_their_run(
    colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = fit(str(colours), epochs=1, device="cpu", log="tensorboard")
    assert [step for step, _ in scalars(run.path / "tensorboard")["loss"]] == [1]
    assert list(Path("runs").iterdir()) == [run.path]


def test_a_missing_tool_is_named_before_images_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match="--log wandb needs the package wandb"):
        fit(str(tmp_path / "no images"), log="wandb")


def test_a_tool_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """Also one of the name of some other module, which would be imported."""
    with pytest.raises(ConfigError, match="log = 'csv' received; accepted: 'tensorboard', 'wandb', 'trackio'"):
        fit("digits", run_dir=tmp_path / "run", log=cast(Any, "csv"), **SETTINGS)


def test_closing_in_the_middle_ends_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeTool("wandb")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    begun(RunSpec("digits"), tmp_path)
    inner = Listener()
    reporter = TrackingReporter(inner, "wandb", tmp_path)
    reporter.run_started("MFW", 3, 0)
    reporter.close()
    reporter.close()
    assert fake.finished == 1
    assert inner.events == ["started", "closed", "closed"]


@pytest.mark.parametrize(
    ("tool", "remedy"),
    [
        ("tensorboard", r"pip install -c constraints.txt -e '.\[tensorboard\]'"),
        ("wandb", r"pip install -c constraints.txt -e '.\[wandb\]'"),
        ("trackio", "up to 0.43 it wants an older Pillow"),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(
    tool: Any, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (tool, "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=rf"--log {tool} needs .*{remedy}"):
        TrackingReporter(Reporter(), tool, tmp_path)


def test_many_classes_are_not_logged_one_by_one() -> None:
    def names(classes: int) -> set[str]:
        tested = Evaluated(headline="accuracy", accuracy=0.5, balanced_accuracy=0.5, recall=[0.5] * classes)
        record = EpochRecord(stage=0, epoch=0, loss=None, lr=0.1, test=tested)
        return set(scalars_of(record, [str(i) for i in range(classes)]))

    assert len(names(100)) == 103
    assert names(101) == {"lr", "test/accuracy", "test/balanced_accuracy"}

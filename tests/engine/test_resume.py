from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forked
from procrustean.base import ProcrusteanError, RunError
from procrustean.base import stop_signals as stopping
from procrustean.base.epochs import EpochRecord
from procrustean.base.progress import Reporter
from procrustean.cli import main
from procrustean.data import Splits
from procrustean.records.checkpoints import save_checkpoint
from procrustean.records.run_folder import RunFolder
from procrustean.runs import FinishedRun, evaluate, fit
from procrustean.runs.train_api import Stopped, resume
from saved_states import saved_states

STEPS = 12  # of the tiny run: three epochs of four
Same = Callable[[Path, Path], None]
StopAfter = Callable[[int], None]

KINDS: dict[str, dict[str, Any]] = {
    "erm fp32": {"method": "erm"},
    "erm bf16": {"method": "erm", "precision": "bf16"},
    "ldam fp32": {"method": "ldam", "track_training": True},
    "ldam bf16 hold-out": {"method": "ldam", "precision": "bf16", "hold_out": 2},
    "mfw drw fp32 hold-out": {"method": "mfw", "drw": True, "hold_out": 2, "epochs": 5},
    "mfw drw bf16": {"method": "mfw", "drw": True, "precision": "bf16"},
}


class Killed(BaseException):
    """Ends the program without any clean-up by the library, as SIGKILL does."""


@pytest.fixture
def whole(uninterrupted: Callable[..., FinishedRun]) -> Path:
    """A run of ERM that nothing interrupted."""
    return uninterrupted().path


def stopped(source: Splits | Path, path: Path, stop_after: StopAfter, step: int, settings: dict[str, Any]) -> None:
    """Begin a run and stop it after so many steps."""
    stop_after(step)
    given = source if isinstance(source, Splits) else str(source)
    with pytest.raises(Stopped, match=f"procrustean resume {path}"):
        fit(given, **settings, run_dir=path)
    stop_after(0)


# Stopping between two steps


@pytest.mark.parametrize("kind", KINDS)
def test_resuming_gives_the_uninterrupted_run(
    kind: str, splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter, same_run: Same
) -> None:
    settings = {**tiny, **KINDS[kind]}
    whole = fit(splits, **settings, run_dir=tmp_path / "whole")
    last = 4 * settings["epochs"] - 1
    # In an epoch, at its end, in its incomplete batch; for one kind anywhere about the epoch that defers its weights.
    steps = range(last - 8, last + 1) if kind == "mfw drw fp32 hold-out" else (1, 3, 4, 6, last)
    for step in steps:
        path = tmp_path / f"step{step}"
        stopped(splits, path, stop_after, step, settings)
        assert not (path / "result.json").exists()
        assert not (path / "model.safetensors").exists()
        same_run(resume(path, splits=splits).path, whole.path)


def test_a_run_stopped_after_every_step_goes_on_each_time(
    splits: Splits, tiny: dict[str, Any], whole: Path, tmp_path: Path, stop_after: StopAfter, same_run: Same
) -> None:
    path, stops = tmp_path / "run", 1
    stopped(splits, path, stop_after, 1, tiny)
    stop_after(1)
    while not (path / "result.json").exists():
        try:
            resume(path, splits=splits)
        except Stopped:
            stops += 1
    assert stops == STEPS - 1  # after the last step there is nothing left to stop
    same_run(path, whole)


def test_the_resumed_network_is_the_uninterrupted_one(
    splits: Splits,
    tiny: dict[str, Any],
    uninterrupted: Callable[..., FinishedRun],
    tmp_path: Path,
    stop_after: StopAfter,
) -> None:
    whole = uninterrupted()
    stopped(splits, tmp_path / "run", stop_after, 5, tiny)
    again = resume(tmp_path / "run", splits=splits)
    assert not again.net.training
    mine = again.net.state_dict()
    assert all(bool((value == mine[name]).all()) for name, value in whole.net.state_dict().items())


def test_a_finished_run_is_not_resumed(splits: Splits, whole: Path, files_of: Callable[[Path], Any]) -> None:
    before = files_of(whole)
    with pytest.raises(RunError, match="finished already; see: procrustean compare"):
        resume(whole, splits=splits)
    assert files_of(whole) == before


def test_a_folder_without_a_run_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"not a run directory: it has no config\.json"):
        resume(tmp_path)
    with pytest.raises(RunError, match=r"There is no run at .*nowhere"):
        resume(tmp_path / "nowhere")


def test_checkpoints_are_dropped_when_the_run_is_finished(whole: Path) -> None:
    names = {"config.json", "epochs.jsonl", "model.safetensors", "predictions.csv", "result.json"}
    assert {path.name for path in whole.iterdir()} == names


def test_only_two_checkpoints_are_kept(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter
) -> None:
    stopped(splits, tmp_path / "run", stop_after, 7, {**tiny, "checkpoint_every": 0})
    assert len(saved_states(tmp_path / "run")) == 2


# Killed at the worst moments


def replacements(monkeypatch: pytest.MonkeyPatch, die_at: int, *, done: bool) -> list[int]:
    """Die at the n-th replacement of a file, before it happens or right after; returns their count so far."""
    count, replace = [0], os.replace

    def deadly(source: Any, target: Any) -> None:
        count[0] += 1
        if count[0] == die_at and not done:
            raise Killed
        replace(source, target)
        if count[0] == die_at:
            raise Killed

    monkeypatch.setattr(os, "replace", deadly)
    return count


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_kill_around_any_replacement_of_a_file_loses_nothing(
    done: bool, splits: Splits, tiny: dict[str, Any], tmp_path: Path, same_run: Same, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**tiny, "epochs": 2, "batch_size": 32, "hold_out": 2, "checkpoint_every": 0}
    with monkeypatch.context() as patched:
        count = replacements(patched, -1, done=done)
        whole = fit(splits, **settings, run_dir=tmp_path / "whole").path
    total = count[0]
    assert total > 2 * 4  # a checkpoint and its manifest for every step
    # The first is config.json: before it there is no run yet. After the last the run is finished.
    for die_at in range(2 - done, total + 1 - done):
        path = tmp_path / f"at{die_at}"
        with monkeypatch.context() as patched:
            replacements(patched, die_at, done=done)
            with pytest.raises(Killed):
                fit(splits, **settings, run_dir=path)
        same_run(resume(path, splits=splits).path, whole)


def test_a_kill_while_an_epoch_is_being_recorded_loses_nothing(
    splits: Splits, tiny: dict[str, Any], whole: Path, tmp_path: Path, same_run: Same, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(self: RunFolder, record: EpochRecord) -> None:
        if record.epoch == 1:
            with open(self.file("epochs.jsonl"), "ab") as file:
                file.write(b'{"stage": 0, "epo')
            raise Killed
        append(self, record)

    append = RunFolder.append
    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "append", cut_short)
        with pytest.raises(Killed):
            fit(splits, **tiny, checkpoint_every=0, run_dir=tmp_path / "run")
    resume(tmp_path / "run", splits=splits)
    # The setting of the checkpoints is carried out, not computed: it may differ.
    results = [json.loads((path / "result.json").read_text()) for path in (tmp_path / "run", whole)]
    assert results[0]["curves"] == results[1]["curves"]
    assert (tmp_path / "run/model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert len((tmp_path / "run/epochs.jsonl").read_text().splitlines()) == 3


def test_a_run_killed_before_its_first_checkpoint_starts_again(
    splits: Splits, tiny: dict[str, Any], whole: Path, tmp_path: Path, same_run: Same, stop_after: StopAfter
) -> None:
    path = tmp_path / "run"
    stopped(splits, path, stop_after, 6, tiny)
    for saved in saved_states(path):
        saved.unlink()
    assert len((path / "epochs.jsonl").read_text().splitlines()) == 1  # of an epoch that is trained again
    same_run(resume(path, splits=splits).path, whole)


def test_what_a_killed_save_left_behind_is_cleared_away(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter
) -> None:
    path = tmp_path / "run"
    stopped(splits, path, stop_after, 6, tiny)
    (path / f".{saved_states(path)[-1].name}.999999.tmp").write_bytes(b"half a checkpoint")
    resume(path, splits=splits)
    assert not list(path.glob(".*.tmp"))


# Damage


def test_a_cut_last_line_of_the_epochs_does_not_count(
    splits: Splits, tiny: dict[str, Any], whole: Path, tmp_path: Path, stop_after: StopAfter, same_run: Same
) -> None:
    path = tmp_path / "run"
    stopped(splits, path, stop_after, 6, tiny)
    with open(path / "epochs.jsonl", "a") as file:
        file.write('{"stage": 0, "epoch": 1, "lo')
    same_run(resume(path, splits=splits).path, whole)


@pytest.mark.parametrize("damage", ["zeros", "a digit", "cut", "missing"])
def test_damaged_epochs_are_restored_from_the_checkpoint(
    damage: str,
    splits: Splits,
    tiny: dict[str, Any],
    whole: Path,
    tmp_path: Path,
    stop_after: StopAfter,
    same_run: Same,
) -> None:
    path = tmp_path / "run"
    stopped(splits, path, stop_after, 9, tiny)
    content = (path / "epochs.jsonl").read_bytes()
    digit = content.index(b'"loss":') + 11
    changed = {
        "zeros": b"\0" * 20 + content[20:],
        "a digit": content[:digit] + b"%d" % ((content[digit] - 47) % 10) + content[digit + 1 :],
        "cut": content[:-20],
        "missing": b"",
    }
    (path / "epochs.jsonl").write_bytes(changed[damage])
    if damage == "missing":
        (path / "epochs.jsonl").unlink()
    with pytest.warns(UserWarning, match=r"epochs\.jsonl is missing or damaged; restored from the checkpoint"):
        resume(path, splits=splits)
    same_run(path, whole)


# What must not change in between


@pytest.mark.parametrize("name", ["train_images", "test_images"])
def test_changed_pixels_are_refused(
    name: str, npz: Path, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter, files_of: Callable[[Path], Any]
) -> None:
    path = tmp_path / "run"
    stopped(npz, path, stop_after, 5, tiny)
    arrays = dict(np.load(npz))
    arrays[name][3, 4, 5] ^= 1
    np.savez(npz, **arrays)
    before = files_of(path)
    with pytest.raises(
        RunError, match=r"cannot go on: its images have changed \(as many as before, but others\)\. Put"
    ):
        resume(path)
    assert files_of(path) == before


@pytest.mark.parametrize("split", ["train", "test"])
def test_changed_counts_are_refused_with_both_counts(
    split: str, npz: Path, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter
) -> None:
    stopped(npz, tmp_path / "run", stop_after, 5, tiny)
    arrays = dict(np.load(npz))
    fewer = {name: arrays[name][1:] for name in (f"{split}_images", f"{split}_labels")}
    np.savez(npz, **{**arrays, **fewer})
    with pytest.raises(RunError, match=r"images have changed \(99 in all, were 100: class0 33, was 34\)\. Put"):
        resume(tmp_path / "run")


def test_vanished_data_are_named(npz: Path, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter) -> None:
    stopped(npz, tmp_path / "run", stop_after, 5, tiny)
    npz.unlink()
    with pytest.raises(ProcrusteanError, match="are no longer at"):
        resume(tmp_path / "run")


def test_data_that_have_moved_can_be_named_and_have_to_be_the_same(
    npz: Path, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter
) -> None:
    whole = fit(str(npz), run_dir=tmp_path / "whole", **tiny)
    stopped(npz, tmp_path / "run", stop_after, 5, tiny)
    arrays = dict(np.load(npz))
    moved = npz.rename(npz.with_name("moved.npz"))
    other = npz.with_name("other.npz")
    np.savez(other, **{**arrays, "train_images": 255 - arrays["train_images"]})
    with pytest.raises(RunError, match="cannot go on: its images have changed"):
        resume(tmp_path / "run", source=other)
    with pytest.raises(RunError, match="Resume and evaluate can also be told where they are now: --source PATH"):
        resume(tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    before = json.loads(config.read_text())
    assert before["source_path"] == str(npz.resolve())  # one that was refused is not remembered
    assert resume(tmp_path / "run", source=moved).metrics == whole.metrics
    assert json.loads(config.read_text()) == {**before, "source_path": str(moved.resolve())}
    assert evaluate(tmp_path / "run") == evaluate(tmp_path / "run", source=moved)


def test_a_kill_while_the_new_place_is_written_leaves_the_settings_whole(
    npz: Path, tiny: dict[str, Any], tmp_path: Path, stop_after: StopAfter, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(npz, tmp_path / "run", stop_after, 5, tiny)
    before = (tmp_path / "run" / "config.json").read_bytes()
    moved = npz.rename(npz.with_name("moved.npz"))

    def kill(*arguments: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", kill)
        with pytest.raises(Killed):
            resume(tmp_path / "run", source=moved)
    assert (tmp_path / "run" / "config.json").read_bytes() == before
    resume(tmp_path / "run", source=moved)


@pytest.mark.parametrize("content", ["", "{", "\xff", '{"format": 2, "config": {}, "identity": {}}'])
def test_a_damaged_config_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    with pytest.raises(RunError, match=r"config\.json (is damaged|has format 2)"):
        resume(tmp_path)


@pytest.mark.parametrize("content", ["[]", '{"format": 1}'])
def test_a_config_of_another_shape_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunError, match=r"config\.json"):
        resume(tmp_path)


# Signals


class Signalling(Reporter):
    """Sends signals to its own process at the end of the first epoch."""

    def __init__(self, *signals: int) -> None:
        self.signals, self.said = signals, []

    def say(self, text: str) -> None:
        self.said.append(text)

    def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
        if epoch == 0:
            for number in self.signals:
                signal.raise_signal(number)


CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129, "SIGUSR1": 138, "SIGUSR2": 140, "SIGXCPU": 152}


@pytest.mark.parametrize(("number", "code"), [(getattr(signal, name), code) for name, code in CODES.items()], ids=CODES)
def test_a_signal_saves_and_says_how_to_go_on(
    number: int, code: int, splits: Splits, tiny: dict[str, Any], whole: Path, tmp_path: Path, same_run: Same
) -> None:
    handlers = {n: signal.getsignal(n) for n in stopping.SIGNALS}
    reporter = Signalling(number)
    with pytest.raises(Stopped, match="stopped and saved; go on with: procrustean resume") as raised:
        fit(splits, **tiny, run_dir=tmp_path / "run", reporter=reporter)
    assert raised.value.exit_code == code
    assert any("saving, then stopping" in text for text in reporter.said)
    assert {n: signal.getsignal(n) for n in handlers} == handlers
    same_run(resume(tmp_path / "run", splits=splits).path, whole)


def test_a_limit_of_processor_time_that_is_told_of_again_and_again_ends_nothing_at_once(
    splits: Splits, tiny: dict[str, Any], whole: Path, tmp_path: Path, same_run: Same
) -> None:
    with pytest.raises(Stopped):
        fit(splits, **tiny, run_dir=tmp_path / "run", reporter=Signalling(*[signal.SIGXCPU] * 3))
    same_run(resume(tmp_path / "run", splits=splits).path, whole)


def test_a_closed_terminal_does_not_stop_what_nohup_has_started(
    splits: Splits, tiny: dict[str, Any], whole: Path, tmp_path: Path, same_run: Same
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        same_run(fit(splits, **tiny, run_dir=tmp_path / "run", reporter=Signalling(signal.SIGHUP)).path, whole)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_signal_stops_at_once(
    splits: Splits, tiny: dict[str, Any], whole: Path, tmp_path: Path, same_run: Same
) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(splits, **tiny, run_dir=tmp_path / "run", reporter=Signalling(signal.SIGINT, signal.SIGINT))
    same_run(resume(tmp_path / "run", splits=splits).path, whole)


# Real processes


#: Everything is given: what is open would be chosen by the work of the network, for which torch imports its compiler.
GIVEN = {"net": "small", "batch_size": 16, "lr": 0.05, "evaluate_every": 4, "precision": "fp32", "device": "cpu"}


def training(npz: Path, path: Path, epochs: int, *flags: str) -> list[str | Path]:
    given = [word for name, value in GIVEN.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return [
        "train", npz, *given, "--epochs", str(epochs), "--method", "mfw", "--drw", "--hold-out", "2",
        "--run-dir", path, "--quiet", *flags,
    ]  # fmt: skip


def reference(npz: Path, path: Path, epochs: int, **more: Any) -> Path:
    return fit(str(npz), **GIVEN, epochs=epochs, method="mfw", drw=True, hold_out=2, run_dir=path, **more).path


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.mark.slow
def test_killed_again_and_again(npz: Path, tmp_path: Path, same_run: Same) -> None:
    """SIGKILL at random moments; every step is saved, so that kills hit the saving as well."""
    epochs, path, moments = 60, tmp_path / "run", random.Random(0)
    log = tmp_path / "log"
    for kill in range(3):
        begin = training(npz, path, epochs, "--checkpoint-every", "0") if kill == 0 else ["resume", path, "--quiet"]
        seen = saved_states(path)
        process = forked.start(begin, log)
        forked.wait_for(lambda: saved_states(path) != seen, process)  # noqa: B023
        time.sleep(moments.uniform(0, 0.15))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL, log.read_text()
    assert not (path / "result.json").exists()
    assert main(["resume", str(path)]) == 0
    same_run(path, reference(npz, tmp_path / "whole", epochs, checkpoint_every=0.0))


@pytest.mark.slow
def test_a_stopped_process_says_how_to_go_on(npz: Path, tmp_path: Path, same_run: Same) -> None:
    epochs = 40
    whole = reference(npz, tmp_path / "whole", epochs)
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        path = tmp_path / f"signal{number}"
        command = [sys.executable, "-m", "procrustean", *training(npz, path, epochs)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for((path / "epochs.jsonl").exists, process)
        process.send_signal(number)
        results, messages = process.communicate(timeout=60)
        assert process.returncode == code, messages
        assert results == ""
        assert f"go on with: procrustean resume {path}" in messages
        assert "Traceback" not in messages
        same_run(resume(path).path, whole)


def test_what_a_kill_right_after_the_result_leaves_is_cleared(
    splits: Splits, tiny: dict[str, Any], tmp_path: Path
) -> None:
    path = fit(splits, **tiny, run_dir=tmp_path / "run").path
    save_checkpoint(path, 3, {}, {})
    with pytest.raises(RunError, match="is finished already"):
        resume(path, splits=splits)
    assert not saved_states(path)


@pytest.mark.parametrize("method", ["oltr", "crt", "mfw"])
def test_killed_between_the_last_weights_and_the_result(
    method: str, splits: Splits, tiny: dict[str, Any], tmp_path: Path, same_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows the training computes with the weights of the checkpoint, in the layout that the training leaves."""
    settings = {**tiny, "method": method, "hold_out": 2}
    whole = fit(splits, **settings, run_dir=tmp_path / "whole").path

    def kill(*arguments: Any) -> Any:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("procrustean.runs.one_run.make_record", kill)
        with pytest.raises(Killed):
            fit(splits, **settings, run_dir=tmp_path / "run")
    resume(tmp_path / "run", splits=splits)
    same_run(tmp_path / "run", whole)
    scores = [(path / "held_out_scores.safetensors").read_bytes() for path in (whole, tmp_path / "run")]
    assert scores[0] == scores[1]

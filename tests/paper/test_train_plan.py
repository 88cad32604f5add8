"""Plans carried out on tiny data: packing, the time box, kills, failures."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import forked
from comparing import differences
from procrustean.balance import Classify
from procrustean.base import Claim
from procrustean.base.progress import Reporter
from procrustean.paper import Definitions, Plan, Store, carry_out, make_plan, plan_text, read_definitions
from procrustean.paper import train_plan as work_module
from procrustean.paper.train_plan import Progress, Report
from procrustean.runs.image_loading import Sources
from procrustean.runs.train_api import Stopped


class Recorder(Reporter):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.finished: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def run_finished(self, name: str, summary: str) -> None:
        self.finished.append(name)


class Steps:
    """A clock that goes on by a second whenever somebody looks at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def npz(tmp_path: Path, stripes: Callable[[Path], Path]) -> Path:
    return stripes(tmp_path)


@pytest.fixture
def content(npz: Path) -> dict[str, Any]:
    base = {"net": "small", "epochs": 3, "batch_size": 16, "device": "cpu", "precision": "fp32", "evaluate_every": 1}
    return {
        "tables": {
            "mine": {
                "base": base,
                "columns": {"stripes": {"source": str(npz)}},
                "rows": {"ERM": {"method": "erm"}, "short": {"method": "focal", "epochs": 1}, "MFW": {"method": "mfw"}},
            },
            "later": {"base": base, "columns": {"stripes": {"source": str(npz)}}, "rows": {"CB": {"method": "cdt"}}},
        }
    }


@pytest.fixture
def definitions(content: dict[str, Any]) -> Definitions:
    return read_definitions(content, origin="the test")


@pytest.fixture
def work(tmp_path: Path, definitions: Definitions) -> Callable[..., Report]:
    """`work(folder)` plans and trains what is not there yet."""

    def run(
        folder: str = "a",
        *,
        names: tuple[str, ...] = ("mine",),
        seeds: int = 1,
        recorder: Recorder | None = None,
        retry: bool = False,
        **more: Any,
    ) -> Report:
        plan, store = planned(tmp_path / folder, definitions, names, seeds, retry)
        return carry_out(plan, store, command="this test", reporter=recorder or Recorder(), **more)

    return run


@pytest.fixture
def nan_in_the_second_step(monkeypatch: pytest.MonkeyPatch) -> None:
    forward, calls = Classify.forward, count(1)

    def spoilt(self: Classify, *given: Any) -> Any:
        loss = forward(self, *given)
        return loss * float("nan") if next(calls) == 2 else loss

    monkeypatch.setattr(Classify, "forward", spoilt)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    """What calls of `work` have shown as their progress."""
    made: list[Progress] = []

    class Kept(Progress):
        def __init__(self, *given: Any, **settings: Any) -> None:
            super().__init__(*given, **settings)
            made.append(self)

    monkeypatch.setattr(work_module, "Progress", Kept)
    return made


def planned(
    folder: Path, definitions: Definitions, names: tuple[str, ...], seeds: int, retry: bool = False
) -> tuple[Plan, Store]:
    store = Store(folder / "results", folder / "runs")
    return make_plan(definitions, definitions.parts(names), store, seeds=seeds, retry=retry), store


def results(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.name: json.loads(path.read_text()) for path in sorted(folder.glob("results/*/*.json"))}


def test_every_run_leaves_a_file_with_its_seeds_and_its_command(tmp_path: Path, work: Callable[..., Report]) -> None:
    report = work(seeds=2)
    assert (report.finished, report.remaining, report.errors) == (6, 0, {})
    found = list(results(tmp_path / "a").values())
    assert len(found) == 6
    assert {(r["config"]["seed"], r["config"]["data_seed"]) for r in found} == {(0, 0), (1, 0)}
    assert {r["command"] for r in found} == {"this test"}
    assert {path.parent.name for path in (tmp_path / "a").glob("results/*/*.json")} == {"mine"}


def test_in_the_order_of_the_plan_not_of_the_cost(work: Callable[..., Report]) -> None:
    recorder = Recorder()
    work(names=("later", "mine"), seeds=2, recorder=recorder, width=1)
    names = [name.replace(", stripes", "") for name in recorder.finished]
    assert names[:2] == ["later: CB, seed 0", "later: CB, seed 1"]
    # Within a part seed by seed, of one seed the longest first.
    assert [name[-1] for name in names[2:]] == ["0"] * 3 + ["1"] * 3
    assert names[4] == "mine: short, seed 0"


def test_what_is_done_is_not_repeated(tmp_path: Path, work: Callable[..., Report]) -> None:
    work()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*") if path.is_file()}
    recorder = Recorder()
    assert work(recorder=recorder).finished == 0
    assert recorder.finished == []
    assert {path: path.stat().st_mtime_ns for path in before} == before
    # Nor where only the result files were taken along.
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "results").rename(tmp_path / "b" / "results")
    assert work("b").finished == 0


def test_what_another_process_has_trained_meanwhile_is_taken_over(
    tmp_path: Path, definitions: Definitions, shown: list[Progress]
) -> None:
    plan, store = planned(tmp_path / "a", definitions, ("mine",), 1)
    other = Store(tmp_path / "b" / "results", tmp_path / "a" / "runs")
    carry_out(plan, other, command="that test", reporter=Recorder())
    report = carry_out(plan, store, command="this test", reporter=Recorder())
    assert (report.finished, report.remaining, report.errors) == (0, 0, {})
    assert shown[-1].seconds_left == 0
    assert set(results(tmp_path / "a")) == set(results(tmp_path / "b"))
    assert all(store.find(run.config) is not None for run in plan.runs)


def test_the_time_box_stops_cleanly_and_the_next_call_goes_on(tmp_path: Path, work: Callable[..., Report]) -> None:
    reports = []
    while not reports or reports[-1].remaining:
        # Half a minute of a clock that ticks whenever somebody looks: a few steps.
        reports.append(work(minutes=0.5, clock=Steps()))
        assert len(reports) < 30
    assert len(reports) > 2
    assert sum(report.finished for report in reports) == 3
    assert all(report.seconds_left > 0 for report in reports[:-1])
    work("whole")
    runs = {path.name: path for path in (tmp_path / "whole" / "runs").iterdir() if path.is_dir()}
    assert len(runs) == 3
    for name, path in runs.items():
        assert not differences(tmp_path / "a" / "runs" / name, path)


def test_the_next_plan_is_of_what_is_left(
    tmp_path: Path, definitions: Definitions, work: Callable[..., Report], shown: list[Progress]
) -> None:
    whole, _ = planned(tmp_path / "a", definitions, ("mine",), 1)
    work(minutes=0.3, clock=Steps(), width=1)
    plan, _ = planned(tmp_path / "a", definitions, ("mine",), 1)
    (begun,) = plan.in_state("begun")
    assert 0 < begun.done < 1
    # The images of what was trained, which is so many of the four steps of three epochs of 60 images.
    images, left = (_images(plan_text(p, rate=1.0, width=1, machine="cpu")) for p in (whole, plan))
    assert images - left == round(180 * begun.done)
    # And so the next call begins.
    work(minutes=0)
    assert shown[-1].left[begun.config.hash] == begun.cost * (1 - begun.done)


def _images(text: str) -> int:
    return int(text.split(" images to train on")[0].rsplit("\n", 1)[1].replace(",", ""))


def test_no_time_is_no_training(tmp_path: Path, work: Callable[..., Report]) -> None:
    report = work(minutes=0)
    assert (report.finished, report.remaining) == (0, 3)
    assert results(tmp_path / "a") == {}


def test_a_run_that_fails_is_noted_and_left_alone(
    tmp_path: Path,
    work: Callable[..., Report],
    nan_in_the_second_step: None,
    monkeypatch: pytest.MonkeyPatch,
    shown: list[Progress],
) -> None:
    report = work(width=1)
    monkeypatch.undo()
    assert (shown[0].finished, shown[0].seconds_left) == (2, 0)
    assert report.finished == 2
    ((name, error),) = report.errors.items()
    assert "non-finite" in error
    again = work()
    assert (again.finished, again.remaining, again.errors) == (0, 0, {})
    assert work(retry=True).finished == 1
    assert json.loads((tmp_path / "a" / "runs" / "failures.json").read_text()) == {}
    assert name in {"mine: ERM, stripes, seed 0", "mine: MFW, stripes, seed 0"}


def test_a_failure_is_noted_and_said_though_the_call_is_stopped_later(
    tmp_path: Path, work: Callable[..., Report], nan_in_the_second_step: None
) -> None:
    class StoppedLater(Recorder):
        def say(self, text: str) -> None:
            super().say(text)
            if "failed" in text:
                os.kill(os.getpid(), signal.SIGINT)

    recorder = StoppedLater()
    with pytest.raises(Stopped):
        work(width=1, recorder=recorder)
    (noted,) = json.loads((tmp_path / "a" / "runs" / "failures.json").read_text()).values()
    assert [line for line in recorder.said if "failed" in line] == [noted.replace("seed 0: ", "seed 0 failed: ", 1)]


def test_a_failure_does_not_count_once_the_run_has_been_trained_elsewhere(
    tmp_path: Path, definitions: Definitions, work: Callable[..., Report]
) -> None:
    work()
    plan, store = planned(tmp_path / "a", definitions, ("mine",), 1)
    (tmp_path / "a" / "runs" / "failures.json").write_text(json.dumps({plan.runs[0].config.hash: "ERM: lost"}))
    assert store.failures() == {}


def test_two_processes_with_other_tables_leave_one_file_of_a_run_that_both_have(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    content["tables"]["later"]["rows"] = {"plain": {"method": "erm"}}
    definitions = read_definitions(content, origin="the test")
    plans = [planned(tmp_path / "a", definitions, (name,), 1) for name in ("mine", "later")]
    for plan, store in plans:
        carry_out(plan, store, command="this test", reporter=Recorder())
    assert not list((tmp_path / "a" / "results").glob("later/*.json"))
    assert len(Store(tmp_path / "a" / "results", None, pytest.fail).kept) == 3
    (plan, store) = plans[1]
    assert store.find(plan.runs[0].config) is not None


def test_data_that_cannot_be_loaded_are_no_failure_of_the_run(npz: Path, work: Callable[..., Report]) -> None:
    content = npz.read_bytes()
    npz.write_bytes(b"no arrays")
    recorder = Recorder()
    report = work(seeds=2, recorder=recorder)
    assert len(report.errors) == 6
    (error,) = set(report.errors.values())
    first = next(iter(report.errors))
    # What many runs share is said once while they are tried, and not for each of them.
    assert recorder.said == [
        f"{first} failed: {error}",
        f"further runs fail for the same reason as {first}; they are named at the end",
    ]
    npz.write_bytes(content)
    assert work().finished == 3


@pytest.mark.parametrize("name", ["config.json", "result.json", "results"])
def test_a_full_disk_is_no_failure_of_the_run(
    name: str, tmp_path: Path, work: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system refuses to put the files of runs in place, or those in the folder of results."""
    replace = os.replace

    def full(source: Any, target: Any) -> None:
        if Path(target).name == name or tmp_path / "a" / name in Path(target).parents:
            raise OSError(28, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        report = work(width=1)
    assert len(report.errors) == 3
    assert all("No space left on device" in error for error in report.errors.values())
    assert not (tmp_path / "a" / "runs" / "failures.json").exists()
    assert work().errors == {}
    assert len(results(tmp_path / "a")) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_run_that_another_process_trains_is_no_failure_of_the_run(
    tmp_path: Path, work: Callable[..., Report], shown: list[Progress]
) -> None:
    work(minutes=0.2, clock=Steps(), width=1)
    (begun,) = (tmp_path / "a" / "runs").glob("*/")
    claim = Claim(begun)
    report = work()
    assert (report.errors, report.remaining, len(report.elsewhere)) == ({}, 0, 1)
    assert (shown[-1].finished, shown[-1].seconds_left) == (2, 0)
    claim.release()
    assert work().finished == 3 - report.finished == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_what_another_process_has_come_to_the_end_of_is_kept_at_last(
    tmp_path: Path, definitions: Definitions, work: Callable[..., Report]
) -> None:
    work("b")
    (long,) = (path for path in (tmp_path / "b" / "runs").iterdir() if "-mfw-" in path.name)
    there = tmp_path / "a" / "runs" / long.name
    there.mkdir(parents=True)
    claim = Claim(there)

    class Ending(Recorder):
        """The other process writes its result while this one trains its next run."""

        def run_finished(self, name: str, summary: str) -> None:
            super().run_finished(name, summary)
            shutil.copytree(long, there, dirs_exist_ok=True)

    plan, store = planned(tmp_path / "a", definitions, ("mine",), 1)
    report = carry_out(plan, store, command="this test", reporter=Ending(), width=1)
    claim.release()
    assert (report.finished, report.errors, report.elsewhere) == (2, {}, ())
    assert len(results(tmp_path / "a")) == 3


def test_images_that_have_changed_since_are_not_averaged_with_the_others(
    tmp_path: Path, npz: Path, definitions: Definitions, work: Callable[..., Report]
) -> None:
    work()
    arrays = dict(np.load(npz))
    np.savez(npz, **{**arrays, "train_images": arrays["train_images"] // 2})
    folders, said = (tmp_path / "a" / "results", tmp_path / "a" / "runs"), list[str]()
    # Who does not look at the images trains a second seed on others than the first, which then counts alone.
    assert work(seeds=2).finished == 3
    shown = Store(*folders, said.append)
    for cell in definitions.tables["mine"].cells():
        assert [result.config.seed for result in shown.repeats(cell.config())] == [1]
    assert len(said) == 3
    assert all(
        re.fullmatch(r"left out: .*-seed0-.* was trained on other images than .*-seed1-.*, which is newer", t)
        for t in said
    )
    # Who does trains the first seed again, beside what was there.
    said.clear()
    store, sources = Store(*folders, said.append), Sources()
    plan = make_plan(definitions, definitions.parts(["mine"]), store, seeds=2, images=sources)
    assert (len(plan.in_state("done")), len(plan.in_state("waiting"))) == (3, 3)
    assert all(text.endswith(f"was trained on other images than {npz} holds now") for text in said if "left" in text)
    carry_out(plan, store, command="this test", reporter=Recorder(), sources=sources)
    assert len(results(tmp_path / "a")) == 9
    for cell in definitions.tables["mine"].cells():
        assert len(store.repeats(cell.config())) == 2
        assert len(Store(*folders).repeats(cell.config())) == 2


def darker(npz: Path) -> None:
    """Changes the images of a file."""
    arrays = dict(np.load(npz))
    np.savez(npz, **{**arrays, "train_images": arrays["train_images"] // 2})


def test_rows_on_older_images_are_no_rivals_of_those_on_newer_ones(
    tmp_path: Path, npz: Path, definitions: Definitions, work: Callable[..., Report]
) -> None:
    work()
    darker(npz)
    folders, said = (tmp_path / "a" / "results", tmp_path / "a" / "runs"), list[str]()
    store, sources = Store(*folders), Sources()
    plan = make_plan(definitions, definitions.parts(["mine"], rows=["ERM"]), store, seeds=1, images=sources)
    carry_out(plan, store, command="this test", reporter=Recorder(), sources=sources)
    # A copy, as a clone or a download makes it, has other times than the files that it was made from.
    for number, path in enumerate(sorted(folders[0].rglob("*.json"), reverse=True)):
        os.utime(path, (number, number))
    shown = Store(*folders, said.append)
    for cell in definitions.tables["mine"].cells():
        found = shown.repeats(cell.config())
        assert [result.data.source_hash for result in found] == [sources(cell.config()).hash] * (cell.row == "ERM")
    assert len([text for text in said if "which is newer" in text]) == 3


def test_each_change_of_the_images_is_trained_on_anew(tmp_path: Path, npz: Path, definitions: Definitions) -> None:
    seen = []
    for minutes in (None, None, None, 0.1, None):
        store, sources = Store(tmp_path / "a" / "results", tmp_path / "a" / "runs"), Sources()
        parts = definitions.parts(["mine"], rows=["ERM"])
        plan = make_plan(definitions, parts, store, seeds=1, images=sources)
        (run,) = plan.runs
        if minutes is None and len(seen) == 3:  # the call before has begun it, and the images are the same
            assert run.state == "begun"
        else:
            assert run.state == "waiting"
        clock = {} if minutes is None else {"minutes": minutes, "clock": Steps()}
        carry_out(plan, store, command="this test", reporter=Recorder(), sources=sources, **clock)
        if minutes is None:
            (found,) = store.repeats(run.config)
            assert found.data.source_hash == sources(run.config).hash
            seen.append(found.data.source_hash)
            darker(npz)
    assert len(set(seen)) == 4
    assert len(list((tmp_path / "a" / "runs").glob("*-erm-*"))) == 4


def test_a_result_of_an_unknown_version_does_not_stand_for_the_one_that_was_trained(
    tmp_path: Path, work: Callable[..., Report]
) -> None:
    work()
    path = next((tmp_path / "a").glob("results/*/*-erm-*.json"))
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "config": {**record["config"], "invented": 1}}))
    shutil.rmtree(tmp_path / "a" / "runs")
    assert work().finished == 1
    assert "invented" not in json.loads(path.read_text())["config"]


def test_of_two_results_of_a_run_the_one_that_is_named_after_it_counts(
    tmp_path: Path, work: Callable[..., Report]
) -> None:
    work()
    named = next((tmp_path / "a").glob("results/*/*-erm-*.json"))
    copied = named.with_name("a-copy.json")
    copied.write_text(named.read_text())
    said: list[str] = []
    kept = Store(tmp_path / "a" / "results", None, said.append).kept
    assert {stored.result.path for stored in kept.values()} == {*named.parent.glob("*-seed0-*.json")}
    assert said == [f"left out: {copied} is the same run as {named}"]


def test_a_damaged_result_file_is_named(tmp_path: Path, work: Callable[..., Report]) -> None:
    work()
    damaged = next((tmp_path / "a").glob("results/*/*.json"))
    for content, reason in (
        (damaged.read_text()[:-3], "is damaged (Input data was truncated)"),
        ("[]", "is damaged (Expected `object`, got `array`)"),
        ('{"format": 1}', "is damaged (Object missing required field `label`)"),
    ):
        damaged.write_text(content)
        said: list[str] = []
        assert len(Store(tmp_path / "a" / "results", None, said.append).kept) == 2
        (text,) = said
        assert text.startswith(f"left out: {damaged} {reason}")


def test_results_that_a_kill_left_behind_are_kept(tmp_path: Path, work: Callable[..., Report]) -> None:
    work()
    for path in (tmp_path / "a").glob("results/*/*.json"):
        path.unlink()
    recorder = Recorder()
    assert work(recorder=recorder).finished == 0
    assert len(results(tmp_path / "a")) == 3
    assert len([line for line in recorder.said if line.startswith("kept the result of")]) == 3


def made_by_other_defaults(path: Path, *keys: str) -> bytes:
    """Lets a record look as if the default learning rate had been another when it was written."""
    record = json.loads(path.read_text())
    inside = record
    for key in keys:
        inside = inside[key]
    inside["recipe"]["lr"] *= 2
    path.write_text(json.dumps(record))
    return path.read_bytes()


def test_a_run_directory_made_by_other_defaults_is_named_and_trained_anew_beside_it(
    tmp_path: Path, definitions: Definitions, work: Callable[..., Report]
) -> None:
    work()
    shutil.rmtree(tmp_path / "a" / "results")
    stale = next((tmp_path / "a" / "runs").glob("*-erm-*")) / "result.json"
    made_by_other_defaults(stale.with_name("config.json"), "identity")
    old = made_by_other_defaults(stale)
    said: list[str] = []
    store = Store(tmp_path / "a" / "results", tmp_path / "a" / "runs", said.append)
    left_out = f"left out: {stale.parent} was trained with other defaults than those of this version"
    assert said == [left_out]
    assert [path.name for path in store.unkept().values() if path == stale.parent] == []
    fresh = stale.parent.with_name(f"{stale.parent.name}-2") / "result.json"
    make_plan(definitions, definitions.parts(["later"]), store, seeds=1)
    assert said == [left_out]  # nothing about what was not asked for
    make_plan(definitions, definitions.parts(["mine"]), store, seeds=1)
    assert said == [left_out, f"{stale.parent} stays as it is; its run is to be trained anew in {fresh.parent}"]
    assert work().finished == 1
    assert stale.read_bytes() == old
    assert json.loads(fresh.read_text())["recipe"]["lr"] == json.loads(old)["recipe"]["lr"] / 2
    # What is in the results folder counts from now on, there and in another call.
    assert len(Store(tmp_path / "a" / "results", None, pytest.fail).kept) == 3
    assert work().finished == 0
    said.clear()
    complete = Store(tmp_path / "a" / "results", tmp_path / "a" / "runs", said.append)
    make_plan(definitions, definitions.parts(["mine"]), complete, seeds=1)
    assert said == [left_out]
    shutil.rmtree(fresh.parent)  # its result is kept elsewhere, and nothing is to be trained
    complete = Store(tmp_path / "a" / "results", tmp_path / "a" / "runs", said.append)
    make_plan(definitions, definitions.parts(["mine"]), complete, seeds=1)
    assert said == [left_out, left_out]


@pytest.mark.parametrize("name", ["config.json", "result.json"])
def test_a_damaged_run_directory_is_named_and_trained_anew_beside_it(
    name: str, tmp_path: Path, definitions: Definitions, work: Callable[..., Report]
) -> None:
    work()
    damaged = next((tmp_path / "a" / "runs").glob(f"*-erm-*/{name}"))
    damaged.write_text("{")
    next((tmp_path / "a" / "results").rglob("*-erm-*.json")).unlink()
    said: list[str] = []
    store = Store(tmp_path / "a" / "results", tmp_path / "a" / "runs", said.append)
    make_plan(definitions, definitions.parts(["mine"]), store, seeds=1)
    beside = damaged.parent.with_name(f"{damaged.parent.name}-2")
    left_out, anew = said
    assert left_out.startswith(f"left out: {damaged.parent} (")
    assert anew == f"{damaged.parent} stays as it is; its run is to be trained anew in {beside}"
    report = work()
    assert (report.finished, report.errors) == (1, {})
    assert damaged.read_text() == "{"
    assert (beside / "result.json").exists()
    assert len(results(tmp_path / "a")) == 3
    assert work().finished == 0


def test_a_run_that_other_defaults_began_does_not_go_on_with_them(tmp_path: Path, work: Callable[..., Report]) -> None:
    work(minutes=0.2, clock=Steps(), width=1)
    (begun,) = (tmp_path / "a" / "runs").glob("*/config.json")
    old = made_by_other_defaults(begun, "identity")
    assert work().finished == 3
    assert begun.read_bytes() == old
    assert len(Store(tmp_path / "a" / "results", None, pytest.fail).kept) == 3


def test_a_result_made_by_other_defaults_is_not_written_over(tmp_path: Path, work: Callable[..., Report]) -> None:
    work()
    stale = next((tmp_path / "a").glob("results/*/*-erm-*"))
    old = made_by_other_defaults(stale)
    shutil.rmtree(tmp_path / "a" / "runs")
    assert work().finished == 1
    assert stale.read_bytes() == old
    assert stale.with_name(f"{stale.stem}-2.json").exists()
    assert work().finished == 0


def test_a_killed_command_goes_on(tmp_path: Path, content: dict[str, Any]) -> None:
    """Killed without warning in the middle of a run, then given again: bit for bit as if nothing had happened."""
    content["tables"]["mine"]["base"] |= {"epochs": 6, "checkpoint_every": 0.0}
    content["tables"]["mine"]["rows"] = {"ERM": {"method": "erm"}, "MFW": {"method": "mfw"}}
    tables = tmp_path / "mine.yaml"
    tables.write_text(yaml.safe_dump(content))
    places = ["--output", str(tmp_path / "killed" / "runs"), "--results", str(tmp_path / "killed" / "results")]
    command = ["paper", "reproduce", "mine", "--tables", str(tables), "--seeds", "1", "--quiet", *places]
    killed = forked.start(command, tmp_path / "log")
    begun = partial((tmp_path / "killed" / "runs").glob, "*/epochs.jsonl")
    assert forked.wait_for(lambda: any(epochs.read_bytes() for epochs in begun()), killed)
    killed.kill()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert results(tmp_path / "killed") == {}
    recorder = Recorder()
    for folder in ("killed", "whole"):
        definitions = read_definitions(content, origin="the test")
        plan, store = planned(tmp_path / folder, definitions, ("mine",), seeds=1)
        assert len(plan.in_state("begun")) == (folder == "killed")
        carry_out(plan, store, command="this test", reporter=recorder)
        assert len(results(tmp_path / folder)) == 2
    for path in (tmp_path / "whole" / "runs").glob("*/result.json"):
        assert not differences(tmp_path / "killed" / "runs" / path.parent.name, path.parent)


def die_before(function: str, pattern: str) -> None:
    """Kills the process when it is about to do this with a file of such a name."""
    module: Any = {"replace": os, "unlink": Path}[function]
    usual = getattr(module, function)

    def die(*arguments: Any, **more: Any) -> Any:
        if any(isinstance(path, Path) and path.match(pattern) for path in arguments):
            os.kill(os.getpid(), signal.SIGKILL)
        return usual(*arguments, **more)

    setattr(module, function, die)


@pytest.mark.parametrize(
    ("moment", "left"),
    [
        (("replace", "results/mine/*.json"), "results/mine/.*.tmp"),
        (("unlink", "runs/*/checkpoint-*"), "runs/*/checkpoint-*"),
    ],
    ids=["a result half-written", "a finished run with checkpoints"],
)
def test_a_killed_command_leaves_nothing_behind_in_the_end(
    moment: tuple[str, str], left: str, tmp_path: Path, content: dict[str, Any]
) -> None:
    del content["tables"]["mine"]["rows"]["MFW"], content["tables"]["mine"]["rows"]["short"]
    (tmp_path / "mine.yaml").write_text(json.dumps({"tables": content["tables"]}))
    command = ["paper", "reproduce", "mine", "--tables", str(tmp_path / "mine.yaml"), "--seeds", "1"]

    def started(folder: str, before: Callable[[], None] | None = None) -> int | None:
        places = ["--output", str(tmp_path / folder / "runs"), "--results", str(tmp_path / folder / "results")]
        process = forked.start([*command, *places], tmp_path / "log", before)
        process.join(60)
        return process.exitcode

    def listing(folder: str) -> list[Path]:
        return sorted(path.relative_to(tmp_path / folder) for path in (tmp_path / folder).rglob("*"))

    assert started("whole") == 0
    assert started("killed", partial(die_before, *moment)) == -signal.SIGKILL
    assert list((tmp_path / "killed").glob(left))
    assert list((tmp_path / "killed").glob("runs/*/result.json"))
    assert started("killed") == 0
    assert listing("killed") == listing("whole")

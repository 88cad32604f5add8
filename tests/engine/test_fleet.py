from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from procrustean.base import ConfigError, ProcrusteanError, RunError
from procrustean.base.errors import ImagesChanged
from procrustean.base.progress import PlainReporter, Reporter
from procrustean.engine.side_by_side import Member, memory_allows, run_fleet
from procrustean.records import RunSpec
from procrustean.runs import fit, fit_many
from procrustean.runs import image_loading as loading
from procrustean.runs import many_runs as many
from procrustean.runs.cost import starting_cost
from procrustean.runs.many_runs import Outcome
from procrustean.runs.train_api import Stopped

Same = Callable[[Path, Path], None]
StopAfter = Callable[[int, ModuleType], None]
CPU = torch.device("cpu")

METHODS: list[dict[str, Any]] = [
    {"method": "erm"},
    {"method": "ldam", "drw": True, "epochs": 2},
    {"method": "mfw", "hold_out": 2, "precision": "bf16"},
    {"method": "focal", "seed": 5, "batch_size": 60},
]


class Recorder(Reporter):
    """Remembers which runs began, and after how many epochs."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def run_started(self, label: str, epochs: int, first_epoch: int) -> None:
        self.begun.append((label, first_epoch))


@pytest.fixture
def config(npz: Path, tiny: dict[str, Any], tmp_path: Path) -> Callable[..., RunSpec]:
    """`config(name, **settings)`: a tiny run kept in a folder of that name."""

    def make(name: str, **settings: Any) -> RunSpec:
        place = {"source": str(npz), "run_dir": tmp_path / name}
        # Nothing is left open: torch would import its compiler in every process to reckon the work of the network.
        return RunSpec.from_json({**tiny, "lr": 0.05, "evaluate_every": 1, **place, **settings})

    return make


@pytest.fixture
def fleet(config: Callable[..., RunSpec]) -> list[RunSpec]:
    return [config(f"fleet/{kind['method']}", **kind) for kind in METHODS]


@pytest.fixture
def alone(config: Callable[..., RunSpec], tmp_path: Path) -> Callable[[str], Path]:
    """The same run by itself, by the name of its method."""

    def run(method: str) -> Path:
        kind = next(kind for kind in METHODS if kind["method"] == method)
        return fit(config(f"alone/{method}", **kind)).path

    return run


# Equal to single runs


@pytest.mark.parametrize("width", [1, 3])
def test_runs_side_by_side_equal_runs_alone(
    width: int, fleet: list[RunSpec], alone: Callable[[str], Path], same_run: Same
) -> None:
    outcomes = fit_many(fleet, width=width)
    assert [outcome.path for outcome in outcomes] == [config.run_dir for config in fleet]
    for config, outcome in zip(fleet, outcomes, strict=True):
        assert outcome.error is None
        assert outcome.record is not None
        assert outcome.record.config.method == config.method
        same_run(outcome.path, alone(config.method))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"lr": 1e30}, RunError, "non-finite"),
        ({"method": "mfv"}, ConfigError, "Did you mean 'mfw'"),
        ({"source": "nowhere.npz"}, ProcrusteanError, "there is no such file"),
        ({"method": "mfw", "options": {"layer": "group9"}}, ConfigError, "group9"),
    ],
    ids=["diverges", "unknown method", "no data", "unknown layer"],
)
def test_a_failing_run_does_not_touch_the_others(
    wrong: dict[str, Any],
    error: type[Exception],
    message: str,
    config: Callable[..., RunSpec],
    fleet: list[RunSpec],
    alone: Callable[[str], Path],
    same_run: Same,
) -> None:
    outcomes = fit_many([fleet[0], config("wrong", **wrong), fleet[1]], width=3)
    assert outcomes[1].record is None
    with pytest.raises(error, match=message):
        raise outcomes[1].error or AssertionError
    for outcome, method in ((outcomes[0], "erm"), (outcomes[2], "ldam")):
        assert outcome.error is None
        same_run(outcome.path, alone(method))


def test_a_defect_of_one_run_does_not_touch_the_others(
    config: Callable[..., RunSpec], register: Callable[..., None], fleet: list[RunSpec]
) -> None:
    """Not only errors with a message of ours: a method with a mistake in it is kept apart too."""

    def mistaken(problem: object) -> None:
        raise ZeroDivisionError

    register("mistaken", mistaken)
    outcomes = fit_many([config("wrong", method="mistaken"), fleet[0]], width=2)
    assert isinstance(outcomes[0].error, ZeroDivisionError)
    assert outcomes[1].record is not None


# Going on


@pytest.mark.parametrize("train", [fit_many, pytest.param(partial(fit_many, processes=1), marks=pytest.mark.slow)])
def test_a_damaged_result_does_not_touch_the_others(
    train: Callable[[list[RunSpec]], list[Outcome]], fleet: list[RunSpec]
) -> None:
    paths = [outcome.path for outcome in fit_many(fleet)]
    (paths[1] / "result.json").write_text('{"cut":')
    outcomes = train(fleet)
    assert [outcome.error is None for outcome in outcomes] == [number != 1 for number in range(len(fleet))]
    assert "result.json is damaged (Input data was truncated)" in str(outcomes[1].error)
    assert outcomes[1].record is None
    assert outcomes[0].record is not None


@pytest.mark.parametrize("width", [1, 3])
def test_an_interrupted_fleet_goes_on_and_repeats_nothing(
    width: int,
    fleet: list[RunSpec],
    alone: Callable[[str], Path],
    same_run: Same,
    stop_after: StopAfter,
    files_of: Callable[[Path], dict[str, bytes]],
) -> None:
    stop_after(27, many)
    with pytest.raises(Stopped, match="give the same command again to go on"):
        fit_many(fleet, width=width)
    finished = [config.run_dir for config in fleet if (config.run_dir / "result.json").exists()]
    assert 0 < len(finished) < len(fleet)
    before = [(files_of(path), (path / "result.json").stat().st_mtime_ns) for path in finished]
    stop_after(0, many)
    recorder = Recorder()
    outcomes = fit_many(fleet, width=width, reporter=recorder)
    assert len(recorder.begun) == len(fleet) - len(finished)
    assert before == [(files_of(path), (path / "result.json").stat().st_mtime_ns) for path in finished]
    for config, outcome in zip(fleet, outcomes, strict=True):
        assert outcome.error is None
        same_run(outcome.path, alone(config.method))
    recorder = Recorder()
    again = fit_many(fleet, reporter=recorder)
    assert recorder.begun == []
    assert [outcome.record for outcome in again] == [outcome.record for outcome in outcomes]


def test_a_run_that_another_process_finishes_meanwhile_is_no_failure(
    fleet: list[RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = many.prepare

    def overtaken(config: RunSpec, **settings: Any) -> Any:
        ready = prepare(config, **settings)
        if not (config.run_dir / "config.json").exists():
            fit(config)
        return ready

    monkeypatch.setattr(many, "prepare", overtaken)
    recorder = Recorder()
    (outcome,) = fit_many(fleet[:1], reporter=recorder)
    assert outcome.error is None
    assert outcome.record is not None
    assert not recorder.begun


def test_a_stopped_fleet_begins_no_further_run(fleet: list[RunSpec], stop_after: StopAfter) -> None:
    stop_after(2, many)
    with pytest.raises(Stopped):
        fit_many(fleet, width=1)
    assert sum(config.run_dir.exists() for config in fleet) == 1


def test_a_folder_of_another_run_is_not_overwritten(
    config: Callable[..., RunSpec], files_of: Callable[[Path], dict[str, bytes]]
) -> None:
    path = fit(config("run")).path
    before = files_of(path)
    outcome = fit_many([config("run", seed=9)])[0]
    assert outcome.record is None
    with pytest.raises(RunError, match=r"other settings \(seed: 0 there, 9 here\)"):
        raise outcome.error or AssertionError
    assert files_of(path) == before


def test_changed_data_are_refused(
    config: Callable[..., RunSpec], npz: Path, stop_after: StopAfter, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    stop_after(5, many)
    with pytest.raises(Stopped):
        fit_many([config("run")])
    stop_after(0, many)
    arrays = dict(np.load(npz))
    arrays["train_images"][0] ^= 1
    np.savez(npz, **arrays)
    with pytest.raises(RunError, match="cannot go on"):
        raise fit_many([config("run")])[0].error or AssertionError


def test_a_whole_number_as_ratio_is_the_same_run_when_continued(npz: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"imbalance": "step", "rho": 2, "net": "small", "epochs": 1, "device": "cpu"}
    runs = [RunSpec(str(npz), **settings, method="erm", run_dir=tmp_path / "run")]
    assert fit_many(runs)[0].error is None
    assert fit_many(runs)[0].error is None


# What is refused before anything is trained


def test_two_runs_in_one_folder_are_refused(config: Callable[..., RunSpec], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"two runs would be kept in .*same"):
        fit_many([config("same"), config("other"), config("same", seed=1)])
    assert not (tmp_path / "other").exists()


def test_equal_runs_without_a_folder_are_refused(npz: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="two runs would be kept in runs/stripes-natural-mfw-seed0"):
        fit_many([RunSpec(str(npz)), RunSpec(str(npz))])


def test_one_folder_by_two_names_is_refused(
    config: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="two runs would be kept in"):
        fit_many([config("same"), config("same", run_dir="same")])


@pytest.mark.parametrize("width", [-1, 0])
def test_a_fleet_is_at_least_one_run_wide(
    width: int, config: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "run_fleet", lambda *arguments, **more: None)
    with pytest.raises(ConfigError, match="width"):
        fit_many([config("run")], width=width)


def test_no_runs_are_no_error() -> None:
    assert fit_many([]) == []


# What the caller decides


def test_the_order_may_be_given(config: Callable[..., RunSpec]) -> None:
    recorder = Recorder()
    runs = [config("a", method="erm", epochs=1), config("b", method="focal", epochs=3), config("c", method="ldam")]
    fit_many(runs, reporter=recorder, costs=[3.0, 2.0, 1.0])
    assert [name for name, _ in recorder.begun] == ["ERM, seed 0", "Focal, seed 0", "LDAM, seed 0"]


def test_when_the_time_is_up_runs_save_themselves_and_go_on_later(
    fleet: list[RunSpec], alone: Callable[[str], Path], same_run: Same
) -> None:
    asked = 0

    def time_up() -> bool:
        nonlocal asked
        asked += 1
        return asked > 40

    outcomes = fit_many(fleet, width=2, time_up=time_up)
    assert all(outcome.error is None for outcome in outcomes)
    unfinished = [outcome for outcome in outcomes if outcome.record is None]
    assert 0 < len(unfinished) < len(fleet)
    recorder = Recorder()
    for config, outcome in zip(fleet, fit_many(fleet, reporter=recorder), strict=True):
        assert outcome.error is None
        same_run(outcome.path, alone(config.method))
    assert len(recorder.begun) == len(unfinished)
    assert any(epochs > 0 for _, epochs in recorder.begun)


def test_each_result_is_announced_as_soon_as_it_is_there(fleet: list[RunSpec]) -> None:
    seen: list[tuple[str, int]] = []

    def finished(config: RunSpec, path: Path) -> None:
        assert (path / "result.json").exists()
        seen.append((config.method, sum((c.run_dir / "result.json").exists() for c in fleet if c.run_dir)))

    fit_many(fleet, width=1, finished=finished)
    assert sorted(method for method, _ in seen) == sorted(config.method for config in fleet)
    assert [number for _, number in seen] == [1, 2, 3, 4]


def test_each_run_may_have_a_reporter_of_its_own(fleet: list[RunSpec]) -> None:
    recorders = {config.method: Recorder() for config in fleet}
    fit_many(fleet, reporter_of=lambda config: recorders[config.method])
    assert [len(recorder.begun) for recorder in recorders.values()] == [1] * 4


def test_runs_of_one_name_are_told_apart_and_do_not_disturb_each_other(
    config: Callable[..., RunSpec], capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs of one method whose options differ; the shorter one ends first."""
    runs = [config(f"mfw{a}", method="mfw", options={"alpha": a}, epochs=n) for a, n in ((0.5, 1), (2.0, 3))]
    outcomes = fit_many(runs, width=2, reporter=PlainReporter())
    assert [outcome.error for outcome in outcomes] == [None, None]
    shown = capsys.readouterr().err
    assert "MFW, seed 0 (epochs=1, alpha=0.5): " in shown
    assert "MFW, seed 0 (epochs=3, alpha=2): " in shown


# Turns


def turns(name: str, count: int, log: list[str]) -> Callable[[], Iterator[None]]:
    def start() -> Iterator[None]:
        log.append(f"begin {name}")
        for _ in range(count):
            log.append(name)
            yield
        log.append(f"end {name}")

    return start


def test_the_most_expensive_run_starts_first() -> None:
    log: list[str] = []
    members = [Member(name, cost, turns(name, 1, log)) for name, cost in (("a", 1.0), ("b", 9.0), ("c", 4.0))]
    run_fleet(members, width=1, device=CPU)
    assert [entry for entry in log if entry.startswith("begin")] == ["begin b", "begin c", "begin a"]
    assert all(member.done and member.error is None for member in members)


def test_longer_runs_of_a_fleet_start_first(config: Callable[..., RunSpec]) -> None:
    recorder = Recorder()
    fit_many(
        [config("a", method="erm", epochs=1), config("b", method="focal", epochs=3), config("c", method="ldam")],
        reporter=recorder,
    )
    assert recorder.begun == [("Focal, seed 0", 0), ("LDAM, seed 0", 0), ("ERM, seed 0", 0)]


def test_epochs_of_the_recipe_count_as_well(npz: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[float] = []
    monkeypatch.setattr(many, "run_fleet", lambda members, **more: costs.extend(m.cost for m in members))
    # 100 epochs by the recipe for images of a user.
    fit_many([RunSpec(str(npz)), RunSpec(str(npz), epochs=5)])
    assert costs[0] > costs[1]


def test_what_methods_change_in_the_recipe_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def in_order(members: list[Member], **more: Any) -> None:
        begun.extend(m.name for m in sorted(members, key=lambda m: -m.cost))

    monkeypatch.setattr(many, "run_fleet", in_order)
    settings: dict[str, Any] = {"source": "cifar10", "imbalance": "step", "rho": 100, "device": "cpu"}
    changes: list[dict[str, Any]] = [
        {"method": "erm"},  # 200 epochs
        {"method": "mfw"},  # 300
        {"method": "logit_adjustment", "recipe": "own"},  # 1241
        {"method": "crt"},  # 230
        {"method": "erm", "epochs": 250},
        {"method": "ldam", "options": {"scale": 0.0}},  # cannot be, as is seen when its turn comes
    ]
    runs = [RunSpec(**settings, **change) for change in changes]
    fit_many(runs)
    assert begun == [runs[number].slug for number in (2, 1, 4, 3, 0, 5)]


def test_a_method_that_is_still_to_be_chosen_has_a_cost() -> None:
    settings: dict[str, Any] = {"source": "cifar10", "imbalance": "step", "rho": 100, "epochs": 10}
    methods = ("erm", "advised", "auto", "mfw")
    erm, *others = (starting_cost(RunSpec(**settings, method=method), "cuda") for method in methods)
    assert others == [erm] * 3


def test_runs_take_turns_and_a_free_place_is_filled() -> None:
    log: list[str] = []
    members = [Member(name, 0.0, turns(name, count, log)) for name, count in (("a", 2), ("b", 3), ("c", 2))]
    run_fleet(members, width=2, device=CPU)
    shown = ["begin a", "a", "a", "begin b", "b", "end a", "b", "b", "begin c", "c", "end b", "c", "end c"]
    assert log == shown


def test_never_more_runs_than_places() -> None:
    active, most = set(), []

    def start(name: int) -> Callable[[], Iterator[None]]:
        def run() -> Iterator[None]:
            active.add(name)
            for _ in range(name % 3 + 3):
                most.append(len(active))
                yield
            active.remove(name)

        return run

    run_fleet([Member(str(n), 0.0, start(n)) for n in range(7)], width=3, device=CPU)
    assert max(most) == 3


def test_a_run_waits_for_room_but_one_always_goes_on() -> None:
    log: list[str] = []
    asked: list[int] = []
    members = [Member(name, 0.0, turns(name, 2, log)) for name in "ab"]
    run_fleet(members, width=2, device=CPU, may_start=lambda active: bool(asked.append(active)))
    assert log == ["begin a", "a", "a", "end a", "begin b", "b", "b", "end b"]
    assert set(asked) == {1}


def test_a_run_starts_only_when_it_is_known_what_those_before_it_take() -> None:
    memory, log = 100.0, []
    taken: dict[str, float] = {}

    def start(name: str) -> Callable[[], Iterator[None]]:
        def run() -> Iterator[None]:
            taken[name] = 30.0
            assert sum(taken.values()) <= memory, "out of memory"
            yield
            yield
            del taken[name]
            log.append(name)

        return run

    def room(active: int) -> bool:
        return memory - sum(taken.values()) > sum(taken.values()) / active

    members = [Member(name, 0.0, start(name)) for name in "abcdefgh"]
    run_fleet(members, width=8, device=CPU, may_start=room)
    assert [member.error for member in members] == [None] * 8
    assert log == list("abcdefgh")


def test_an_error_is_kept_in_its_run() -> None:
    log: list[str] = []

    def failing() -> Iterator[None]:
        yield
        raise ValueError("mine")

    members = [Member("bad", 2.0, failing), Member("good", 1.0, turns("good", 3, log))]
    run_fleet(members, width=2, device=CPU)
    assert str(members[0].error) == "mine"
    assert members[1].error is None
    assert log[-1] == "end good"


def plainly(net: torch.nn.Module) -> None:
    raise ValueError("broken")


def while_cleaning_up(net: torch.nn.Module) -> None:
    try:
        plainly(net)
    finally:
        raise RuntimeError("the end of a capture fails after what failed in it")


def because_of_another(net: torch.nn.Module) -> None:
    try:
        plainly(net)
    except ValueError as error:
        raise RuntimeError("told in other words") from error


@pytest.mark.parametrize("fail", [plainly, while_cleaning_up, because_of_another])
def test_a_failed_run_leaves_its_memory_to_the_others_and_tells_where_it_failed(
    fail: Callable[[torch.nn.Module], None],
) -> None:
    kept: list[weakref.ref[torch.nn.Module]] = []

    def failing() -> Iterator[None]:
        net = torch.nn.Linear(2, 2)
        kept.append(weakref.ref(net))
        yield
        fail(net)

    def going_on() -> Iterator[None]:
        for _ in range(3):
            yield
        gc.collect()
        assert kept[0]() is None

    bad, good = Member("bad", 2.0, failing), Member("good", 1.0, going_on)
    run_fleet([bad, good], width=2, device=CPU)
    assert good.error is None
    assert bad.error is not None
    assert traceback.extract_tb(bad.error.__traceback__)[-1].name == fail.__name__


def test_stopping_at_once_ends_the_fleet() -> None:
    def interrupted() -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_fleet([Member("a", 0.0, interrupted)], width=1, device=CPU)


def test_a_cpu_has_no_memory_of_its_own_to_ask_for() -> None:
    assert memory_allows(CPU)(5)


@pytest.mark.gpu
@pytest.mark.usefixtures("deterministic")
def test_runs_side_by_side_on_a_gpu_equal_runs_alone(config: Callable[..., RunSpec], same_run: Same) -> None:
    kinds = [{**kind, "device": "cuda"} for kind in METHODS]
    outcomes = fit_many([config(f"fleet/{kind['method']}", **kind) for kind in kinds], width=3)
    for kind, outcome in zip(kinds, outcomes, strict=True):
        assert outcome.error is None
        same_run(outcome.path, fit(config(f"alone/{kind['method']}", **kind)).path)


def test_a_source_that_cannot_be_loaded_is_tried_once(
    config: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def unavailable(source: str, **options: Any) -> None:
        tried.append(source)
        raise RunError("no connection")

    monkeypatch.setattr(loading, "load_source", unavailable)
    outcomes = fit_many([config(name) for name in "abc"])
    assert [str(outcome.error) for outcome in outcomes] == ["no connection"] * 3
    assert len(tried) == 1


@pytest.mark.parametrize("classes", [(), ("class1", "class0")])
def test_a_finished_run_of_other_images_is_told(
    classes: tuple[str, ...], npz: Path, config: Callable[..., RunSpec]
) -> None:
    runs = [config("one", epochs=1, classes=classes), config("two", epochs=1, classes=classes, seed=1)]
    fit_many(runs)
    assert [outcome.error for outcome in fit_many(runs)] == [None, None]
    arrays = dict(np.load(npz))
    np.savez(npz, **{**arrays, "train_images": arrays["train_images"] // 2})
    for run, outcome in zip(runs, fit_many(runs), strict=True):
        assert isinstance(outcome.error, ImagesChanged)
        assert f"{run.run_dir} was trained on other images than {npz} holds now" in str(outcome.error)

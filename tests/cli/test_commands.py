from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.cells import cell_len

from procrustean.base import Claim
from procrustean.cli import main
from procrustean.methods import METHODS
from procrustean.records import load_result

Call = Callable[..., Any]
Files = Callable[[Path], dict[str, bytes]]

TRAIN = ("--net", "small", "--epochs", "3", "--batch-size", "16", "--device", "cpu", "--precision", "fp32")


@pytest.fixture(scope="module")
def trained(stripes: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ERM, and MFW with DRW and a hold-out."""
    folder = tmp_path_factory.mktemp("trained")
    stripes(folder)
    with contextlib.chdir(folder):
        assert main(["train", "stripes.npz", *TRAIN, "--method", "erm", "--run-dir", "a", "--quiet"]) == 0
        mfw = ("--method", "mfw", "--drw", "--hold-out", "2", "--run-dir", "b", "--quiet")
        assert main(["train", "stripes.npz", *TRAIN, *mfw]) == 0
    return folder


@pytest.fixture
def two_runs(trained: Path, npz: Path, call: Call) -> tuple[str, str]:
    """Copies of them, in the folder of the test."""
    for name in ("a", "b"):
        shutil.copytree(trained / name, name)
    return "a", "b"


@pytest.mark.filterwarnings("always")  # as in a process of its own
def test_training_writes_results_to_stdout_and_progress_to_stderr(npz: Path, call: Call) -> None:
    answer = call("train", npz, *TRAIN, "--method", "erm", "--run-dir", "a")
    assert answer.code == 0
    assert answer.out.startswith("**Test accuracy in %: stripes, natural, 15 % of each class held out, small, ")
    assert "| ERM" in answer.out
    assert "ERM, seed 0: 3 epochs" in answer.err
    assert "fp32 as asked for; eager" in answer.err
    assert "test accuracy" in answer.err
    assert "|" not in answer.err
    quiet = call("train", npz, *TRAIN, "--method", "erm", "--run-dir", "b", "--quiet")
    assert quiet.err == ""
    assert quiet.out == answer.out


def test_a_run_without_a_folder_is_kept_under_runs(npz: Path, call: Call) -> None:
    assert call("train", npz, *TRAIN, "--method", "erm", "--seed", "7", "--quiet").code == 0
    (path,) = Path("runs").iterdir()
    assert path.name.startswith("stripes-natural-erm-seed7-")
    assert (path / "result.json").exists()


def test_runs_are_compared_in_four_formats(two_runs: tuple[str, str], call: Call) -> None:
    answers = {form: call("compare", *two_runs, "--format", form) for form in ("table", "markdown", "csv", "latex")}
    for form, answer in answers.items():
        assert (answer.code, answer.err) == (0, ""), form
        assert "ERM" in answer.out
        assert "MFW-DRW" in answer.out
    assert "|---" in answers["markdown"].out
    assert r"\begin{tabular}" in answers["latex"].out
    rows = list(csv.reader(io.StringIO(answers["csv"].out)))
    header = rows[0]
    assert {row[header.index("method")] for row in rows[1:]} == {"ERM", "MFW-DRW"}


def test_a_comparison_goes_to_a_file(two_runs: tuple[str, str], call: Call) -> None:
    for form in ("table", "markdown", "csv", "latex"):
        shown = call("compare", *two_runs, "--format", form)
        answer = call("compare", *two_runs, "--format", form, "--output", f"table.{form}")
        assert (answer.code, answer.out) == (0, "")
        assert Path(f"table.{form}").read_text().strip() == shown.out.strip()


def test_recall_of_every_class_is_compared(two_runs: tuple[str, str], call: Call) -> None:
    answer = call("compare", "a", "--per-class")
    assert answer.code == 0
    recall = json.loads(Path("a/result.json").read_text())["selections"]["last"]["metrics"]["recall"]
    for number, value in enumerate(recall):
        row = next(line for line in answer.out.splitlines() if line.startswith(f"| {number} "))
        assert row.rstrip(" |").endswith(f" {100 * value:.1f}")


def test_result_files_are_compared_as_well_as_folders(two_runs: tuple[str, str], call: Call) -> None:
    files = [f"{run}/result.json" for run in two_runs]
    assert call("compare", *files).out == call("compare", *two_runs).out


@pytest.mark.parametrize(("run", "weights"), [("a", "last"), ("b", "last"), ("b", "held_out")])
def test_evaluating_gives_the_recorded_metrics(
    run: str, weights: str, two_runs: tuple[str, str], call: Call, files_of: Files
) -> None:
    before = files_of(Path(run))
    answer = call("evaluate", run, "--weights", weights, "--json")
    assert (answer.code, answer.err) == (0, "")
    recorded = json.loads(Path(run, "result.json").read_text())["selections"][weights]["metrics"]
    assert json.loads(answer.out) == {"weights": weights, "statistics": "kept", **recorded}
    assert files_of(Path(run)) == before


def test_methods_are_listed_and_explained(call: Call) -> None:
    listed = call("list", "methods")
    assert (listed.code, listed.err) == (0, "")
    for name in METHODS:
        assert any(line.startswith(f"{name} ") for line in listed.out.splitlines()), name
        explained = call("list", "methods", name)
        assert (explained.code, explained.err) == (0, "")
        assert "Formula:" in explained.out
        assert METHODS[name].source in " ".join(explained.out.split())


def test_a_data_set_is_described(call: Call) -> None:
    answer = call("data", "describe", "digits", "--imbalance", "step", "--rho", "20", "--hold-out", "2")
    assert (answer.code, answer.err) == (0, "")
    assert "10 classes of 8 x 8 images" in answer.out
    assert "training 505, test 797, held out 20" in answer.out
    assert "largest 98, smallest 3" in answer.out
    assert "step" in answer.out
    bars = [line for line in answer.out.splitlines() if "█" in line]
    assert len(bars) == 10
    assert bars[0].count("█") == 40
    assert bars[9].count("█") == 1


def test_the_description_names_the_split_of_the_record(npz: Path, call: Call) -> None:
    flags = ("--imbalance", "step", "--rho", "3", "--hold-out", "1")
    described = call("data", "describe", npz, *flags).out
    assert call("train", npz, *TRAIN, *flags, "--run-dir", "run", "--quiet").code == 0
    data = json.loads(Path("run/result.json").read_text())["data"]
    assert data["split_hash"][:16] in described
    assert data["source_hash"][:16] in described


def test_control_characters_of_class_names_do_not_reach_the_terminal(folder: Path, call: Call) -> None:
    (folder / "cat").rename(folder / "c\x1b[31mat")
    answer = call("data", "describe", folder)
    assert answer.code == 0
    assert "\x1b" not in answer.out + answer.err


def test_wide_letters_of_class_names_stand_in_columns(folder: Path, call: Call) -> None:
    (folder / "cat").rename(folder / "猫")
    lines = [line for line in call("data", "describe", folder).out.splitlines() if "█" in line]
    assert len({cell_len(line[: line.index("█")]) for line in lines}) == 1


def test_sources_are_listed(call: Call) -> None:
    answer = call("list", "sources")
    assert (answer.code, answer.err) == (0, "")
    for name in ("digits", "cifar10", "cifar100", ".npz", "FOLDER"):
        assert name in answer.out


def test_images_of_a_folder_are_trained_on(folder: Path, call: Call) -> None:
    answer = call("train", folder, *TRAIN, "--method", "erm", "--run-dir", "run")
    assert answer.code == 0
    assert "set aside" in answer.err
    assert json.loads(Path("run/result.json").read_text())["data"]["classes"] == ["cat", "dog"]


# Fleet


@pytest.fixture
def grid(npz: Path) -> str:
    # Nothing is left open: torch would import its compiler in every process to reckon the work of the network.
    given = "net: small, epochs: 2, batch_size: 16, lr: 0.05, evaluate_every: 1, device: cpu, precision: fp32"
    base = f"{{source: stripes.npz, {given}}}"
    Path("grid.yaml").write_text(f"base: {base}\nruns: [{{method: erm}}, {{method: mfw, drw: true}}]\n")
    return "grid.yaml"


def test_a_fleet_is_trained_once(grid: str, call: Call, files_of: Files) -> None:
    first = call("fleet", grid, "--output", "fleet", "--width", "2")
    assert first.code == 0
    assert "| ERM" in first.out
    assert "| MFW-DRW" in first.out
    assert "ERM, seed 0: 2 epochs" in first.err
    assert len(list(Path("fleet").iterdir())) == 2
    before = files_of(Path("fleet"))
    again = call("fleet", grid, "--output", "fleet", "--quiet")
    assert (again.code, again.err, again.out) == (0, "", first.out)
    assert files_of(Path("fleet")) == before


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
@pytest.mark.parametrize("how", [("--width", "2"), pytest.param(("--processes", "1"), marks=pytest.mark.slow)])
def test_what_another_process_trains_is_no_failure_of_a_fleet(how: tuple[str, str], grid: str, call: Call) -> None:
    assert call("fleet", grid, "--output", "fleet", "--quiet").code == 0
    (there,) = Path("fleet").glob("*-erm-*")
    (there / "result.json").rename("kept.json")
    claim = Claim(there)
    answer = call("fleet", grid, "--output", "fleet", *how)
    claim.release()
    assert answer.code == 1  # not all of it is there
    assert f"procrustean: {there} is being trained by another process; wait for it" in answer.err
    assert "failed" not in answer.err
    assert "| MFW-DRW" in answer.out
    assert "| ERM" not in answer.out


@pytest.mark.parametrize("how", [("--width", "2"), pytest.param(("--processes", "1"), marks=pytest.mark.slow)])
def test_the_runs_of_a_fleet_log_each_in_its_own_folder(how: tuple[str, str], grid: str, call: Call) -> None:
    answer = call("fleet", grid, "--output", "fleet", "--log", "tensorboard", "--quiet", *how)
    assert answer.code == 0, answer.err
    assert [len(list(run.glob("tensorboard/events.*"))) for run in Path("fleet").iterdir()] == [1, 1]


def test_a_tool_that_logs_one_run_at_a_time_is_refused_side_by_side(
    grid: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", ModuleType("wandb"))
    answer = call("fleet", grid, "--output", "fleet", "--log", "wandb", "--width", "2")
    assert answer.code == 2
    assert "--log wandb received" in answer.err
    assert "2 would run side by side" in answer.err
    assert not Path("fleet").exists()


def test_a_run_of_a_fleet_is_the_run_of_its_own(grid: str, call: Call, npz: Path) -> None:
    assert call("fleet", grid, "--output", "fleet", "--quiet").code == 0
    flags = ("--net", "small", "--epochs", "2", "--batch-size", "16", "--lr", "0.05", "--evaluate-every", "1")
    device = ("--device", "cpu", "--precision", "fp32")
    assert call("train", npz, *flags, *device, "--method", "erm", "--run-dir", "alone", "--quiet").code == 0
    (path,) = Path("fleet").glob("*-erm-*")
    assert (path / "model.safetensors").read_bytes() == Path("alone/model.safetensors").read_bytes()


def test_a_fleet_names_the_runs_that_failed(grid: str, call: Call) -> None:
    Path(grid).write_text(Path(grid).read_text() + "grid: {lr: [0.05, 1.0e+30]}\n")
    answer = call("fleet", grid, "--output", "fleet", "--quiet")
    assert answer.code == 1
    assert "| ERM" in answer.out
    failed = [line for line in answer.err.splitlines() if " failed: " in line]
    assert len(failed) == 2
    assert all("non-finite" in line for line in failed)
    assert "Traceback" not in answer.err


# The demonstration


def test_the_demo_is_trained_once(call: Call, work: Path, files_of: Files) -> None:
    first = call("demo", "--seeds", "1", "--epochs", "2", "--output", "shown")
    assert first.code == 0
    for text in ("| ERM", "| MFW ", "| MFW-DRW", "Best here:", "Points on the minor classes"):
        assert text in first.out, text
    assert "ERM, step 20, seed 0: 2 epochs" in first.err
    assert [path.name for path in work.iterdir()] == ["shown"]
    runs = files_of(Path("shown/runs"))
    assert len([name for name in runs if name.endswith("result.json")]) == 3
    for name in ("training-progress.png", "training-progress.svg", "comparison.md"):
        assert (Path("shown") / name).stat().st_size > 0
        assert name in first.out
    record = json.loads(runs["erm-epochs2-seed0/result.json"])
    assert record["data"]["counts"] == [100] * 5 + [5] * 5
    assert all(recall is not None for recall in record["curves"]["train_recall"])
    again = call("demo", "--seeds", "1", "--epochs", "2", "--output", "shown")
    assert (again.code, again.out, again.err) == (0, first.out, "")
    assert files_of(Path("shown/runs")) == runs


def test_the_demo_on_photographs_ends_with_a_report(call: Call, work: Path) -> None:
    answer = call("demo", "--photos", "--epochs", "1", "--output", "shown", "--quiet")
    assert answer.code == 0
    assert "Of the digit 3 there are 5 training images, of 1 90." in answer.out
    assert "Report: shown/photos/report.html" in answer.out
    assert "data:image/" in (work / "shown" / "photos" / "report.html").read_text()
    record = load_result(work / "shown" / "photos" / "runs" / "erm-epochs1-seed0").record
    assert (record.data.classes, record.data.counts) == (["1", "0", "5", "2", "3"], [90, 45, 22, 11, 5])
    assert record.data.test == 125
    again = call("demo", "--photos", "--epochs", "1", "--output", "shown", "--quiet")
    assert (again.code, again.out) == (0, answer.out)


def test_the_photographs_say_where_they_are_from() -> None:
    packed = files("procrustean.data").joinpath("photographs")
    assert len(packed.joinpath("hands.zip").read_bytes()) < 1_000_000
    notice = packed.joinpath("NOTICE").read_text()
    assert notice == (Path(__file__).parents[2] / "NOTICE").read_text()
    assert "github.com/ardamavi/Sign-Language-Digits-Dataset" in notice


def test_an_interrupted_demo_goes_on(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = call("demo", "--seeds", "1", "--epochs", "1", "--output", "whole", "--quiet")
    assert answer.code == 0

    class AtOnce:
        exit_code = 130

        def __call__(self) -> bool:
            return True

    with monkeypatch.context() as patched:
        patched.setattr("procrustean.runs.many_runs.stop_on_signal", lambda say: nullcontext(AtOnce()))
        stopped = call("demo", "--seeds", "1", "--epochs", "1", "--output", "shown", "--quiet")
    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err == "procrustean: stopped and saved; give the same command again to go on\n"
    resumed = call("demo", "--seeds", "1", "--epochs", "1", "--output", "shown", "--quiet")
    assert resumed.code == 0
    for path in Path("whole/runs").iterdir():
        other = Path("shown/runs") / path.name
        assert (path / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


def test_a_demo_folder_that_cannot_be_written(call: Call) -> None:
    Path("shown").write_text("precious")
    answer = call("demo", "--seeds", "1", "--epochs", "1", "--output", "shown", "--quiet")
    assert (answer.code, answer.out) == (2, "")
    assert "cannot write into shown" in answer.err
    assert Path("shown").read_text() == "precious"


# As a program


def test_a_command_that_saves_nothing_and_is_stopped(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*arguments: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("procrustean.runs.inspect_source.inspect_source", stopped)
    answer = call("inspect", "digits")
    assert (answer.code, answer.out, answer.err) == (130, "", "procrustean: stopped at once\n")


def test_a_reader_may_stop_reading(work: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "procrustean", "list", "sources"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    messages = process.stderr.read().decode()
    process.wait()
    assert "Traceback" not in messages


@pytest.mark.parametrize(
    ("methods", "message"),
    [("[erm, mwf]", "there is no method 'mwf'. Did you mean 'mfw'"), ("[erm, auto]", "method auto compares methods")],
)
def test_a_grid_with_a_wrong_method_trains_nothing(call: Call, npz: Path, methods: str, message: str) -> None:
    Path("grid.yaml").write_text(f"base: {{source: {npz}, net: small, epochs: 1}}\ngrid: {{method: {methods}}}\n")
    answer = call("fleet", "grid.yaml", "--output", "out")
    assert answer.code == 2
    assert message in answer.err
    assert not Path("out").exists()


def test_choices_take_hyphens_for_underscores(call: Call) -> None:
    flags = ("--rho", "20", "--augment", "pad-crop-flip", "--dry-run")
    answer = call("train", "digits", "--imbalance", "long-tailed", *flags)
    assert answer.code == 0, answer.err
    assert "imbalance: long_tailed\n" in answer.out
    assert "augment: pad_crop_flip\n" in answer.out


@pytest.mark.parametrize(
    ("command", "closed", "code"),
    [
        ("--version", ">&-", 0),
        ("list methods mfx", "<&- >&- 2>&-", 2),
    ],
)
def test_streams_may_be_closed(command: str, closed: str, code: int) -> None:
    """A program that is started so has no stdout or stderr at all, where a file would else take their place."""
    program = f"exec {sys.executable} -m procrustean {command} {closed}"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")

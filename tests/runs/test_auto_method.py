from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from procrustean import export, fit, load_model
from procrustean.base import Claim, ConfigError, RunError, RunInUse
from procrustean.base.errors import Diverged
from procrustean.records import group_results
from procrustean.records.finding_runs import runs_in
from procrustean.records.run_record import Result, RunRecord
from procrustean.records.several_runs import choices, read_comparison
from procrustean.runs import auto_method as auto
from procrustean.runs import evaluate, fit_many
from procrustean.runs.many_runs import Outcome
from procrustean.runs.method_advice import MethodChoice

Call = Callable[..., Any]

THREE = [MethodChoice("erm", True), MethodChoice("erm", False), MethodChoice("mfw", False, (("alpha", 0.2),))]


@pytest.fixture(autouse=True)
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "COMPARED", THREE)


def settings(folder: Path, **more: Any) -> dict[str, Any]:
    return {"method": "auto", "epochs": 6, "device": "cpu", "run_dir": str(folder), **more}


def test_the_best_on_held_out_images_is_kept(colours: Path, tmp_path: Path) -> None:
    run = fit(str(colours), **settings(tmp_path / "all"), minutes=5)
    record = json.loads((tmp_path / "all" / "auto.json").read_text())
    judged = {row["name"]: row["held_out_balanced_accuracy"] for row in record["compared"]}
    assert list(judged) == ["erm-drw", "erm", "mfw-alpha-0.2"]
    assert record["chosen"] == run.path.name == max(judged, key=lambda name: judged[name])
    for name, value in judged.items():
        result = json.loads((tmp_path / "all" / name / "result.json").read_text())
        assert result["curves"]["held_out_balanced_accuracy"][-1] == value
        assert result["recipe"]["epochs"] == 6
        assert result["config"]["options"] == ({"alpha": 0.2} if name == "mfw-alpha-0.2" else {})
    assert evaluate(run.path) == run.metrics
    model = load_model(tmp_path / "all", device="cpu")
    assert model.spec.label == run.record.label
    card = (export(tmp_path / "all", output=tmp_path / "model").folder / "README.md").read_text()
    assert "Methods by balanced accuracy on the held-out images: erm-drw" in card
    assert f"{record['chosen']} was chosen." in card


def test_the_worse_half_is_left_behind_after_a_short_training(
    colours: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = {"erm-drw": 0.5, "erm": 0.7, "mfw-alpha-0.2": 0.6}

    def accuracies(records: list[RunRecord]) -> tuple[float, float]:
        (record,) = records
        name = "mfw-alpha-0.2" if record.config.method == "mfw" else "erm" + "-drw" * record.config.drw
        return judged[name] + record.recipe.epochs / 100, 0.0

    monkeypatch.setattr(auto, "held_out_accuracies", accuracies)
    arguments = ("train", colours, "--method", "auto", "--epochs", "21", "--run-dir", "all", "--device", "cpu")
    answer = call(*arguments, "--minutes", "5")
    assert answer.code == 0, answer.err
    assert "3 candidates for 10 epochs each; the better half goes on" in answer.err
    assert "erm-drw: held-out balanced accuracy 60.0 %, left behind after 10 epochs\n" in answer.err
    assert "erm: held-out balanced accuracy 91.0 %, chosen\n" in answer.err
    record = read_comparison(Path("all"))
    assert record is not None
    assert [(row.name, row.epochs) for row in record.compared] == [
        ("erm-drw", 10),
        ("erm", None),
        ("mfw-alpha-0.2", None),
    ]
    assert not Path("all/erm-drw").exists()
    assert [path.name for path in runs_in(Path("all"))] == ["erm", "mfw-alpha-0.2"]
    card = (export(Path("all"), output=Path("model")).folder / "README.md").read_text()
    assert "erm-drw 60.0 % (left behind after 10 epochs); erm 91.0 %" in card
    again = call(*arguments, "--minutes", "4", "--quiet")
    assert (again.code, again.out) == (0, answer.out)


def test_what_a_short_training_said_stays_where_there_is_no_time_for_the_whole(
    colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_left = iter([True, True, False])  # for two more short trainings, and not for a second whole one
    monkeypatch.setattr(auto.TimeBox, "leaves", lambda self, seconds: next(time_left))
    fit(str(colours), **settings(tmp_path / "all", epochs=21), minutes=5)
    record = read_comparison(tmp_path / "all")
    assert record is not None
    assert {row.name: row.epochs for row in record.compared if row.name != record.chosen} == dict.fromkeys(
        {"erm-drw", "erm", "mfw-alpha-0.2"} - {record.chosen}, 10
    )
    assert record.verdict == f"{record.chosen} was chosen."


def test_a_busy_machine_gets_fewer_epochs(colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "measured_speed", lambda *settings: 20.0)
    arguments = {name: value for name, value in settings(tmp_path / "all").items() if name != "epochs"}
    fit(str(colours), **arguments, minutes=0.5)
    record = read_comparison(tmp_path / "all")
    assert record is not None
    assert record.config.epochs == 1


def test_methods_are_not_compared_on_images_of_one_class_alone(colours: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the 20 held-out images are all of the class red, and to choose on them"):
        fit(str(colours), **settings(tmp_path / "all"), hold_out=20)
    assert not (tmp_path / "all").exists()  # so that the same folder takes the next call


def test_it_says_when_the_images_cannot_tell_the_best_apart(
    colours: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "held_out_accuracies", lambda records: (1.0, 1.0))
    arguments = ("train", colours, "--method", "auto", "--epochs", "1", "--run-dir", "all", "--device", "cpu")
    answer = call(*arguments)
    assert answer.code == 0, answer.err
    said = (
        "Tied with it in the last epoch: erm; mfw-alpha-0.2; it was taken because it was tried first of those with the "
        "same mean over the last tenth, too. One standard error of an accuracy on these images is up to 4.9 points. "
        "These images cannot tell them apart"
    )
    assert f"erm-drw was chosen. Judged on 24 held-out images. {said}" in answer.err
    assert f"erm-drw was chosen. {said}" in answer.out
    found = read_comparison(Path("all"))
    assert found is not None
    assert (found.ties, found.within_one_standard_error) == (["erm", "mfw-alpha-0.2"], [])
    assert said in (export(Path("all"), output=Path("model")).folder / "README.md").read_text()


def test_classes_without_a_held_out_image_have_no_vote(tmp_path: Path) -> None:
    run = fit("digits", **settings(tmp_path / "all", imbalance="step", rho=50, epochs=1), minutes=5)
    record = json.loads((tmp_path / "all/auto.json").read_text())
    none = [name for name, n in zip(run.record.data.classes, run.record.data.held_out_counts, strict=True) if n == 0]
    assert record["without_a_vote"] == none != []
    assert record["worth"].endswith("Without a say, because they have no held-out image: 5, 6, 7, 8, 9.")


def test_going_on_repeats_nothing(colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "all"
    first = fit(str(colours), **settings(folder), minutes=5)
    times = {path: path.stat().st_mtime_ns for path in folder.glob("*/result.json")}
    shutil.rmtree(folder / "mfw-alpha-0.2")
    again = fit(str(colours), **settings(folder), minutes=3)
    assert again.metrics == first.metrics
    assert all(path.stat().st_mtime_ns == times[path] for path in times if path.parent.name != "mfw-alpha-0.2")
    monkeypatch.chdir(colours.parent)  # the same folder by another path
    assert fit(f"{colours.name}/", **settings(folder), minutes=3).metrics == first.metrics
    with pytest.raises(RunError, match="was begun with other settings: epochs is 6 there and 7 here"):
        fit(str(colours), **settings(folder, epochs=7), minutes=3)


def test_candidates_on_images_that_have_changed_since_are_not_compared(colours: Path, tmp_path: Path) -> None:
    folder, images = tmp_path / "all", tmp_path / "images"
    shutil.copytree(colours, images)
    fit(str(images), **settings(folder, epochs=1), minutes=5)
    shutil.rmtree(folder / "mfw-alpha-0.2")
    before = json.loads((folder / "auto.json").read_text())
    next(images.rglob("*.png")).unlink()
    with pytest.raises(RunError, match=r"erm-drw was trained on other images than .* holds now"):
        fit(str(images), **settings(folder, epochs=1), minutes=5)
    assert not (folder / "mfw-alpha-0.2").exists()
    assert json.loads((folder / "auto.json").read_text()) == before


def test_what_does_not_fit_into_the_time_is_named(
    colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto.TimeBox, "leaves", lambda self, seconds: False)
    folder = tmp_path / "all"
    run = fit(str(colours), **settings(folder), minutes=2)
    record = json.loads((folder / "auto.json").read_text())
    values = [row["held_out_balanced_accuracy"] for row in record["compared"]]
    assert [value is None for value in values] == [False, True, True]
    assert run.path.name == record["chosen"]
    card = (export(folder, output=tmp_path / "model").folder / "README.md").read_text()
    assert "erm-drw is kept as the only method that was trained to the end; nothing was compared." in card
    assert "was chosen" not in card
    assert not any(choices(group_results([Result(run.record, run.path / "result.json")])).values())


def test_what_a_training_as_long_as_usual_takes_is_told(
    colours: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto, "measured_speed", lambda *given: 350.0)  # images a second: time for 20 epochs each
    arguments = ("train", colours, "--method", "auto", "--device", "cpu")
    answer = call(*arguments, "--minutes", "0.5", "--run-dir", "all")
    assert answer.code == 0, answer.err
    record = json.loads(Path("all/auto.json").read_text())
    said = " ".join(answer.err.split())
    found = re.search(r"\S+ for as long as one training takes: the same settings with (.*?) in place", said)
    assert found is not None, said
    printed = call("train", colours, *found[1].split(), "--device", "cpu", "--dry-run")
    assert printed.code == 0, printed.err
    length = re.search(r"^epochs: (\d+)", printed.out, re.MULTILINE)
    assert length is not None
    assert int(length[1]) > record["config"]["epochs"]
    assert "as long as one" not in call(*arguments, "--epochs", "1", "--run-dir", "short").err


def test_no_time_at_all(colours: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no method was trained to the end within 1e-05 min"):
        fit(str(colours), **settings(tmp_path / "all"), minutes=1e-5)
    with pytest.raises(RunError, match="not compared to the end"):
        load_model(tmp_path / "all")
    assert fit(str(colours), **settings(tmp_path / "all"), minutes=5).path.parent == tmp_path / "all"


def test_a_known_data_set_can_be_compared_on_too(tmp_path: Path) -> None:
    made = {"imbalance": "step", "rho": 20, "epochs": 1}
    run = fit("digits", **settings(tmp_path / "all", **made), minutes=5)
    assert run.record.data.held_out > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"minutes": 0}, "minutes = 0 received"),
        ({"drw": True}, "tries methods with and without drw"),
        ({"options": {"alpha": 1.0}}, r"options \(alpha\) received without the method"),
        ({"method": "erm", "net": "small", "minutes": 3}, "only trainings .* keep to a time; give fewer --epochs"),
    ],
)
def test_wrong_settings(more: dict[str, Any], message: str, colours: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        fit(str(colours), **{**settings(tmp_path / "all"), **more})
    assert not (tmp_path / "all").exists()


def test_from_the_command_line(colours: Path, call: Call) -> None:
    answer = call(
        *("train", colours, "--method", "auto", "--minutes", "5", "--epochs", "2"),
        *("--run-dir", "all", "--device", "cpu"),
    )
    assert answer.code == 0, answer.err
    assert re.search(r"held-out balanced accuracy [\d.]+ %, chosen", answer.err)
    assert " %, kept in all" in answer.err
    assert not re.search(r"test (balanced )?accuracy", answer.err)  # nobody is led to choose by the test images
    assert answer.out.count("| ERM") == 2  # all that was compared is shown


def test_one_process_at_a_time(colours: Path, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    fit(str(colours), **settings(folder), minutes=5)
    (folder / "erm/result.json").unlink()
    claim = Claim(folder / "erm")
    with pytest.raises(RunInUse, match="erm is being trained by another process"):
        fit(str(colours), **settings(folder), minutes=5)
    claim.release()
    claim = Claim(folder)
    with pytest.raises(RunInUse, match="all is being trained by another process"):
        fit(str(colours), **settings(folder), minutes=5)
    claim.release()


def test_a_method_that_diverges_does_not_end_the_comparison(
    colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverged = {"erm-drw"}

    def diverging(plans: list[Any], **settings: Any) -> list[Outcome]:
        path = plans[0].config.run_dir
        if path.name in diverged:
            return [Outcome(path, None, Diverged("non-finite loss in epoch 2"))]
        return fit_many(plans, **settings)

    monkeypatch.setattr(auto, "fit_many", diverging)
    run = fit(str(colours), **settings(tmp_path / "all"), minutes=5)
    record = json.loads((tmp_path / "all/auto.json").read_text())
    assert record["chosen"] == run.path.name != "erm-drw"
    assert record["compared"][0] == {
        "name": "erm-drw",
        "held_out_balanced_accuracy": None,
        "failed": "non-finite loss in epoch 2",
    }
    diverged |= {choice.name for choice in THREE}
    with pytest.raises(
        RunError, match=r"no method was trained to the end .*; erm-drw: non-finite .* with another --run-dir"
    ):
        fit(str(colours), **settings(tmp_path / "none"), minutes=5)


def test_a_folder_with_the_leftover_of_a_kill_is_taken(colours: Path, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all/.auto.json.7.tmp").write_text("{")
    fit(str(colours), **settings(tmp_path / "all"), minutes=5)
    assert not (tmp_path / "all/.auto.json.7.tmp").exists()


def test_tables_and_reports_show_what_was_chosen(colours: Path, call: Call, tmp_path: Path) -> None:
    arguments = (
        "train",
        colours,
        "--method",
        "auto",
        "--epochs",
        "2",
        "--run-dir",
        "all",
        "--device",
        "cpu",
        "--quiet",
    )
    assert call(*arguments).code == 0
    record = json.loads(Path("all/auto.json").read_text())
    # Another than the best on the test set is the choice, and the last in the order of folders.
    record["chosen"] = "mfw-alpha-0.2"
    Path("all/auto.json").write_text(json.dumps(record))
    shown = call("compare", "all").out
    rows = [line for line in shown.splitlines() if line.startswith("| ") and "method" not in line]
    assert rows[0].startswith("| MFW, chosen ")
    assert "chosen" not in rows[1] + rows[2]
    held_out = {row["name"]: f"{100 * row['held_out_balanced_accuracy']:.1f}" for row in record["compared"]}
    assert rows[0].split("|")[2].strip(" *") == held_out["mfw-alpha-0.2"]
    assert all("**" not in "|".join(row.split("|")[3:]) for row in rows)
    assert "test results had no say" in shown
    alone = ("--method", "focal", "--epochs", 2, "--run-dir", "alone", "--quiet")
    assert call("train", colours, *alone).code == 0
    together = call("compare", "all", "alone")
    assert together.code == 0
    assert "chosen" not in together.out  # which was never compared with it
    assert call("report", "all", "--examples", "0", "--quiet").code == 0
    assert "MFW, chosen" in Path("report.html").read_text()
    assert ",1,0,MFW," in call("compare", "all", "--format", "csv").out  # programs find the method by its name

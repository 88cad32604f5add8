from __future__ import annotations

import csv
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from coloured_pictures import write_folder
from procrustean import evaluate, export, fit, load_model, predict
from procrustean.base import ConfigError, DataError, RunError
from procrustean.data import load_source
from procrustean.deploy.model_loading import held_out_of
from procrustean.deploy.thresholds import thresholds_of
from procrustean.runs import load_run

Call = Callable[..., Any]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_model_needs_neither_its_images_nor_its_place(run: Path, colours: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(run, tmp_path / "moved")
    record = json.loads((moved / "config.json").read_text())
    record["source_path"] = "/nowhere"
    (moved / "config.json").write_text(json.dumps(record))
    model = load_model(moved, device="cpu")
    test = load_source(str(colours)).test
    found = [model.classes[c] for c in model.probabilities(test.images).argmax(1)]
    right = np.mean([name == test.classes[label] for name, label in zip(found, test.labels, strict=True)])
    assert right == pytest.approx(evaluate(run).accuracy)


def test_its_scores_are_those_of_the_run(run: Path) -> None:
    prepared, net = load_run(run)
    images = prepared.data.test.images
    from procrustean.engine.stored_calibration import scores_of

    expected, _ = scores_of(prepared, net, prepared.data.test)
    assert load_model(run, device="cpu").scores(images) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("method", ["tau_norm", "bbn"])
def test_methods_that_change_the_network_are_loaded_too(method: str, colours: Path, tmp_path: Path) -> None:
    trained = fit(str(colours), method=method, epochs=4, net="resnet20", device="cpu", run_dir=str(tmp_path / "run"))
    images = load_source(str(colours)).test.images
    prepared, net = load_run(trained.path)
    from procrustean.engine.stored_calibration import scores_of

    expected, _ = scores_of(prepared, net, prepared.data.test)
    found = load_model(trained.path, device="cpu").scores(images)
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()  # bf16 there, float32 here


def test_cosines_without_calibration_are_scaled_as_the_loss_scales_them(tmp_path: Path) -> None:
    settings = {"imbalance": "long_tailed", "rho": 20, "epochs": 8, "device": "cpu"}
    run = fit("digits", method="ldam", options={"scale": 20.0}, run_dir=str(tmp_path / "run"), **settings)
    model, test = load_model(run.path, device="cpu"), load_run(run.path)[0].data.test
    assert model.spec.calibration.scale == 20
    even = np.full(10, 0.1)
    right = [(model.probabilities(test.images, prior).argmax(1) == test.labels).mean() for prior in (None, even)]
    assert right[1] > right[0] - 0.1  # against bare cosines, from -1 to 1, the prior alone decided


def test_defaults_of_the_data_set_are_those_of_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from procrustean.methods.deconfound import ALPHA

    monkeypatch.setitem(ALPHA, "digits", 3.0)  # as CIFAR-100 and ImageNet-LT have one of their own
    options = {"tde": True}
    run = fit("digits", method="deconfound", options=options, epochs=1, device="cpu", run_dir=str(tmp_path / "run"))
    assert load_model(run.path, device="cpu").net.head.effect == 3.0
    exported = export(run.path, output=tmp_path / "exported")
    assert load_model(exported.folder, device="cpu").net.head.effect == 3.0


def test_probabilities_and_batches(run: Path, colours: Path) -> None:
    model = load_model(run, device="cpu")
    images = load_source(str(colours)).test.images
    found = model.probabilities(images)
    assert found.sum(axis=1) == pytest.approx(1)
    assert model.probabilities(images, batch_size=5) == pytest.approx(found, abs=1e-6)
    assert (found.argmax(1) == model.scores(images).argmax(1)).all()
    again = pickle.loads(pickle.dumps(model))
    assert again.probabilities(images) == pytest.approx(found)
    assert model.probabilities(images[:0]).shape == (0, 3)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_single_path_is_as_good_as_a_list_of_it(kind: type, run: Path, colours: Path) -> None:
    image = colours / "test" / "red" / "000.png"
    assert list(predict(run, kind(image))) == list(predict(run, [image]))
    assert len(list(predict(run, kind(colours / "test")))) == 24
    with pytest.raises(DataError, match="an empty path received"):
        predict(run, "")


def test_a_prior_moves_probabilities_towards_its_classes(run: Path, colours: Path) -> None:
    path = [colours / "test"]
    shares = {}
    for name, prior in {"own": None, "balanced": "balanced", "red": {"red": 0.98, "green": 0.01, "blue": 0.01}}.items():
        found = list(predict(run, path, prior=prior, top=3, device="cpu"))
        shares[name] = np.mean([dict(zip(f.classes, f.probabilities, strict=True))["red"] for f in found])
        assert all(sum(f.probabilities) == pytest.approx(1) for f in found)
    assert shares["red"] > max(shares["own"], shares["balanced"])


def test_the_csv_file(run: Path, colours: Path, call: Call, tmp_path: Path) -> None:
    single = colours / "test" / "red" / "000.png"
    answer = call("predict", run, colours / "test", single, "--output", "p.csv", "--top", "2", "--device", "cpu")
    assert answer.code == 0, answer.err
    assert "25 of 25 images classified" in answer.err
    found = rows(Path("p.csv"))
    assert list(found[0]) == ["file", "class", "probability", "class_2", "probability_2", "problem"]
    assert [Path(row["file"]).parent.name for row in found] == ["blue"] * 8 + ["green"] * 8 + ["red"] * 9
    assert all(float(row["probability"]) >= float(row["probability_2"]) for row in found)
    right = np.mean([row["class"] == Path(row["file"]).parent.name for row in found[:24]])
    assert right == pytest.approx(evaluate(run).accuracy)


def test_the_terminal_gets_the_rows_without_output(run: Path, colours: Path, call: Call) -> None:
    answer = call("predict", run, colours / "test" / "red" / "000.png", "--top", "9", "--device", "cpu")
    heading, row = answer.out.splitlines()
    assert heading.count("probability") == 3  # there are no more classes
    assert row.startswith(str(colours))


def test_files_that_cannot_be_read_are_named_and_the_others_classified(
    run: Path, colours: Path, call: Call, tmp_path: Path
) -> None:
    folder = tmp_path / "new"
    (folder / "deeper").mkdir(parents=True)
    shutil.copy(colours / "test" / "red" / "000.png", folder / "deeper" / "good.png")
    (folder / "broken.png").write_bytes(b"\x89PNG nothing")
    (folder / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic")
    (folder / "notes.txt").touch()
    (folder / ".hidden.png").touch()
    answer = call("predict", run, folder, "--output", "p.csv", "--device", "cpu")
    assert answer.code == 1
    assert "1 of 3 images classified" in answer.err
    assert "skipped, since they are no images: 1 file" in answer.err
    broken, good, phone = rows(Path("p.csv"))
    assert broken["problem"] == "not an image"
    assert phone["problem"].startswith(("not supported: HEIC, save it as PNG or JPEG", "damaged"))
    assert broken["class"] == ""
    assert good["class"] == "red"


def test_of_many_files_that_cannot_be_read_the_rest_is_counted(run: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "lost").mkdir()
    for number in range(7):
        (tmp_path / "lost" / f"{number}.png").touch()
    answer = call("predict", run, "lost", "--output", "out.csv")
    assert answer.code == 1
    assert answer.err.count("could not be read; see the column problem") == 5
    assert "and 2 more; all of them stand in out.csv, with the reason in the column problem" in answer.err
    assert "all of them stand in the table above" in call("predict", run, "lost").err


def test_the_content_of_a_file_counts_and_not_its_ending(run: Path, colours: Path, call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    for name in ("good", "good.txt", "good.jpg_large"):
        shutil.copy(colours / "test" / "red" / "000.png", folder / name)
    (folder / "cut.data").write_bytes((folder / "good").read_bytes()[:-30])
    (folder / "label.xml").write_text("<class>red</class>")
    (folder / "nothing").touch()
    (folder / "lost").symlink_to("lost")
    answer = call("predict", run, folder, "--output", "p.csv", "--device", "cpu")
    assert "3 of 5 images classified" in answer.err
    assert "skipped, since they are no images: 2 files" in answer.err
    found = {Path(row["file"]).name: row for row in rows(Path("p.csv"))}
    assert list(found) == ["cut.data", "good", "good.jpg_large", "good.txt", "lost"]
    assert [found[name]["class"] for name in ("good", "good.jpg_large", "good.txt")] == ["red"] * 3
    assert found["cut.data"]["problem"].startswith("damaged")
    assert found["lost"]["problem"] == "Too many levels of symbolic links"


def test_links_that_lead_back_are_not_followed(run: Path, colours: Path, call: Call, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "new", tmp_path / "elsewhere"
    for place in (folder / "deep" / "deeper", elsewhere):
        place.mkdir(parents=True)
        shutil.copy(colours / "test" / "red" / "000.png", place / "good.png")
    (folder / "a").symlink_to("deep")  # before what it leads to
    (folder / "deep" / "around").symlink_to("..")
    (folder / "deep" / "up").symlink_to(tmp_path)
    (folder / "linked").symlink_to(elsewhere)  # leads somewhere else: followed
    (elsewhere / "again").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(folder / "deep")
    (folder / "linked too").symlink_to(elsewhere)
    answer = call("predict", run, folder, "--output", "p.csv", "--device", "cpu")
    assert answer.code == 0
    found = [str(Path(row["file"]).relative_to(folder)) for row in rows(Path("p.csv"))]
    assert found == ["deep/deeper/good.png", "linked/good.png"]


def test_pictures_of_any_size_and_mode(run: Path, tmp_path: Path) -> None:
    pixels = np.zeros((30, 50), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "grey.png")
    Image.fromarray(pixels).convert("CMYK").save(tmp_path / "ink.jpg")
    found = list(predict(run, [tmp_path], device="cpu"))
    assert [row.problem for row in found] == ["", ""]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "nowhere", "."), "There is no run or export at nowhere"),
        (("predict", "RUN", ""), "an empty path received"),
        (("predict", "RUN", "nowhere.png"), "nowhere.png: there is no such file or folder"),
        (("predict", "RUN", "empty"), "empty: holds no images"),
        (("predict", "RUN", "RUN", "--prior", "even"), "accepted: balanced, train"),
        (("predict", "RUN", "RUN", "--top", "0"), "top = 0"),
        (("predict", "RUN"), "no path: holds no images"),
        (("predict", "empty", "."), "empty has no model.safetensors: it is not the folder of a finished run"),
        (("thresholds", "RUN"), "either a precision or a recall"),
        (("thresholds", "RUN", "--recall", "2"), "recall = 2.0 received"),
    ],
)
def test_wrong_input_is_named(arguments: tuple[str, ...], message: str, run: Path, call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    answer = call(*(run if argument == "RUN" else argument for argument in arguments))
    assert answer.code == 2
    assert message in answer.err


def test_a_run_that_is_not_finished_is_told_from_a_folder_that_is_none(run: Path, call: Call, tmp_path: Path) -> None:
    begun = shutil.copytree(run, tmp_path / "begun")
    (begun / "model.safetensors").unlink()
    assert "it is not the folder of a finished run with its weights" in call("predict", begun, ".").err
    (begun / "result.json").unlink()
    answer = call("predict", begun, ".")
    assert answer.code == 2
    assert f"the run is not finished; go on with: procrustean resume {begun}" in answer.err


def test_the_folder_around_a_run_names_the_run(run: Path, call: Call, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "runs" / "first")
    answer = call("predict", "runs", ".")
    assert answer.code == 2
    assert "runs has no model.safetensors: it holds 1 run; name one of them, such as runs/first" in answer.err


def test_a_run_without_held_out_images_is_not_calibrated(colours: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(colours, tmp_path / "colours")
    shutil.rmtree(folder / "val")
    said: list[str] = []
    for method, tau in (("erm", 0.0), ("balanced_softmax", 1.0)):
        trained = fit(str(folder), method=method, epochs=1, hold_out=0, device="cpu", run_dir=str(tmp_path / method))
        assert trained.record.calibration is None
        model = load_model(trained.path, device="cpu")
        assert (model.spec.calibration.scale, model.spec.calibration.tau) == (1.0, tau)
        for prior in (None, "balanced"):
            list(predict(model, [folder / "test"], prior=prior, say=said.append))
        with pytest.raises(RunError, match="has kept no scores of held-out images"):
            thresholds_of(trained.path, recall=0.5)
    assert all(text.startswith("not calibrated") for text in said)
    # A loss with the class sizes in it has taken all of them out of the scores: only of other methods it is not known.
    assert ["the prior may do so a second time" in text for text in said] == [False, True, False, False]


def test_held_out_images_of_one_class_alone_are_not_called_none(colours: Path, tmp_path: Path, call: Call) -> None:
    folder = shutil.copytree(colours, tmp_path / "colours")
    shutil.rmtree(folder / "val")
    trained = call("train", folder, "--method", "erm", "--epochs", 1, "--hold-out", 20, "--run-dir", "one")
    assert "up to 20 images of each class held out" in trained.out
    assert "the run had no held-out images of at least two classes" in call("predict", "one", folder / "test").err
    assert "was trained with none of at least two classes" in call("thresholds", "one", "--recall", 0.5).err
    call("export", "one", "--output", "model")
    assert "no images of at least two classes were held out" in Path("model/README.md").read_text()


def test_an_export_of_a_run_that_is_not_calibrated_says_what_predict_says(
    colours: Path, tmp_path: Path, call: Call
) -> None:
    folder = shutil.copytree(colours, tmp_path / "colours")
    shutil.rmtree(folder / "val")
    twice = "the prior may do so a second time"
    unknown = (
        "which are not known, between those of the training images (red 66.7 %, green 22.2 %, blue 11.1 %) and equal"
    )
    for method, known in (("class_balanced", False), ("balanced_softmax", True)):
        fit(str(folder), method=method, epochs=1, hold_out=0, device="cpu", run_dir=str(tmp_path / method))
        for prior in ((), ("--prior", "balanced")):
            output = tmp_path / f"{method}{len(prior)}"
            answer = call("export", method, "--output", output, *prior)
            assert answer.code == 0, answer.err
            said: list[str] = []
            list(predict(method, [folder / "test" / "red"], prior=prior[1] if prior else None, say=said.append))
            assert said[0] in " ".join(answer.err.split())
            # An export with the frequencies built in is used without naming them.
            again: list[str] = []
            list(predict(output, [folder / "test" / "red"], say=again.append))
            assert again == said
            card = (output / "README.md").read_text()
            assert (twice in card) == (twice in answer.err) == (bool(prior) and not known)
            assert (unknown in card) == (not prior and not known)


@pytest.mark.parametrize(("tau", "told"), [(1.47, True), (-0.3, True), (1.1, False), (-0.1, False)])
def test_class_frequencies_beyond_what_methods_do_are_told(
    tau: float, told: bool, run: Path, colours: Path, tmp_path: Path, call: Call
) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    result = json.loads((copy / "result.json").read_text())
    result["calibration"]["tau"] = tau
    (copy / "result.json").write_text(json.dumps(result))
    said = (
        f"is {tau:.2f}, found on 24 held-out images, which are too few, or the network fits them too badly: the class"
    )
    image = colours / "test" / "red" / "000.png"
    for number, prior in enumerate(((), ("--prior", "balanced"))):
        expected = told and not prior
        for folder in (copy, tmp_path / f"exported{number}"):
            given = prior if folder == copy else ()  # built into the export
            if folder != copy:
                answer = call("export", copy, "--output", folder, *prior)
                assert (said in " ".join(answer.err.split())) == expected
                limits = (folder / "README.md").read_text().split("## Limits")[1]
                assert (f"- Tau, as a rule between 0 and 1, {said}" in limits) == expected
            assert (said in " ".join(call("predict", folder, image, *given).err.split())) == expected
            shown = " ".join(call("thresholds", folder, "--recall", "0.9", *given).out.split())
            assert (said in shown) == expected


def test_a_class_that_was_never_held_out_is_named_where_a_prior_gives_it_a_share(
    colours: Path, tmp_path: Path, call: Call
) -> None:
    write_folder(tmp_path / "photos", {"red": 30, "green": 12, "blue": 3}, seed=5)
    settings = {"method": "erm", "epochs": 2, "hold_out": 0.2, "device": "cpu", "net": "small"}
    trained = fit(str(tmp_path / "photos"), run_dir=tmp_path / "run", **settings).path
    said = "no images were held out of blue, which the prior takes for 33.3 % of the images"
    image = colours / "test" / "red" / "000.png"
    for folder, prior in ((trained, ("--prior", "balanced")), (tmp_path / "exported", ())):
        if folder != trained:
            assert said in " ".join(call("export", trained, "--output", folder, "--prior", "balanced").err.split())
            card = (folder / "README.md").read_text()
            assert f"- N{said[1:]}" in card.split("## Limits")[1]
            assert "held-out images, none of them of blue (temperature" in card
        assert said in " ".join(call("predict", folder, image, *prior).err.split())
        shown = " ".join(call("thresholds", folder, "--recall", "0.9", *prior).out.split())
        assert f"N{said[1:]}" in shown
        assert "Fewer than 30 held-out images of red, green, blue: their lines are rough, or empty." in shown
    assert said not in " ".join(call("predict", trained, image).err.split())


def test_thresholds_keep_what_they_promise(run: Path, call: Call) -> None:
    for row in thresholds_of(run, recall=0.75):
        assert row.recall is not None
        assert row.recall >= 0.75
        assert row.images == 8
    for row in thresholds_of(run, precision=0.9, prior="balanced"):
        assert row.precision is None or row.precision >= 0.9
    answer = call("thresholds", run, "--recall", "0.75")
    assert answer.code == 0
    assert "announce from" in answer.out
    assert "Fewer than 30 held-out images of" in answer.out


def test_thresholds_in_a_file(run: Path, call: Call) -> None:
    answer = call("thresholds", run, "--recall", "0.9", "--prior", "balanced", "--output", "t.csv")
    assert answer.code == 0, answer.err
    assert "| announce from |" in answer.out  # the table is shown as well
    scores, labels = held_out_of(run)
    model = load_model(run, device="cpu")
    p = np.exp(model.spec.calibration.log_probabilities(scores, np.full(3, 1 / 3)))
    found = rows(Path("t.csv"))
    assert list(found[0]) == ["class", "announce_from", "precision", "recall", "held_out_images", "prior"]
    for c, row in enumerate(found):
        assert row["class"] == model.classes[c]
        recall = np.mean(p[labels == c, c] >= float(row["announce_from"]))
        assert recall >= 0.9
        assert recall == pytest.approx(float(row["recall"]))
    assert "cannot write nowhere/t.csv" in call("thresholds", run, "--recall", "0.9", "--output", "nowhere/t.csv").err


def test_a_file_that_cannot_be_written_is_refused_before_any_image_is_classified(
    run: Path, colours: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("procrustean.deploy.model_loading.load_model", pytest.fail)
    answer = call("predict", run, colours, "--output", "nowhere/p.csv")
    assert (answer.code, answer.out) == (2, "")
    assert "cannot write nowhere/p.csv: there is no folder nowhere; choose another --output" in answer.err


def test_thresholds_of_a_file_are_applied(run: Path, colours: Path, call: Call) -> None:
    answer = call("thresholds", run, "--recall", "0.9", "--output", "t.csv")
    assert f"To apply them: procrustean predict {run} PATH --thresholds t.csv" in answer.out
    call(
        "predict", run, colours / "test", "--thresholds", "t.csv", "--top", "3", "--output", "p.csv", "--device", "cpu"
    )
    levels = {row["class"]: float(row["announce_from"]) for row in rows(Path("t.csv"))}
    for row in rows(Path("p.csv")):
        named = {row[f"class{n}"]: float(row[f"probability{n}"]) for n in ("", "_2", "_3")}
        assert row["announced"] == "; ".join(name for name, p in named.items() if p >= levels[name])
        assert list(row)[-2:] == ["announced", "problem"]
    (first, *_) = predict(run, [colours / "test"], thresholds=dict.fromkeys(levels, 0.0), device="cpu")
    assert set(first.announced) == set(levels)
    answer = call("predict", run, colours / "test", "--thresholds", "t.csv", "--output", "t.csv")
    assert answer.code == 2  # not over what it reads


def test_thresholds_for_other_class_frequencies_are_refused(run: Path, colours: Path, call: Call) -> None:
    def answer(made_with: tuple[str, ...], applied_with: tuple[str, ...]) -> Any:
        call("thresholds", run, "--recall", "0.9", *made_with, "--output", "t.csv")
        return call("predict", run, colours / "test", "--thresholds", "t.csv", *applied_with, "--output", "p.csv")

    balanced = ("--prior", "balanced")
    Path("even.csv").write_text("red,2\ngreen,2\nblue,2\n")
    Path("rare.csv").write_text("red,1\ngreen,2\nblue,7\n")
    for made_with, applied_with in (
        (balanced, ()),
        (("--prior", "train"), balanced),
        ((), balanced),
        (("--prior", "rare.csv"), ()),
    ):
        refused = answer(made_with, applied_with)
        assert refused.code == 2
        assert "give the --prior that they were made with" in refused.err
        assert "t.csv: thresholds for the class frequencies red 0." in refused.err
    assert not Path("p.csv").exists()
    assert answer(balanced, ("--prior", "even.csv")).code == 0  # the same frequencies under another name
    Path("t.csv").write_text("class,announce_from\nred,0.1\ngreen,0.1\nblue,0.1\n")
    for prior in (balanced, ()):  # a file by hand does not say what it is for
        assert call("predict", run, colours / "test", "--thresholds", "t.csv", *prior).code == 0


def test_images_of_the_wrong_shape(run: Path) -> None:
    with pytest.raises(DataError, match=r"this model takes uint8 \[N, 12, 12, 3\]"):
        load_model(run, device="cpu").scores(np.zeros((1, 8, 8, 3), np.uint8))


def test_a_mapping_as_prior_is_checked(run: Path, colours: Path) -> None:
    with pytest.raises(ConfigError, match="there is no class 'rde'"):
        predict(run, [colours], prior={"rde": 1.0})

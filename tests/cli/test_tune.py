from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import yaml

from procrustean import RunSpec
from procrustean.base import Claim
from procrustean.base.epochs import EpochRecord
from procrustean.base.json_files import read_typed, to_plain
from procrustean.base.progress import Reporter
from procrustean.runs import tune as run_tune
from procrustean.runs.tuning import Study

Call = Callable[..., Any]
TINY = ("--net", "small", "--epochs", "2", "--batch-size", "16", "--device", "cpu", "--precision", "fp32")


@pytest.fixture
def tune(npz: Path, call: Call) -> Call:
    def run(*arguments: object) -> Any:
        return call("tune", npz, *TINY, "--hold-out", 2, "--output", "t", *arguments)

    return run


def study() -> dict[str, Any]:
    """What the search has kept, with what it left out for being nothing."""
    found = read_typed(Path("t/tuning.json"), Study, "")
    return {name: to_plain(getattr(found, name)) for name in found.__struct_fields__}


def configs(folder: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text())["config"] for path in sorted(Path("t", folder).glob("*/result.json"))]


def test_chosen_on_held_out_images_then_trained_on_all(tune: Call) -> None:
    answer = tune("--method", "mfw", "--over", "alpha=0.5,2", "--quiet")
    assert answer.code == 0, answer.err
    tried = configs("candidates")
    assert [(c["options"]["alpha"], c["hold_out"]) for c in sorted(tried, key=lambda c: c["options"]["alpha"])] == [
        (0.5, 2),
        (2.0, 2),
    ]
    (final,) = configs("final")
    (calibrated,) = (json.loads(path.read_text())["calibration"] for path in Path("t/final").glob("*/result.json"))
    assert calibrated["images"] == 8  # the held-out ones, by the best candidate
    record = study()
    assert final["hold_out"] == 0
    assert final["options"] == record["chosen"]
    scores = {score["options"]["alpha"]: score["last"] for score in record["scores"]}
    assert scores[record["chosen"]["alpha"]] == max(scores.values())
    assert record["held_out_images"] == 8
    assert "held-out images" in answer.out
    assert "One standard error of an accuracy on these images is up to" in answer.out
    assert "| MFW " in answer.out
    # Markdown takes a line without a blank one before it for a row of the table, or for the end of the paragraph.
    assert "|\n\nChosen: alpha=" in answer.out
    assert ":\n\n**Test accuracy in %" in answer.out


def test_of_values_that_tie_completely_the_first_is_taken(tune: Call) -> None:
    # All guess the same class after so few steps at so low a rate.
    answer = tune("--method", "mfw", "--over", "alpha=0.5,2,1", "--lr", 1e-9, "--final-seeds", 0, "--quiet")
    assert answer.code == 0, answer.err
    assert len(study()["ties"]) == 2
    assert study()["chosen"] == {"alpha": 0.5}
    assert "it was taken because it was tried first" in answer.out


def test_a_share_of_each_class_may_decide(tune: Call) -> None:
    answer = tune("--method", "mfw", "--over", "alpha=0.5,2", "--final-seeds", 0, "--hold-out", 0.25)
    assert answer.code == 0, answer.err
    assert {c["hold_out"] for c in configs("candidates")} == {0.25}
    assert study()["held_out_images"] == 6 + 4 + 3 + 2


def test_candidates_are_compared_in_the_order_of_their_options(tune: Call, call: Call) -> None:
    assert tune("--method", "mfw", "--over", "alpha=0.5,10,2,1,5", "--final-seeds", 0, "--quiet").code == 0
    answer = call("compare", "t/candidates")
    assert re.findall(r"alpha=([\d.]+)", answer.out) == ["0.5", "1.0", "2.0", "5.0", "10.0"]


def test_a_time_below_zero_is_refused(tune: Call) -> None:
    answer = tune("--method", "mfw", "--over", "alpha=0.5,2", "--minutes", -1)
    assert (answer.code, answer.out) == (2, "")
    assert "minutes = -1 received; it has to be 0 or more" in answer.err
    assert not Path("t").exists()


def test_the_chosen_value_is_named_where_it_is_trained(tune: Call) -> None:
    answer = tune("--method", "mfw", "--over", "alpha=0.5,2")
    chosen = f"alpha={study()['chosen']['alpha']:g}"
    assert f"Trained on all training images with {chosen}:" in answer.out
    assert f"chosen on 8 held-out images: {chosen}" in answer.err
    _, final = answer.err.split("now training on all\n")
    assert f"({chosen}): 2 epochs" in final


def test_a_training_on_all_that_is_there_already_is_not_announced(tune: Call) -> None:
    arguments = ("--method", "mfw", "--over", "alpha=0.5,2")
    assert "; now training on all\n" in tune(*arguments).err
    assert "now training" not in tune(*arguments).err


@pytest.mark.parametrize("arguments", [(), ("--trials", 2), ("--trials", 2, "--width", 2)])
def test_every_candidate_is_named_by_its_options(tune: Call, arguments: tuple[object, ...]) -> None:
    if arguments:
        pytest.importorskip("optuna")
    over = ("--over", "alpha=0.5,2", "draw=batch", "--final-seeds", 0, "--epochs", 1)
    answer = tune("--method", "mfw", "--options", "beta=1", *over, *arguments)
    assert answer.code == 0, answer.err
    told = re.findall(r"(\(.*?\))?: held-out balanced accuracy .* kept in", answer.err)
    tried = [f"(alpha={score['options']['alpha']:g}, draw=batch)" for score in study()["scores"]]
    assert sorted(told) == sorted(tried)


@pytest.mark.parametrize(("over", "trials"), [("alpha=0.5,2", 5), ("alpha=0.5,2,5", 3), ("alpha=0.5..5", 2)])
def test_what_is_suggested_again_is_one_candidate(tune: Call, over: str, trials: int) -> None:
    pytest.importorskip("optuna")
    arguments = ("--method", "mfw", "--over", over, "--trials", trials, "--final-seeds", 0, "--epochs", 1, "--quiet")
    answer = tune(*arguments)
    assert answer.code == 0, answer.err
    assert len(study()["scores"]) == 2


def test_no_test_result_is_shown_before_the_choice(tune: Call) -> None:
    answer = tune("--method", "tau_norm", "--over", "tau=0.5,1", "--repeats", 2)
    choosing, final = answer.err.split("now training on all")
    shown = re.findall(r"held-out balanced accuracy ([\d.]+) %, kept in", choosing)
    runs = [json.loads(path.read_text()) for path in Path("t/candidates").glob("*/result.json")]
    # Of the network after its finish, which no epoch has told of.
    assert sorted(shown) == sorted(f"{100 * run['curves']['held_out_balanced_accuracy'][-1]:.1f}" for run in runs)
    assert len(shown) == 4
    assert "test accuracy" not in choosing
    assert "test accuracy" in final


def test_every_epoch_of_a_candidate_is_told_of_by_its_held_out_images(npz: Path) -> None:
    class Told(Reporter):
        records: ClassVar[list[EpochRecord]] = []

        def epoch_done(self, name: str, epoch: int, record: EpochRecord) -> None:
            self.records.append(record)

    base = RunSpec(str(npz), method="mfw", net="small", epochs=2, batch_size=16, device="cpu", hold_out=2)
    run_tune(base, {"alpha": (0.5, 2.0)}, Path("t"), reporter=Told())
    told = [(record.test is not None, record.held_out is not None) for record in Told.records]
    assert told == [(False, True)] * 4 + [(True, False)] * 2


def test_the_scores_are_those_of_the_runs(tune: Call) -> None:
    tune("--method", "mfw", "--over", "alpha=0.5,2", "--repeats", 2, "--final-seeds", 0, "--quiet")
    assert not Path("t/final").exists()
    for score in study()["scores"]:
        values = []
        for path in Path("t/candidates").glob("*/result.json"):
            result = json.loads(path.read_text())
            if result["config"]["options"] == score["options"]:
                values.append(result["curves"]["held_out_balanced_accuracy"][-1])
        assert (len(values), score["seeds"]) == (2, 2)
        assert score["last"] == pytest.approx(sum(values) / 2)


def test_it_goes_on_and_repeats_nothing(tune: Call) -> None:
    stopped = tune("--method", "mfw", "--over", "alpha=0.5,2", "--minutes", 0, "--quiet")
    assert stopped.code == 0
    assert "Give the same command again" in stopped.out
    assert (study()["scores"], study()["chosen"], study()["retrained"]) == ([], {}, [])
    assert "Not all candidates are finished" in study()["text"]
    first = tune("--method", "mfw", "--over", "alpha=0.5,2", "--quiet")
    before = {path: path.stat().st_mtime_ns for path in Path("t").glob("*/*/result.json")}
    assert len(before) == 3
    again = tune("--method", "mfw", "--over", "alpha=0.5,2", "--quiet")
    assert again.out == first.out
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ((), ("--over", "alpha=1,5"), "space is {'alpha': [0.5, 2.0]} there and {'alpha': [1.0, 5.0]} here"),
        ((), ("--epochs", 1), "epochs is 2 there and 1 here"),
        ((), ("--method", "mixup"), "method is mfw there and mixup here"),
        ((), ("--repeats", 2), "repeats is 1 there and 2 here"),
        ((), ("--trials", 2), "trials is None there and 2 here"),
        (("--trials", 2, "--width", 2), ("--trials", 2), "at_once is 2 there and 1 here"),
    ],
)
def test_another_search_is_not_written_over_the_one_that_a_folder_holds(
    first: tuple[object, ...], second: tuple[object, ...], said: str, tune: Call
) -> None:
    if "--trials" in (*first, *second):
        pytest.importorskip("optuna")
    usual = ("--method", "mfw", "--over", "alpha=0.5,2", "--quiet")
    assert tune(*usual, *first).code == 0
    before = {path: path.stat().st_mtime_ns for path in Path("t").rglob("*")}
    refused = tune(*usual, *second)
    assert (refused.code, refused.out) == (2, "")
    assert "t was begun with other settings" in refused.err
    assert said in refused.err
    assert {path: path.stat().st_mtime_ns for path in Path("t").rglob("*")} == before
    more_seeds = tune(*usual, *first, "--final-seeds", 2)
    assert (more_seeds.code, len(study()["retrained"])) == (0, 2)


def test_a_search_has_its_folder_from_its_beginning(tune: Call) -> None:
    usual = ("--method", "mfw", "--over", "alpha=0.5,2", "--final-seeds", 0, "--quiet")
    assert tune(*usual, "--minutes", 0).code == 0
    refused = tune("--method", "mfw", "--over", "alpha=1,5", "--final-seeds", 0, "--quiet")
    assert refused.code == 2
    assert "t was begun with other settings" in refused.err
    assert tune(*usual).code == 0
    assert len(study()["scores"]) == 2


def test_runs_that_two_searches_have_in_common_can_be_copied(tune: Call) -> None:
    assert tune("--method", "mfw", "--over", "alpha=0.5,2", "--final-seeds", 0, "--quiet").code == 0
    shutil.copytree("t/candidates", "wider/candidates")
    copied = {path: path.stat().st_mtime_ns for path in Path("wider").rglob("result.json")}
    wider = ("--over", "alpha=0.5,2,5", "--final-seeds", 0, "--output", "wider", "--quiet")
    assert tune("--method", "mfw", *wider).code == 0
    assert {path: path.stat().st_mtime_ns for path in copied} == copied
    assert len(list(Path("wider").rglob("result.json"))) == 3


def test_whose_the_final_runs_are_is_known_before_they_are_trained(tune: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from procrustean.runs import fit_many
    from procrustean.runs import tuning as module

    def killed(configs: Any, **settings: Any) -> Any:
        if configs[0].config.hold_out:
            return fit_many(configs, **settings)
        raise SystemExit(137)

    with monkeypatch.context() as patched:
        patched.setattr(module, "fit_many", killed)
        assert tune("--method", "mfw", "--over", "alpha=0.5,2", "--quiet").code == 137
    assert study()["retrained"] == []
    assert "The training on all images is not finished; give the same command again." in study()["text"]
    assert "t was begun with other" in tune("--method", "mfw", "--over", "alpha=1,5", "--quiet").err
    assert tune("--method", "mfw", "--over", "alpha=0.5,2", "--quiet").code == 0
    assert len(study()["retrained"]) == 1
    assert "not finished" not in study()["text"]


def test_tau_is_chosen_after_one_training(tune: Call) -> None:
    assert tune("--method", "tau_norm", "--quiet").code == 0
    (tried,), (final,) = configs("candidates"), configs("final")
    assert tried["options"] == {}
    assert final["options"] == study()["chosen"]
    assert "tau" in final["options"]


def test_tau_that_was_tried_is_not_said_to_be_chosen_after_training(tune: Call) -> None:
    answer = tune("--method", "tau_norm", "--over", "tau=0.5,1", "--final-seeds", 0, "--quiet")
    assert answer.code == 0, answer.err
    assert study()["chosen"]["tau"] in (0.5, 1.0)
    assert "After training" not in answer.out


def test_what_would_be_tried(tune: Call) -> None:
    answer = tune("--method", "cdt", "--repeats", 2, "--dry-run")
    shared = {"source": "stripes.npz", "method": "cdt", "hold_out": 2, "epochs": 2, "batch_size": 16}
    assert shared.items() <= yaml.safe_load(answer.out).items()
    assert "# gamma: to be chosen\n" in answer.out
    assert "# The recipe these settings resolve to: " in answer.out
    assert answer.out.splitlines()[-7:] == [
        "# Candidates, judged on held-out images, 2 training seeds each:",
        *(f"# gamma={gamma}" for gamma in (0, 0.1, 0.2, 0.3, 0.4)),
        "# Then, with the best of them: all training images of stripes.npz, hold_out 0, 1 training seed",
    ]
    assert not Path("t").exists()


def test_what_optuna_would_choose_from(tune: Call) -> None:
    ranges = ("--over", "alpha=0.1..10", "draw=sample,batch", "--trials", 9, "--final-seeds", 0)
    answer = tune("--method", "mfw", *ranges, "--dry-run")
    assert answer.out.splitlines()[-3:] == [
        "# 9 candidates, suggested by Optuna and judged on held-out images, from:",
        "# alpha=0.1..10",
        "# draw=sample,batch",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--method", "mfw", "--hold-out", "0"),
            "hold_out = 0 received, and there is no validation split",
        ),
        (("--method", "bbn"), "no default grid for 'bbn'"),
        (("--method", "mfw", "--over", "alhpa=1"), "Did you mean 'alpha'"),
        (
            ("--method", "mfw", "--options", "alpha=3", "--over", "alpha=0.5,1"),
            "options alpha=3 received, but alpha is to be chosen, from alpha=0.5,1; leave it out of the options",
        ),
        (("--method", "vs", "--options", "tau=1", "--dry-run"), "tau is to be chosen, from tau=0.75,1,1.2"),
        (("--method", "mfw", "--repeats", "0"), "repeats = 0"),
        (("--method", "nothing"), "no method 'nothing'"),
        (("--method", "auto"), "one method is needed here: name it, for example --method mfw"),
    ],
)
def test_mistakes_are_refused(arguments: tuple[str, ...], message: str, tune: Call) -> None:
    answer = tune(*arguments)
    assert answer.code == 2
    assert message in answer.err
    assert not Path("t").exists()


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("layer=group2,nowhere", "candidate layer=nowhere: layer 'nowhere'"),
        ("alpha=1,-1", "candidate alpha=-1: alpha = -1.0 received"),
    ],
)
def test_a_candidate_that_cannot_be_is_named_before_any_is_trained(over: str, message: str, tune: Call) -> None:
    answer = tune("--method", "mfw", "--over", over, "--quiet")
    assert answer.code == 2
    assert message in answer.err
    assert not Path("t").exists()


def test_a_choice_on_images_of_one_class_alone_is_refused(tune: Call, npz: Path) -> None:
    arguments = ("--method", "mfw", "--over", "alpha=0.5,2", "--quiet")
    answer = tune(*arguments, "--hold-out", 18)
    assert (answer.code, answer.out) == (2, "")
    said = "stripes.npz: the 18 held-out images are all of the class 0, and to choose on them images of at least two"
    assert said in answer.err
    assert "give a share such as --hold-out 0.15" in answer.err
    with np.load(npz) as arrays:
        own = {f"val_{name}": arrays[f"test_{name}"][:10] for name in ("images", "labels")}
        np.savez(npz, **arrays, **own)
    assert "the 10 held-out images are all of the class 0" in tune(*arguments, "--hold-out", 0).err
    assert not Path("t").exists()


def test_a_range_with_an_impossible_end_is_refused_before_anything_is_trained(tune: Call) -> None:
    answer = tune("--method", "mfw", "--over", "alpha=-1..1", "--trials", 2, "--quiet")
    assert answer.code == 2
    assert "candidate alpha=-1: alpha = -1.0 received" in answer.err
    assert not Path("t").exists()


def test_a_validation_split_decides_where_nothing_is_held_out(tune: Call, npz: Path, call: Call) -> None:
    with np.load(npz) as arrays:
        own = {f"val_{name}": arrays[f"test_{name}"][::2] for name in ("images", "labels")}
        np.savez(npz, **arrays, **own)
    arguments = ("--method", "mfw", "--over", "alpha=0.5,2", "--hold-out", 0, "--final-seeds", 2, "--quiet")
    assert tune(*arguments).code == 0
    assert study()["held_out_images"] == 20
    tried, final = configs("candidates"), configs("final")
    assert [config["hold_out"] for config in (*tried, *final)] == [0, 0, 0, 0]
    assert sorted(config["seed"] for config in final) == [0, 1]
    # The candidate was trained on all training images; what it is was not trained a second time.
    same = [path for path in Path("t/final").iterdir() if Path("t/candidates", path.name).exists()]
    assert [path.name.split("-")[-2] for path in same] == ["seed0"]
    assert (same[0] / "result.json").read_bytes() == Path("t/candidates", same[0].name, "result.json").read_bytes()
    shown = call("compare", "t")
    assert (shown.code, "| MFW " in shown.out) == (0, True)


@pytest.mark.parametrize(("given", "hold_out"), [((), 0), (("--hold-out", 2), 2), (("--hold-out-from", "source"), 3)])
def test_a_validation_split_decides_unless_training_images_are_asked_for(
    given: tuple[object, ...], hold_out: int, npz: Path, call: Call
) -> None:
    arguments = ("tune", npz, *TINY, "--method", "mfw", *given, "--dry-run")
    assert yaml.safe_load(call(*arguments).out)["hold_out"] == (hold_out or 0.15)
    with np.load(npz) as arrays:
        own = {f"val_{name}": arrays[f"test_{name}"][::2] for name in ("images", "labels")}
        np.savez(npz, **arrays, **own)
    answer = call(*arguments)
    assert yaml.safe_load(answer.out)["hold_out"] == hold_out
    judges = "held-out images" if hold_out else "the images of the validation split"
    assert f"# Candidates, judged on {judges}:" in answer.out


@pytest.mark.parametrize("name", ["result.json", "config.json"])
@pytest.mark.parametrize("content", ['{"format": 1, "label": "MF', "[]", '{"format": 1}'])
def test_a_damaged_candidate_is_named_with_what_to_do(content: str, name: str, tune: Call) -> None:
    arguments = ("--method", "mfw", "--over", "alpha=0.5,2", "--final-seeds", 0, "--quiet")
    assert tune(*arguments).code == 0
    found = study()
    damaged = next(Path("t/candidates").iterdir())
    (damaged / name).write_text(content)
    answer = tune(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert f"{damaged / name} is " in answer.err
    assert f"remove {damaged} " in answer.err
    shutil.rmtree(damaged)
    assert tune(*arguments).code == 0
    assert study() == found


def test_a_candidate_that_diverges_is_passed_over(tune: Call) -> None:
    answer = tune("--method", "ldam", "--over", "scale=30,1e38", "--final-seeds", 0, "--quiet")
    assert answer.code == 0, answer.err
    assert study()["chosen"] == {"scale": 30.0}
    assert "Not trained to the end: scale=1e+38 (non-finite loss, gradient or weight in epoch 1" in answer.out
    answer = tune("--method", "ldam", "--over", "scale=1e38,2e38", "--final-seeds", 0, "--output", "u", "--quiet")
    assert answer.code == 2
    assert "no candidate could be trained to the end" in answer.err


def test_a_training_on_all_images_that_diverges_is_told_from_one_that_is_not_finished(
    tune: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from procrustean.base.errors import Diverged
    from procrustean.runs import fit_many
    from procrustean.runs import tuning as module
    from procrustean.runs.many_runs import Outcome

    def diverging(configs: Any, **settings: Any) -> Any:
        if configs[0].config.hold_out:
            return fit_many(configs, **settings)
        return [Outcome(plan.config.run_dir, None, Diverged("non-finite loss")) for plan in configs]

    monkeypatch.setattr(module, "fit_many", diverging)
    answer = tune("--method", "mfw", "--over", "alpha=0.5", "--quiet")
    assert answer.code == 1, answer.err
    assert re.search(r"Not trained to the end on all images: t/final/\S+: non-finite loss\.", answer.out)
    assert "give the same command again" not in answer.out


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_candidate_that_another_process_trains_is_named(tune: Call) -> None:
    arguments = ("--method", "mfw", "--over", "alpha=0.5,2", "--final-seeds", 0)
    assert tune(*arguments).code == 0
    there = next(Path("t/candidates").iterdir())
    (there / "result.json").unlink()
    claim = Claim(there)
    answer = tune(*arguments)
    claim.release()
    assert answer.code == 2
    assert f"{there} is being trained by another process" in answer.err
    assert tune(*arguments).code == 0


def test_candidates_on_images_that_were_changed_in_between_are_not_compared(tune: Call, npz: Path) -> None:
    arguments = ("--method", "mfw", "--over", "alpha=0.5,2", "--final-seeds", 0)
    assert tune(*arguments).code == 0
    shutil.rmtree(next(Path("t/candidates").iterdir()))
    before, arrays = npz.read_bytes(), dict(np.load(npz))
    np.savez(npz, **{**arrays, "train_images": arrays["train_images"] // 2})
    refused = tune(*arguments)
    assert refused.code == 2
    assert "t was begun on other images than stripes.npz holds now" in refused.err
    npz.write_bytes(before)
    assert tune(*arguments).code == 0

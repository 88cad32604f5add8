from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from procrustean.cli.commands import parse
from procrustean.methods import METHODS
from procrustean.methods.make import option_defaults
from procrustean.records import RunSpec

Call = Callable[..., Any]

FLAGS: dict[str, list[str]] = {
    "defaults": ["train", "digits"],
    "everything": [
        *("train", "cifar10", "--imbalance", "step", "--rho", "100", "--method", "mfw", "--drw", "--epochs", "7"),
        *("--options", "alpha=0.5", "beta=0.01", "draw=batch", "--recipe", "own", "--net", "resnet20", "--seed", "3"),
        *("--batch-size", "32", "--lr", "1e-2", "--weight-decay", "5e-4", "--data-seed", "2", "--hold-out", "3"),
        *("--evaluate-every", "2", "--track-training", "--device", "cpu", "--precision", "fp32", "--engine", "eager"),
        *("--data-dir", "some/where", "--run-dir", "else/where", "--checkpoint-every", "2.5"),
    ],
    "awkward values": ["train", "a: b.npz", "--options", "layer=null", "alpha=1e-3", "--run-dir", "no", "--lr", "1"],
}


def config_of(*arguments: str) -> RunSpec:
    config: RunSpec = parse(arguments).run_config()  # type: ignore[attr-defined]
    return config


@pytest.mark.parametrize("name", FLAGS)
def test_a_printed_configuration_is_read_again(name: str, call: Call) -> None:
    printed = call(*FLAGS[name], "--dry-run")
    assert printed.code == 0, printed.err
    assert printed.err == ""
    Path("run.yaml").write_text(printed.out)
    before, after = config_of(*FLAGS[name]), config_of("train", "--config", "run.yaml")
    if before.method == "advised":
        before = replace(before, method="mfw")  # what is left open is filled in
    assert after == before
    assert after.hash == before.hash
    assert call("train", "--config", "run.yaml", "--dry-run").out == printed.out
    assert call("train", "--config=run.yaml", "--dry-run").out == printed.out


def test_printing_the_configuration_trains_nothing(call: Call, work: Path) -> None:
    call("train", "digits", "--dry-run")
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (
            "tiny-imagenet --imbalance step --rho 100 --method mfw --drw",
            ("MFW-DRW (procrustean list methods mfw explains it)", "kind: step", "alpha: 5.0", "beta: 0.01",
             "std: geometric", "layer: group2 (backbone.layer1)", "drw: True",
             "drw sets in: in epoch 161 of 200, after 80 %"),
        ),
        ("cifar100 --imbalance long_tailed --rho 10 --method mfw", ("alpha: 0.2", "beta: 2.0", "drw: False")),
        (
            "imagenet-lt --method mfw --options layer=group3",
            ("resolve to: mfw (", "alpha: depends on the counts", "layer: group3 (backbone.layer2)"),
        ),
        ("cifar10 --method mfw --options alpha=3 --epochs 7 --drw", ("alpha: 3.0", "drw sets in: in epoch 6 of 7, ")),
        ("cifar10 --method manifold_mixup", ("layers: input (backbone.input), group2 (backbone.group2), group3 (",)),
        ("cifar10 --method erm", ("resolve to: ERM (",)),
        ("cifar10 --imbalance step --rho 100 --method cdt", ("kind: step", "gamma: 0.2")),
        ("inaturalist18 --method ldam", ("max_margin: depends on the counts",)),
        ("cifar100 --imbalance long_tailed --rho 100 --method seql", ("lam: 0.005",)),
        (
            "cifar10 --imbalance long_tailed --rho 100 --method mislas",
            ("head: 0.3", "tail: 0.0", "head_rate: 0.5", "bn_mode: eval",
             "stages: features 200 epochs, classifier 10 epochs; every stage begins the schedule anew"),
        ),
        ("cifar10 --imbalance long_tailed --rho 10 --method mislas", ("head: 0.1", "head_rate: 0.2")),
        ("imagenet-lt --method label_aware_smoothing", ("head: depends on the counts",)),
        ("photos --method seql --options gamma=0.5", ("gamma: 0.5", "lam: depends on the counts")),
        ("cifar10 --method class_balanced --options form=focal", ("gamma: 1.0",)),
    ],
)  # fmt: skip
def test_the_method_is_printed_as_comments(arguments: str, wanted: tuple[str, ...], call: Call) -> None:
    answer = call("train", *arguments.split(), "--dry-run")
    assert answer.code == 0, answer.err
    comments = answer.out[answer.out.index("# The method") : answer.out.index("# The recipe")]
    assert [text for text in wanted if text not in comments] == []
    assert ("# stages: " in comments) == ("mislas" in arguments)


def test_the_counts_of_own_images_are_used(call: Call, npz: Path) -> None:
    answer = call("train", npz, "--method", "seql", "--dry-run")
    assert answer.code == 0, answer.err
    assert "\n# kind: long_tailed\n" in answer.out
    assert "\n# lam: 0.125\n" in answer.out  # of four classes


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_printed(name: str, call: Call) -> None:
    printed = call("train", "cifar10", "--method", name, "--dry-run")
    assert printed.code == 0, printed.err
    assert [f"# {option}:" for option in option_defaults(name) if f"\n# {option}: " not in printed.out] == []
    assert [option for option in option_defaults(name) if f"\n# {option}: None\n" in printed.out] == []


def test_the_recipe_is_printed_as_comments(call: Call) -> None:
    out = call("train", "digits", "--epochs", "7", "--dry-run").out
    comments = [line for line in out.splitlines() if line.startswith("#")]
    assert "# epochs: 7" in comments
    assert "# batch_size: 32" in comments
    assert yaml.safe_load(out)["epochs"] == 7


def test_a_flag_leaves_open_what_the_file_has_set(call: Call) -> None:
    Path("run.yaml").write_text("source: digits\nepochs: 7\nnet: small\naugment: none\n")
    left_open = config_of("train", "--config", "run.yaml", "--epochs", "None", "--augment", "None")
    assert (left_open.epochs, left_open.net, left_open.augment) == (None, "small", None)
    assert config_of("train", "--config", "run.yaml").augment == "none"


def test_flags_override_the_file(call: Call) -> None:
    Path("run.yaml").write_text(
        "source: digits\nimbalance: step\nrho: 20\nepochs: 5\nseed: 1\noptions: {alpha: 0.5}\ndrw: true\n"
    )
    plain = config_of("train", "--config", "run.yaml")
    assert (plain.source, plain.rho, plain.epochs, plain.seed, plain.drw) == ("digits", 20.0, 5, 1, True)
    assert plain.options == {"alpha": 0.5}
    changed = config_of(
        *("train", "cifar10", "--seed", "4", "--config", "run.yaml", "--rho", "50", "--options", "beta=1")
    )
    assert (changed.source, changed.rho, changed.seed) == ("cifar10", 50.0, 4)
    assert changed.epochs == 5
    assert changed.options == {"alpha": 0.5, "beta": 1.0}, "one by one, with the types of the file"


@pytest.mark.parametrize(
    ("content", "flags"),
    [
        pytest.param("imbalance: step\nsource: digits", ("--rho", "20"), id="ratio"),
        pytest.param("imbalance: step\nrho: 20", ("digits",), id="source"),
    ],
)
def test_flags_complete_the_file(content: str, flags: tuple[str, ...], call: Call) -> None:
    Path("run.yaml").write_text(content)
    answer = call("train", *flags, "--config", "run.yaml", "--dry-run")
    assert answer.code == 0, answer.err
    assert {"source": "digits", "rho": 20.0}.items() <= yaml.safe_load(answer.out).items()


WRONG: dict[str, tuple[str, str]] = {
    "unknown key": ("source: digits\nepoch: 3", r"run\.yaml has an unknown setting 'epoch'. Did you mean 'epochs'\?"),
    "another name": ("source: digits\nlearning_rate: 1", r"setting 'learning_rate'. Did you mean 'lr'\?"),
    "a text for a number": ("source: digits\nepochs: three", r"epochs = 'three' received; .* a whole number"),
    "a fraction": ("source: digits\nepochs: 1.5", r"epochs = 1\.5 received; .* a whole number"),
    "true for a number": ("source: digits\nseed: true", r"seed = True received; .* a whole number"),
    "a list for a text": ("source: digits\nmethod: [mfw]", r"method = \['mfw'\] received; .* a text"),
    "nothing for a seed": ("source: digits\nseed:", r"seed = None received"),
    "no choice": ("source: digits\nimbalance: steps\nrho: 3", r"'steps' received; .* natural, long_tailed, step"),
    "options as text": ("source: digits\noptions: alpha", r"options = 'alpha' received; .* a mapping"),
    "text for a flag": ("source: digits\ndrw: 'yes please'", r"drw = 'yes please' received; .* true or false"),
    "negative": ("source: digits\nhold_out: -1", r"hold_out = -1 received; it has to be at least 0"),
    "no data set": ("epochs: 3", r"SOURCE is missing"),
    "a list": ("- source\n- digits", r"run\.yaml holds list, not a mapping; write `source: digits`"),
    "empty": ("", r"run\.yaml is empty; write `source: digits` and so on"),
    "a key twice in a line": (
        "source: digits\noptions: {alpha: 1, alpha: 2}",
        r"run\.yaml has 'alpha' twice in one mapping, in line 2 and in line 2; only one of them could count",
    ),
    "a key twice": (
        "source: digits\nepochs: 2\nepochs: 3",
        r"run\.yaml has 'epochs' twice in one mapping, in line 2 and in line 3; only one of them could count",
    ),
    "not YAML": ("source: [digits", r"is not valid YAML"),
    "an object": ("source: !!python/object/apply:os.system ['touch touched']", r"is not valid YAML .*python/object"),
    "another object": ("!!python/object:procrustean.records.run_spec.RunSpec {source: digits}", r"is not valid YAML"),
    "natural with a ratio": ("source: digits\nrho: 3", r"rho = 3\.0 received with imbalance 'natural'"),
    "a ratio is missing": ("source: digits\nimbalance: step", r"imbalance 'step' needs its ratio"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused(name: str, call: Call, work: Path) -> None:
    content, message = WRONG[name]
    Path("run.yaml").write_text(content)
    answer = call("train", "--config", "run.yaml")
    assert answer.code == 2
    assert answer.out == ""
    assert re.search(message, answer.err, re.DOTALL), answer.err
    assert "Traceback" not in answer.err
    assert [path.name for path in work.iterdir()] == ["run.yaml"]


def test_an_empty_grid_says_what_to_write(call: Call) -> None:
    Path("grid.yaml").write_text("")
    answer = call("fleet", "grid.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "procrustean: grid.yaml is empty; write `base: {source: digits}` and so on\n"


def test_a_key_that_is_no_text_is_refused(call: Call) -> None:
    Path("run.yaml").write_text("source: digits\n3: 4\n")
    answer = call("train", "--config", "run.yaml")
    assert answer.code == 2
    assert "unknown setting 3" in answer.err


def test_bytes_that_are_no_text_are_refused(call: Call) -> None:
    Path("run.yaml").write_bytes(b"source: \xff\xfe")
    answer = call("train", "--config", "run.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert "run.yaml is not valid YAML" in answer.err


@pytest.mark.parametrize(("path", "reason"), [("none.yaml", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_is_named(path: str, reason: str, call: Call) -> None:
    answer = call("train", "digits", "--config", path)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"procrustean: cannot read the configuration {path} ({reason})\n"


def test_a_configuration_without_its_name(call: Call) -> None:
    answer = call("train", "digits", "--config")
    assert (answer.code, answer.out) == (2, "")
    assert "--config" in answer.err


# Grids


def test_the_runs_of_a_grid_are_printed(call: Call) -> None:
    Path("grid.yaml").write_text(
        "base: {source: digits, epochs: 1}\nruns: [{method: erm}, {method: mfw, drw: true}]\ngrid: {seed: [0, 1]}\n"
    )
    answer = call("fleet", "grid.yaml", "--output", "out", "--dry-run")
    assert (answer.code, answer.err) == (0, "")
    printed = list(yaml.safe_load_all(answer.out))
    assert [(run["method"], run["drw"], run["seed"]) for run in printed] == [
        ("erm", False, 0),
        ("erm", False, 1),
        ("mfw", True, 0),
        ("mfw", True, 1),
    ]
    assert len({run["run_dir"] for run in printed}) == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("bases: {source: digits}", "unknown part 'bases'. Did you mean 'base'?"),
        ("base: {source: digits}\ngrid: {seed: 3}", "grid.seed = 3 received; give a list of values"),
        ("base: {source: digits}\ngrid: {seed: []}", "grid.seed = [] received; give a list of values"),
        ("base: {source: digits}\nruns: [erm]", "'erm' received under runs"),
        ("base: [digits]", "base and grid have to be mappings"),
        ("base: {source: digits}\nruns: [{methode: erm}]", "unknown setting 'methode'. Did you mean 'method'?"),
        ("runs: [{method: erm}]", "names no data set"),
        ("base: {source: digits}\nbase: {epochs: 2}", "has 'base' twice in one mapping, in line 1 and in line 2"),
    ],
)
def test_a_wrong_grid_is_refused(content: str, message: str, call: Call, work: Path) -> None:
    Path("grid.yaml").write_text(content)
    answer = call("fleet", "grid.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert [path.name for path in work.iterdir()] == ["grid.yaml"]


def test_settings_taken_over_from_another_mapping_can_be_changed(call: Call) -> None:
    text = "base: {source: digits}\nruns: [&a {method: erm, epochs: 2}, {<<: *a, epochs: 3}]\n"
    Path("grid.yaml").write_text(text)
    answer = call("fleet", "grid.yaml", "--dry-run")
    assert [run["epochs"] for run in yaml.safe_load_all(answer.out)] == [2, 3], answer.err


def test_a_grid_that_is_not_there(call: Call) -> None:
    answer = call("fleet", "grid.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert "cannot read" in answer.err
    assert "grid.yaml" in answer.err

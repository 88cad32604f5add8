from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_records import with_changes
from procrustean.base import RunError
from procrustean.base.table_formats import NOTHING
from procrustean.methods.make import option_defaults
from procrustean.paper import claims_table, coverage, toy
from procrustean.paper.claims import BEGIN, END, NOT_YET, block_for, replaced
from procrustean.records import load_result
from procrustean.records.finding_runs import runs_in
from procrustean.records.run_record import Result

#: Where the repository has the records of such runs.
RECORDS = ("results/analysis", "results/alpha", "results/beta", "results/cifar", "results/cifar10-rho100")
TOY_OPTIONS: dict[str, dict[str, Any]] = {"erm": {}, "mfw": {"alpha": 2.0, "major_strength": 0.5}}
Make = Callable[..., Result]
PROJECT = Path(__file__).resolve().parents[2]

LONG_TAILED = [5000, 2997, 1796, 1077, 645, 387, 232, 139, 83, 50]
STEP = [5000] * 5 + [50] * 5
AT = (20, 100, 200)
TOY: dict[str, Any] = {
    "source": "cifar10", "rho": 100.0, "net": "resnet32-2d", "counts": [5000, 5000, 50, 50], "epochs": 200,
}  # fmt: skip


def rows(results: list[Result]) -> dict[str, dict[str, str]]:
    table = claims_table(results)
    names = [column.name for column in table.columns]
    return {row[1].text: dict(zip(names, (cell.text for cell in row), strict=True)) for row in table.rows}


def curve(*extremes: tuple[float, float]) -> np.ndarray:
    """Values of the largest and the smallest class at each epoch; those between do not matter."""
    made = np.full((len(extremes), 10), 0.5)
    made[:, 0], made[:, -1] = zip(*extremes, strict=True)
    return made


@pytest.fixture
def main_runs(result: Make) -> list[Result]:
    common: dict[str, Any] = {"source": "cifar10", "rho": 100.0, "net": "resnet32", "epochs": 200, "at": AT}
    runs = []
    for kind, counts in (("long_tailed", LONG_TAILED), ("step", STEP)):
        erm = {
            "train": curve((0.9, 0.1), (1.0, 0.6), (1.0, 1.0)),
            "ratio": curve((1.4, 0.0), (1.1, 0.5), (1.0, 1.0)),
            "gradient": curve((0.5, 4.0), (0.5, 3.0), (0.5, 2.0)),
            "deviation": curve((0.1, 0.2), (0.1, 0.4), (0.1, 0.6)),
            "test": np.array([0.9] * 5 + [0.4] * 5),
        }
        mfw = {
            "train": curve((0.7, 0.6), (0.9, 0.8), (1.0, 1.0)),
            "ratio": curve((1.0, 0.8), (1.0, 0.9), (1.0, 1.0)),
            "gradient": curve((9.0, 9.0), (9.0, 9.0), (9.0, 9.0)),
            "mixed": curve((0.5, 2.0), (0.5, 2.0), (0.5, 2.0)),
            "deviation": curve((0.1, 0.2), (0.1, 0.3), (0.1, 0.3)),
            "test": np.array([0.88] * 5 + [0.65] * 5),
        }
        runs.append(result(label="ERM", kind=kind, counts=counts, **common, **erm))
        runs.append(result(label="MFW", method="mfw", kind=kind, counts=counts, **common, **mfw))
    return runs


def test_without_runs_nothing_is_claimed() -> None:
    for row in rows([]).values():
        assert row["seen"] == NOT_YET
        assert row["erm"] == row["mfw"] == NOTHING


def test_claims_are_judged_by_the_numbers(main_runs: list[Result]) -> None:
    found = rows(main_runs)
    expected = {
        "ERM hardly fits the smallest class in early epochs": ("10.0", NOTHING, "yes"),
        "ERM fits the smallest class in the end": ("100.0", NOTHING, "yes"),
        "early, ERM classifies too many images into the largest class": ("140.0", NOTHING, "yes"),
        "and hardly any into the smallest": ("0.0", NOTHING, "yes"),
        # (80 + 40 + 0) / 3 and (10 + 10 + 0) / 3 points
        "MFW makes the training progress more equal (long-tailed)": ("40.0", "6.7", "yes"),
        "MFW makes the training progress more equal (step)": ("40.0", "6.7", "yes"),
        "and the classification ratios (long-tailed)": ("66.7", "10.0", "yes"),
        "and the classification ratios (step)": ("66.7", "10.0", "yes"),
        "MFW decreases the gradient norm of the smallest class (long-tailed)": ("3", "2", "yes"),
        "MFW decreases the gradient norm of the smallest class (step)": ("3", "2", "yes"),
        "and balances the norms across classes (long-tailed)": ("6.00", "4.00", "yes"),
        "and balances the norms across classes (step)": ("6.00", "4.00", "yes"),
        "the feature deviation of the smallest class grows along the epochs": ("3.00", "1.50", "yes"),
        "MFW reduces it (long-tailed)": ("0.600", "0.300", "yes"),
        "MFW reduces it (step)": ("0.600", "0.300", "yes"),
        "MFW raises the test accuracy of the minor classes (step)": ("40.0", "65.0", "yes"),
        "with a slight decrease for the major classes (step)": ("90.0", "88.0", "yes"),
    }
    for claim, (erm, mfw, seen) in expected.items():
        assert (found[claim]["erm"], found[claim]["mfw"], found[claim]["seen"]) == (erm, mfw, seen), claim


def test_a_claim_that_is_not_borne_out_is_said_to_be_so(main_runs: list[Result]) -> None:
    exchanged = []
    for run in main_runs:
        other = {"ERM": ("MFW", "mfw"), "MFW": ("ERM", "erm")}[run.label]
        exchanged.append(with_changes(run, label=other[0], method__name=other[1]))
    found = rows(exchanged)
    for claim in ("MFW reduces it", "and the classification ratios", "and balances the norms across classes"):
        assert found[f"{claim} (step)"]["seen"] == "no"


def test_a_longer_training_is_compared_over_the_epochs_that_both_have_as_well(
    main_runs: list[Result], result: Make
) -> None:
    longer = result(
        label="MFW", method="mfw", kind="step", counts=STEP, source="cifar10", rho=100.0, net="resnet32", epochs=300,
        at=(20, 200, 260, 300), train=curve((1.0, 0.5), (1.0, 0.4), (1.0, 1.0), (1.0, 1.0)),
        ratio=curve(*[(1.0, 1.0)] * 4), gradient=curve(*[(9.0, 9.0)] * 4), mixed=curve(*[(1.0, 2.0)] * 4),
        deviation=curve(*[(0.1, 0.2)] * 4), test=np.array([0.88] * 5 + [0.65] * 5),
    )  # fmt: skip
    (erm,) = (run for run in main_runs if run.label == "ERM" and run.data.kind == "step")
    found = rows([erm, longer])
    row = found["MFW makes the training progress more equal (step)"]
    assert (row["erm"], row["mfw"], row["seen"]) == ("40.0", "27.5", "yes")
    row = found["MFW makes the training progress more equal (step, first 200 epochs)"]
    assert (row["erm"], row["mfw"], row["seen"]) == ("40.0", "55.0", "no")


def test_one_method_alone_is_not_enough(main_runs: list[Result]) -> None:
    found = rows(main_runs[:1])
    assert found["ERM fits the smallest class in the end"]["seen"] == "yes"
    row = found["MFW reduces it (long-tailed)"]
    assert (row["erm"], row["mfw"], row["seen"]) == ("0.600", NOTHING, NOT_YET)


def test_seeds_are_averaged_and_other_settings_left_out(main_runs: list[Result], result: Make) -> None:
    common: dict[str, Any] = {"source": "cifar10", "rho": 100.0, "net": "resnet32", "epochs": 200, "at": AT}
    second = result(
        seed=1, kind="long_tailed", counts=LONG_TAILED, deviation=curve((0.1, 0.2), (0.1, 0.2), (0.1, 0.8)), **common
    )
    foreign = [
        result(kind="long_tailed", counts=LONG_TAILED, deviation=9.0, **{**common, **changes})
        for changes in ({"rho": 10.0}, {"source": "cifar100"}, {"net": "resnet20"}, {"drw": True}, {"hold_out": 3})
    ]
    odd = result(method="mfw", options={"alpha": 0.1}, kind="step", counts=STEP, deviation=9.0, **common)
    found = rows([*main_runs, second, *foreign, odd])
    assert found["MFW reduces it (long-tailed)"]["erm"] == "0.700 ± 0.141"
    assert found["MFW reduces it (step)"]["mfw"] == "0.300"


def test_the_illustration_has_its_three_selections_apart(result: Make) -> None:
    runs = []
    for method, accuracy in (("erm", 0.78), ("mfw", 0.84)):
        run = result(method=method, options=TOY_OPTIONS[method], accuracy=accuracy, **TOY)
        run = with_changes(run, selections__oracle=result(accuracy=accuracy + 0.02).record.selections.last)
        chosen = result(method=method, options=TOY_OPTIONS[method], accuracy=0.1, hold_out=3, **TOY)
        chosen = with_changes(chosen, selections__held_out=result(accuracy=accuracy - 0.01).record.selections.last)
        runs += [run, chosen]
    found = rows(runs)
    shown = {
        "last epoch": ("78.00", "84.00"),
        "chosen on held-out images": ("77.00", "83.00"),
        "best on the test set": ("80.00", "86.00"),
    }
    for selection, (erm, mfw) in shown.items():
        row = found[f"MFW is better on the four-class illustration ({selection})"]
        assert (row["erm"], row["mfw"], row["published"], row["seen"]) == (erm, mfw, "78.30 and 83.65", "yes")


def test_the_illustration_is_that_of_the_paper_and_counts_once(result: Make) -> None:
    assert toy.METHODS == ({"method": "erm"}, {"method": "mfw", "options": TOY_OPTIONS["mfw"]})
    assert (toy.SETTING["imbalance"], toy.SETTING["epochs"]) == ("step", 200)
    claim = "MFW is better on the four-class illustration (last epoch)"
    own, defaults = TOY_OPTIONS["mfw"], option_defaults("mfw")
    runs = [result(accuracy=0.78, **TOY), result(method="mfw", options={**defaults, **own}, accuracy=0.84, **TOY)]
    others: tuple[dict[str, Any], ...] = (
        {"options": {**own, "alpha": 0.1}}, {"options": {"alpha": 2.0}}, {"options": {**own, "draw": "batch"}},
        {"epochs": 20}, {"kind": "long_tailed"}, {"recipe": "own"},
    )  # fmt: skip
    foreign = [result(**{"method": "mfw", "options": own, "accuracy": 0.5, **TOY, **changes}) for changes in others]
    copies = [with_changes(run, probes=None) for run in runs]
    second = result(method="mfw", options=own, accuracy=0.86, seed=1, **TOY)
    assert [rows([*foreign, *copies, *runs])[claim][method] for method in ("erm", "mfw")] == ["78.00", "84.00"]
    assert rows([*copies, *runs, second])[claim]["mfw"] == "85.00 ± 1.41"
    assert rows([runs[0], *foreign])[claim]["seen"] == NOT_YET


def test_the_best_values_of_the_options(result: Make) -> None:
    common: dict[str, Any] = {"source": "cifar10", "rho": 100.0, "net": "resnet32", "label": "MFW", "method": "mfw"}
    best = {"long_tailed": 1.0, "step": 5.0}
    runs = [
        result(kind=kind, counts=counts, options={"alpha": value, "std": "geometric"},
               accuracy=0.7 + 0.05 * (value == best[kind]), **common)
        for kind, counts in (("long_tailed", LONG_TAILED), ("step", STEP))
        for value in (0.1, 1.0, 5.0)
    ]  # fmt: skip
    row = rows(runs)["long-tailed counts prefer a smaller alpha than step counts"]
    assert (row["mfw"], row["seen"]) == ("1 and 5", "yes")
    only_step = rows(runs[3:])["long-tailed counts prefer a smaller alpha than step counts"]
    assert only_step["seen"] == NOT_YET


def test_norms_that_are_out_of_balance_the_other_way_are_not_balanced(main_runs: list[Result], result: Make) -> None:
    erm = main_runs[0]  # 6 times as large for the smallest class
    common: dict[str, Any] = {"source": "cifar10", "rho": 100.0, "net": "resnet32", "epochs": 300, "at": AT}
    for mixed, seen in ((curve(*[(2.0, 1.0)] * 3), "yes"), (curve(*[(8.0, 1.0)] * 3), "no")):
        mfw = result(label="MFW", method="mfw", kind="long_tailed", counts=LONG_TAILED, mixed=mixed, **common)
        assert rows([erm, mfw])["and balances the norms across classes (long-tailed)"]["seen"] == seen


def test_runs_of_today_s_defaults_are_judged(main_runs: list[Result]) -> None:
    as_written = [with_changes(r, method__options=option_defaults(r.record.method.name)) for r in main_runs]
    assert rows(as_written) == rows(main_runs)


def test_accuracies_need_no_measurements_on_the_way(main_runs: list[Result]) -> None:
    plain = [with_changes(run, probes=None) for run in main_runs]
    found, measured = rows(plain), rows(main_runs)
    minor = "MFW raises the test accuracy of the minor classes (step)"
    assert found[minor] == measured[minor]
    assert found[minor]["seen"] == "yes"
    assert found["MFW reduces it (step)"]["seen"] == NOT_YET
    assert rows([*plain, *main_runs]) == measured  # the same seeds: not two runs
    other = {"recipe": "own"}, {"epochs": 300}
    unlike = [with_changes(r, config={**r.config.to_json(), **change}) for r in plain for change in other]
    assert rows(unlike)[minor]["seen"] == NOT_YET


def test_runs_that_the_claims_are_not_about_are_counted(main_runs: list[Result], result: Make) -> None:
    digits = [result(), result(method="mfw", label="MFW")]
    said = coverage(digits)
    assert said.startswith("2 runs were read, of which 0 count: the claims are about CIFAR-10 at ratio 100, erm or mfw")
    assert coverage([*main_runs, *digits]).startswith("6 runs were read, of which 4 count")
    assert coverage(main_runs) == "4 runs were read, and the claims are about all of them"


def test_the_table_takes_the_place_of_the_old_one() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    changed = replaced(page, "new\n")
    assert changed == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    assert replaced(changed, "new") == changed
    for wrong in ("nothing", f"{END}{BEGIN}", page + page):
        with pytest.raises(RunError, match="no place for the table"):
            replaced(wrong, "new")


def test_pictures_are_shown_once_they_are_there(tmp_path: Path) -> None:
    page = tmp_path / "analysis.md"
    assert "![" not in block_for(page, [])
    (tmp_path / "figures" / "analysis").mkdir(parents=True)
    (tmp_path / "figures" / "analysis" / "deviation.png").touch()
    (line,) = (line for line in block_for(page, []).splitlines() if line.startswith("!["))
    assert line.endswith("(figures/analysis/deviation.png)")


def test_the_page_shows_what_the_records_of_this_repository_say() -> None:
    """docs/analysis.md is true at every moment; results/README.md has the command."""
    folders = [PROJECT / name for name in RECORDS if (PROJECT / name).is_dir()]
    results = [load_result(run) for folder in folders for run in runs_in(folder)]
    page = PROJECT / "docs" / "analysis.md"
    assert replaced(page.read_text(), block_for(page, results)) == page.read_text()

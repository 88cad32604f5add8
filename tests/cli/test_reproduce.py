from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from procrustean.base import Claim
from procrustean.runs.cost import TimeBox

Call = Callable[..., Any]
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture
def mine(npz: Path) -> str:
    base = {"net": "small", "epochs": 2, "batch_size": 16, "device": "cpu", "precision": "fp32"}
    rows: dict[str, Any] = {"ERM": {"method": "erm"}, "MFW": {"method": "mfw", "drw": True}}
    table = {"title": "Stripes", "base": base, "columns": {"stripes": {"source": str(npz)}}, "rows": rows}
    Path("mine.yaml").write_text(yaml.safe_dump({"tables": {"mine": table}}))
    return "mine.yaml"


def test_the_tables_are_listed(call: Call) -> None:
    answer = call("paper", "reproduce")
    assert answer.code == 0
    for name in ("cifar", "strong-augmentation", "fidelity-mixing", "rho100"):
        assert f"| {name} " in answer.out


def test_a_table_of_one_s_own(mine: str, call: Call) -> None:
    answer = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 2)
    assert answer.code == 0, answer.err
    assert answer.out.startswith("**Stripes: stripes**")
    assert "4 runs: 0 done, 0 begun, 4 to do" in answer.err
    assert len(list(Path("results/mine").glob("*.json"))) == 4
    assert "| ERM " in Path("runs/reproduce/mine.md").read_text()
    again = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 2)
    assert "4 runs: 4 done" in again.err
    assert again.out == answer.out
    shown = call("paper", "reproduce", "mine", "--tables", mine, "--show")
    assert (shown.code, shown.out) == (0, answer.out)
    third = call("paper", "reproduce", "mine", "--tables", mine, "--rows", "ERM", "--seeds", 3)
    assert "3 runs: 2 done, 0 begun, 1 to do" in third.err
    assert ("| ERM " in third.out, "| MFW" in third.out) == (True, False)
    narrowed = call("paper", "reproduce", "mine", "--tables", mine, "--rows", "ERM", "--show")
    assert narrowed.out == third.out
    assert "| MFW" in Path("runs/reproduce/mine.md").read_text()


def test_tables_are_printed_in_the_format_of_a_document(call: Call) -> None:
    shown = (
        "paper",
        "reproduce",
        "alpha",
        "--columns",
        "cifar10-*",
        "--results",
        PROJECT / "results",
        "--show",
        "--format",
    )
    tex, markdown = call(*shown, "latex").out, call(*shown, "markdown").out
    assert markdown.startswith("**The spread of the mixing share: cifar10-lt100**")
    assert (tex.count(r"\begin{table}"), tex.count(r"\end{table}")) == (2, 2)
    lower = next(line for line in tex.splitlines() if line.strip().startswith("alpha=1 "))
    assert lower.endswith(r"$\downarrow$ \\")
    assert tex.count(r"Accuracies in \%") == markdown.count("Accuracies in %") == 1
    assert not set("✓≈▲▼±") & set(tex)


def test_a_table_of_one_s_own_has_no_empty_columns_for_the_paper(mine: str, call: Call) -> None:
    answer = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1)
    heading = next(line for line in answer.out.splitlines() if line.startswith("| method"))
    assert [name.strip() for name in heading.split("|")[1:-1]] == [
        "method",
        "epochs",
        "seeds",
        "last",
        "oracle",
    ]
    assert "eld-out" not in answer.out
    assert answer.out.count("**") > 2  # beside the title, the best
    content = yaml.safe_load(Path(mine).read_text())
    content["tables"]["mine"]["base"]["hold_out"] = 2
    Path(mine).write_text(yaml.safe_dump(content))
    kept = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1).out
    assert "held-out |" in kept
    assert "Held-out: the epoch chosen on held-out images" in kept
    assert "paper" not in answer.out
    assert "published" not in answer.out
    assert "balanced accuracies where the test set is not balanced" in answer.out


def test_without_a_name_every_table_that_has_results_is_shown(mine: str, call: Call) -> None:
    content = yaml.safe_load(Path(mine).read_text())
    content["tables"]["empty"] = {**content["tables"]["mine"], "title": "Empty", "base": {"epochs": 3}}
    Path(mine).write_text(yaml.safe_dump(content))
    nothing = call("paper", "reproduce", "--tables", mine, "--show")
    assert nothing.out.startswith("Nothing of this is among the results")
    assert "there is no folder results, so nothing counts as measured" in nothing.err
    assert "there is no folder results" in call("paper", "reproduce", "--tables", mine).err
    trained = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1)
    assert "there is no folder" not in trained.err
    shown = call("paper", "reproduce", "--tables", mine, "--show")
    assert (shown.code, shown.out, shown.err) == (0, trained.out, "")
    assert "write its name before --rows" in call("paper", "reproduce", "--tables", mine, "--show", "--rows", "ERM").err


def test_only_the_seeds_that_were_asked_for_are_shown(mine: str, call: Call) -> None:
    def seeds(answer: Any) -> list[str]:
        return [line.split("|")[3].strip() for line in answer.out.splitlines() if line.startswith(("| ERM", "| MFW"))]

    assert call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 3, "--quiet").code == 0
    kept = Path("runs/reproduce/mine.md").read_text()
    everything = call("paper", "reproduce", "mine", "--tables", mine, "--show")
    assert seeds(everything) == ["3", "3"]
    two = call("paper", "reproduce", "mine", "--tables", mine, "--show", "--seeds", 2)
    assert seeds(two) == ["2", "2"]
    one = call("paper", "reproduce", "mine", "--tables", mine, "--show", "--seeds", 1, "--rows", "MFW")
    assert seeds(one) == ["1"]
    trained = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 2, "--quiet")
    assert trained.out == two.out
    assert Path("runs/reproduce/mine.md").read_text() == kept  # the file has everything
    for path in Path("results/mine").glob("*.json"):
        if json.loads(path.read_text())["config"]["seed"] == 0:
            path.unlink()
    for path in Path("runs/reproduce").glob("*seed0*"):
        shutil.rmtree(path)
    none = call("paper", "reproduce", "mine", "--tables", mine, "--show", "--seeds", 1)
    assert none.out.startswith("Nothing of this is among the results")
    assert "seeds = 0 received" in call("paper", "reproduce", "mine", "--tables", mine, "--show", "--seeds", 0).err


def test_the_command_is_kept_so_that_it_can_be_given_again(
    mine: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--rows", "ER[L-N]", "--seeds", "1", "--output", "my runs")
    arguments = ["paper", "reproduce", "mine", "--tables", mine, *options]
    monkeypatch.setattr(sys, "argv", ["procrustean", *arguments])
    assert call(*arguments).code == 0
    (path,) = Path("results/mine").glob("*.json")
    assert shlex.split(json.loads(path.read_text())["command"]) == ["procrustean", *arguments]


def test_a_dry_run_of_no_runs_at_a_time(call: Call) -> None:
    answer = call("paper", "reproduce", "digits", "--width", 0, "--dry-run")
    assert answer.code != 0
    assert "width = 0 received" in answer.err


def test_a_dry_run_needs_no_data_and_trains_nothing(call: Call) -> None:
    answer = call("paper", "reproduce", "cifar", "--rows", "MFW", "--columns", "cifar10-lt100", "--dry-run")
    assert answer.code == 0
    assert "0 to do, 1 to do, 2 to do" in answer.out
    assert "11.2 million images" in answer.out  # 3 * 300 * 12406
    assert "cifar10 is in none of" in answer.out
    assert not Path("runs").exists()
    assert not Path("results").exists()


def test_a_dry_run_of_few_images_counts_them_one_by_one(call: Call) -> None:
    column = {"source": "digits", "imbalance": "step", "rho": 20}
    table = {"columns": {"c": column}, "rows": {"r": {"method": "erm", "epochs": 2}}}
    Path("few.yaml").write_text(yaml.safe_dump({"tables": {"few": table}}))
    answer = call("paper", "reproduce", "few", "--tables", "few.yaml", "--dry-run")
    assert answer.code == 0
    assert "million" not in answer.out
    assert "3,150 images to train on" in answer.out  # 3 seeds, 2 epochs
    (row,) = (line for line in answer.out.splitlines() if line.startswith("| few "))
    assert row.replace("|", " ").split()[-1] == "1,050"
    assert "3 runs: 0 done" in answer.out
    assert "1 run: 0 done" in call("paper", "reproduce", "few", "--tables", "few.yaml", "--dry-run", "--seeds", 1).out


def test_a_dry_run_counts_the_images_of_one_s_own_sources(mine: str, folder: Path, call: Call) -> None:
    content = yaml.safe_load(Path(mine).read_text())
    columns = content["tables"]["mine"]["columns"]
    with np.load(columns["stripes"]["source"]) as arrays:
        stripes = len(arrays["train_labels"])
    columns["photos"] = {"source": str(folder)}
    columns["some kept back"] = {"source": str(folder), "hold_out": 3}
    columns["nowhere"] = {"source": "nowhere.npz"}
    Path(mine).write_text(yaml.safe_dump(content))
    arguments = ("paper", "reproduce", "mine", "--tables", mine, "--seeds", 2, "--rows", "ERM", "--dry-run")
    answer = call(*arguments)
    assert answer.code == 0, answer.err
    rows = [line.strip("| ").split("|") for line in answer.out.splitlines() if line.startswith("| mine ")]
    # Two epochs; of the photos, which come without a test set, a fifth is set aside.
    assert {row[2].strip(): row[-1].strip() for row in rows} == {
        "stripes": str(2 * stripes),
        "photos": "32",
        "some kept back": "20",
        "nowhere": "unknown",
    }
    images = f"{2 * (2 * stripes + 32 + 20)} images to train on"
    assert f"{images} and 2 runs on an unknown number of images, taken for 10,000 an epoch, about " in answer.out
    assert "there is no data set, file or folder nowhere.npz" in answer.out
    assert f"\n{4 * stripes} images to train on, about" in call(*arguments, "--columns", "stripes").out


def test_cells_that_cannot_be_trained_do_not_keep_others_from_it(mine: str, folder: Path, call: Call) -> None:
    content = yaml.safe_load(Path(mine).read_text())
    content["tables"]["mine"]["columns"] |= {
        "too steep": {"source": str(folder), "imbalance": "step", "rho": 50},
        "steeper than the digits": {"source": "digits", "imbalance": "step", "rho": 500},
        "lost": {"source": "lost.csv"},
        "lost elsewhere": {"source": "/nowhere/lost.npz"},
    }
    Path(mine).write_text(yaml.safe_dump(content))
    arguments = ("paper", "reproduce", "mine", "--tables", mine, "--rows", "ERM", "--seeds", 1)
    answer = call(*arguments, "--download")  # which fetches no files of the user's
    assert answer.code == 0, answer.err
    assert "1 run: 0 done, 0 begun, 1 to do" in answer.err
    assert len([*Path("results").rglob("*.json")]) == 1
    for reason in (
        f"{folder}: rho 50 leaves a class without images when the largest class has",
        "digits: rho 500 leaves a class without images",
        f"there is no data set, file or folder lost.csv (from {Path.cwd()}).",
        "there is no data set, file or folder /nowhere/lost.npz",
    ):
        assert f"left out: 1 cell of mine: {reason}" in answer.err
    alone = call(*arguments, "--columns", "too steep")
    assert alone.code == 2
    assert f"nothing can be trained. left out: 1 cell of mine: {folder}: rho 50 leaves" in alone.err


def test_the_time_box_says_what_is_left(mine: str, call: Call) -> None:
    answer = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1, "--minutes", 0)
    assert answer.code == 0
    assert "Nothing of this is among the results in" in answer.out
    assert "the time is up: 0 finished, 2 to go" in answer.err
    assert "give the same command again to go on" in answer.err
    one = call("paper", "reproduce", "mine", "--tables", mine, "--rows", "ERM", "--seeds", 1, "--minutes", 0)
    assert "the time is up: 0 finished, 1 to go" in one.err


def test_a_time_box_that_ends_within_the_first_run_tells_what_is_begun(
    mine: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count()
    monkeypatch.setattr(TimeBox, "is_over", lambda box: next(asked) > 2)
    answer = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1, "--minutes", 5, "--width", 1)
    assert answer.code == 0
    assert answer.out == "No run is finished yet, 1 begun in runs/reproduce.\n"
    assert "the time is up: 0 finished, 2 to go" in answer.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cifra",), "no table or suite 'cifra'. Did you mean 'cifar'"),
        (("--rows", "MFW", "cifar", "--dry-run"), "without a table; write its name before --rows and --columns"),
        (("cifar", "--rows", "MWF"), "no row of 'cifar' called 'MWF'"),
        (("--rows", "ERM"), "rows and columns received without a table"),
        (
            ("cifar", "--rows", "Focal", "--columns", "cifar10-step200", "--dry-run"),
            "no table has a cell in both a row and a column of those received; to see the cells of the rows, leave "
            "--columns out and add --dry-run\n",
        ),
        (("cifar",), "cifar10 is in none of"),
        (("rho100", "--rows", "Focal"), "no row of 'rho100' called 'Focal'"),
        (("cifar", "--tables", "nowhere.yaml"), "cannot read the configuration nowhere.yaml"),
        (("cifar", "--dry-run", "--seeds", "0"), "seeds = 0 received"),
        (("cifar", "--dry-run", "--data-seed", "-1"), "data_seed = -1 received"),
        (("cifar", "--dry-run", "--minutes", "-1"), "minutes = -1 received; give 0 or more"),
        (("cifar", "--pages", "pages"), "--pages tells of all tables of the paper; leave names of tables and"),
        (("--tables", "mine.yaml", "--pages", "pages"), "leave names of tables and --tables out"),
    ],
)
def test_mistakes_are_refused(arguments: tuple[str, ...], message: str, call: Call) -> None:
    answer = call("paper", "reproduce", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert not Path("pages").exists()


def test_what_to_write_into_an_empty_file_of_tables_makes_a_table(call: Call) -> None:
    Path("mine.yaml").write_text("# nothing yet\n")
    answer = call("paper", "reproduce", "--tables", "mine.yaml")
    assert answer.code == 2
    empty, advised, _ = answer.err.split("`")
    assert empty == "procrustean: mine.yaml is empty; write "
    Path("mine.yaml").write_text(advised)
    assert "| mine " in call("paper", "reproduce", "--tables", "mine.yaml").out


def test_a_table_that_needs_more_than_there_is_says_what(call: Call) -> None:
    Path("big.yaml").write_text(
        yaml.safe_dump(
            {"tables": {"big": {"columns": {"c": {"source": "galaxies"}}, "rows": {"r": {"method": "erm"}}}}}
        )
    )
    answer = call("paper", "reproduce", "big", "--tables", "big.yaml")
    assert answer.code == 2
    assert "1 cell of big: there is no data set, file or folder galaxies" in answer.err
    # What was measured elsewhere can be shown without the images.
    assert call("paper", "reproduce", "big", "--tables", "big.yaml", "--show").code == 0


def test_a_failing_run_is_named_and_the_others_are_shown(mine: str, call: Call) -> None:
    content = yaml.safe_load(Path(mine).read_text())
    content["tables"]["mine"]["rows"]["MFW"]["options"] = {"layer": "nowhere"}
    Path(mine).write_text(yaml.safe_dump(content))
    answer = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1, "--quiet")
    assert answer.code == 1
    assert "mine: MFW, stripes, seed 0 failed: layer 'nowhere'" in answer.err
    assert "| ERM " in answer.out


def test_runs_that_failed_before_are_named_with_what_tries_them_again(mine: str, call: Call) -> None:
    content = yaml.safe_load(Path(mine).read_text())
    content["tables"]["mine"]["rows"]["wild"] = {"method": "erm", "lr": 1e38}
    Path(mine).write_text(yaml.safe_dump(content))
    arguments = ("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1, "--quiet")
    first, again = call(*arguments), call(*arguments)
    assert "mine: wild, stripes, seed 0 failed: non-finite" in first.err
    assert (first.code, again.code) == (1, 1)
    assert again.err == (
        "procrustean: failed in an earlier call and not tried again: mine: wild, stripes, seed 0; why is in "
        "runs/reproduce/failures.json, and --retry tries them again\n"
    )
    assert "mine: wild, stripes, seed 0 failed: non-finite" in call(*arguments, "--retry").err
    assert call(*arguments, "--rows", "ERM").code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_what_another_process_trains_is_no_failure(mine: str, call: Call) -> None:
    arguments = ("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1, "--quiet")
    call(*arguments)
    (there,) = Path("runs/reproduce").glob("*-erm-*")
    shutil.rmtree("results")
    (there / "result.json").unlink()
    claim = Claim(there)
    answer = call(*arguments)
    claim.release()
    assert answer.code == 0
    assert "being trained by another process: mine: ERM, stripes, seed 0; give the same command again" in answer.err
    assert "failed" not in answer.err
    assert "| MFW" in answer.out


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"method": "mwf"}, "there is no method 'mwf'. Did you mean 'mfw'"),
        ({"method": "mfw", "options": {"alpha": -1}}, "alpha = -1.0 received"),
    ],
)
def test_a_cell_that_cannot_be_is_named(row: dict[str, Any], message: str, mine: str, call: Call) -> None:
    content = yaml.safe_load(Path(mine).read_text())
    content["tables"]["mine"]["rows"]["odd"] = row
    Path(mine).write_text(yaml.safe_dump(content))
    answer = call("paper", "reproduce", "mine", "--tables", mine, "--dry-run")
    assert f"table 'mine', row 'odd', column 'stripes': {message}" in answer.err
    assert answer.code == 2


def test_a_mistake_in_a_row_is_refused_with_its_place_before_anything_is_trained(mine: str, call: Call) -> None:
    content = yaml.safe_load(Path(mine).read_text())
    content["tables"]["mine"]["rows"]["odd"] = {"method": "erm", "lr": "fast"}
    Path(mine).write_text(yaml.safe_dump(content))
    answer = call("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1)
    assert answer.code == 2
    assert "table 'mine', row 'odd', column 'stripes': lr = 'fast' received; it has to be a number" in answer.err
    assert not Path("runs").exists()


def test_quiet_leaves_nothing_unsaid_but_progress(mine: str, call: Call) -> None:
    content = yaml.safe_load(Path(mine).read_text())
    content["tables"]["mine"]["columns"]["lost"] = {"source": "lost.csv"}
    Path(mine).write_text(yaml.safe_dump(content))
    arguments = ("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1, "--quiet")
    answer = call(*arguments)
    assert answer.code == 0
    assert answer.err.startswith(
        "procrustean: left out: 2 cells of mine: there is no data set, file or folder lost.csv"
    )
    (erm,) = Path("results/mine").glob("*erm*.json")
    erm.write_text(erm.read_text()[:100])
    shown = call(*arguments, "--show")
    assert f"procrustean: left out: {erm}" in shown.err


def test_a_row_without_a_number_keeps_its_place_with_a_dash(mine: str, call: Call) -> None:
    content = yaml.safe_load(Path(mine).read_text())
    content["tables"]["mine"]["rows"]["wild"] = {"method": "erm", "lr": 1e38}
    Path(mine).write_text(yaml.safe_dump(content))
    arguments = ("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1, "--quiet")
    assert call(*arguments).code == 1
    shown = call(*arguments, "--show")
    (row,) = [line for line in shown.out.splitlines() if line.startswith("| wild")]
    assert [cell.strip() for cell in row.strip("|").split("|")] == ["wild", "—", "—", "—", "—"]
    assert "1 run failed in earlier calls; which, and why, is in runs/reproduce/failures.json" in shown.err
    assert "| wild " in Path("runs/reproduce/mine.md").read_text()


def test_finished_runs_that_are_not_among_the_results_count(mine: str, call: Call) -> None:
    arguments = ("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1)
    assert call(*arguments).code == 0
    whole = call(*arguments, "--show").out
    shutil.rmtree("results")
    assert call(*arguments, "--show").out == whole
    assert "2 runs: 2 done, 0 begun, 0 to do" in call(*arguments, "--dry-run").out
    assert call(*arguments).code == 0
    assert len([*Path("results/mine").glob("*.json")]) == 2


def test_two_results_of_one_run_with_other_numbers_are_told_from_copies(mine: str, call: Call) -> None:
    arguments = ("paper", "reproduce", "mine", "--tables", mine, "--seeds", 1)
    assert call(*arguments).code == 0
    (erm,) = Path("results/mine").glob("*erm*.json")
    other = Path("results/again") / erm.name
    other.parent.mkdir()
    other.write_text(erm.read_text())
    apart = "but has other numbers; remove the one that does not count"
    assert apart not in call(*arguments, "--show").err
    record = json.loads(erm.read_text())
    record["selections"]["last"]["metrics"]["accuracy"] = 0.9
    other.write_text(json.dumps(record))
    assert f"is the same run as {other.resolve()}, {apart}" in call(*arguments, "--show").err


def test_pages_are_made_from_results(call: Call) -> None:
    shutil.copytree(PROJECT / "results" / "cifar10-rho100", "results")
    answer = call("paper", "reproduce", "--pages", "docs", "--quiet")
    assert answer.code == 0
    page = Path("docs/reproduction.md").read_text()
    assert "| MFW            | 74.4 / 78.5 ▽ |   77.1 / 80.1 ▼ |" in page
    Path("docs/reproduction.md").write_text(page.replace("Nothing has been written here yet.", "By hand."))
    call("paper", "reproduce", "--pages", "docs", "--quiet")
    assert "By hand." in Path("docs/reproduction.md").read_text()
    assert "MFW against ERM: +4.7." in Path("docs/which-method.md").read_text()


def test_pages_outlive_a_disk_that_fills_up(call: Call, files_up_to: Callable[[int], Any]) -> None:
    assert call("paper", "reproduce", "--pages", "docs", "--quiet").code == 0
    page = Path("docs/reproduction.md")
    page.write_text(page.read_text().replace("Nothing has been written here yet.", "By hand."))
    before = page.read_text()
    assert "By hand." in before
    with files_up_to(len(before) // 2):
        answer = call("paper", "reproduce", "--pages", "docs", "--quiet")
    assert answer.code == 2
    assert "cannot write docs/reproduction.md (File too large); choose another --pages\n" in answer.err
    assert page.read_text() == before
    assert {path.name for path in Path("docs").iterdir()} == {"reproduction.md", "which-method.md"}


def test_a_page_behind_a_link_is_replaced_where_it_is(call: Call) -> None:
    Path("docs").mkdir()
    Path("elsewhere.md").write_text("")
    Path("docs/which-method.md").symlink_to(Path("elsewhere.md").resolve())
    assert call("paper", "reproduce", "--pages", "docs", "--quiet").code == 0
    assert Path("docs/which-method.md").is_symlink()
    assert Path("elsewhere.md").read_text()


def test_a_page_that_is_no_text_is_left_alone(call: Call) -> None:
    Path("docs").mkdir()
    Path("docs/reproduction.md").write_bytes(b"\xff\xfe")
    answer = call("paper", "reproduce", "--pages", "docs", "--quiet")
    assert answer.code == 2
    assert "cannot read docs/reproduction.md, which is no text in UTF-8" in answer.err
    assert Path("docs/reproduction.md").read_bytes() == b"\xff\xfe"


@pytest.mark.slow
def test_pages_where_the_system_knows_only_ascii(work: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (work / "page.md").write_text("Süß\n<!-- claims: begin -->\n<!-- claims: end -->\n", encoding="utf-8")
    for arguments in (
        ["paper", "reproduce", "--pages", "docs"],
        ["paper", "reproduce", "--pages", "docs"],
        ["paper", "claims", "--page", "page.md"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "procrustean", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "▽" in (work / "docs/reproduction.md").read_text(encoding="utf-8")
    assert "Süß" in (work / "page.md").read_text(encoding="utf-8")


def test_results_carry_both_seeds(mine: str, call: Call) -> None:
    call("paper", "reproduce", "mine", "--tables", mine, "--rows", "MFW", "--seeds", 1, "--quiet")
    published = Path("runs/reproduce/mine.md").read_text()
    shutil.rmtree("results")
    call("paper", "reproduce", "mine", "--tables", mine, "--rows", "ERM", "--seeds", 1, "--data-seed", 5, "--quiet")
    assert Path("runs/reproduce/mine.md").read_text() == published
    assert "sets of data seed 5" in Path("runs/reproduce/mine-data-seed-5.md").read_text()
    (path,) = Path("results/mine").glob("*.json")
    config = json.loads(path.read_text())["config"]
    assert (config["seed"], config["data_seed"]) == (0, 5)


@pytest.mark.parametrize("source", ["tiny-imagenet", "tiered-imagenet", "imagenet-lt", "inaturalist18"])
def test_data_that_are_not_prepared_are_named_with_what_to_do(source: str, work: Path, call: Call) -> None:
    Path("big.yaml").write_text(
        yaml.safe_dump({"tables": {"big": {"columns": {"c": {"source": source}}, "rows": {"r": {"method": "erm"}}}}})
    )
    arguments = ("paper", "reproduce", "big", "--tables", "big.yaml")
    planned = call(*arguments, "--dry-run")
    assert (planned.code, "0 to do, 1 to do, 2 to do" in planned.out) == (0, True)
    for answer in (planned.out, call(*arguments).err, call(*arguments, "--download").err):
        said = next(line for line in answer.splitlines() if "has not been prepared" in line)
        assert f"{source}: " in said
        assert f"procrustean data prepare {source} --source" in said
    # An empty store will do: it is found here, and read when it is trained on.
    (work / "data" / "stores" / f"{source}-32").mkdir(parents=True)
    assert "has not been prepared" not in call(*arguments, "--dry-run", "--data-dir", "data").out

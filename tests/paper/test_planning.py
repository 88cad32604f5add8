from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_records import begun
from procrustean.base import ConfigError
from procrustean.engine.training import Position
from procrustean.paper import (
    Definitions,
    Plan,
    Store,
    canonical,
    make_plan,
    paper_definitions,
    plan_table,
    plan_text,
    read_definitions,
)
from procrustean.paper.comparison import held_out_variant
from procrustean.paper.plan_in_words import absence_lines, blocked_lines
from procrustean.records import RunSpec
from procrustean.records.checkpoints import save_checkpoint
from saved_states import saved_states

OpenStore = Callable[..., Store]


def everywhere(source: str, data_dir: Path | None) -> None:
    """All data are there."""


def made(definitions: Definitions, names: list[str], store: Store, **more: Any) -> Plan:
    return make_plan(definitions, definitions.parts(names), store, **{"absent": everywhere, **more})


def order(plan: Plan) -> list[tuple[str, str, int]]:
    return [(run.cells[0].row, run.cells[0].column, run.config.seed) for run in plan.runs]


def test_seed_by_seed_and_the_longest_first(definitions: Definitions, open_store: OpenStore) -> None:
    plan = made(definitions, ["small"], open_store(), seeds=2)
    # 300 epochs of 25250 images, of MFW and of ERM, then 200 of them, then the same of 12406.
    once = [("MFW", "step"), ("long", "step"), ("ERM", "step"), ("MFW", "tail"), ("long", "tail"), ("ERM", "tail")]
    assert order(plan) == [(*cell, seed) for seed in (0, 1) for cell in once]
    assert [run.images for run in plan.runs[:3]] == [300 * 25250, 300 * 25250, 200 * 25250]


def test_parts_in_the_order_they_are_given(definitions: Definitions, open_store: OpenStore) -> None:
    plan = made(definitions, ["other", "small"], open_store(), seeds=1)
    assert order(plan)[:2] == [("again", "tail", 0), ("new", "tail", 0)]
    assert order(made(definitions, ["small", "other"], open_store(), seeds=1))[-1] == ("new", "tail", 0)


def test_tables_share_the_runs_they_have_in_common(definitions: Definitions, open_store: OpenStore) -> None:
    plan = made(definitions, ["other", "small"], open_store(), seeds=1)
    assert len(plan.runs) == 7
    shared = next(run for run in plan.runs if run.cells[0].row == "again")
    assert [cell.place for cell in shared.cells] == ["other: again, tail", "small: MFW, tail"]
    assert shared.config.options == {}


def test_what_is_in_the_results_is_done(
    definitions: Definitions, open_store: OpenStore, write: Callable[..., Path]
) -> None:
    written = RunSpec("cifar10", "long_tailed", 100, method="mfw", options={"alpha": 1}, evaluate_every=4, seed=1)
    write(written, 0.7, 0.75)
    plan = made(definitions, ["small", "other"], open_store(), seeds=2)
    assert [(run.cells[0].row, run.config.seed) for run in plan.in_state("done")] == [("MFW", 1)]
    assert len(plan.remaining) == len(plan.runs) - 1


def test_a_result_with_other_defaults_does_not_count(
    definitions: Definitions, open_store: OpenStore, write: Callable[..., Path]
) -> None:
    path = write(RunSpec("cifar10", "step", 100, method="erm", evaluate_every=4), 0.6, 0.6)
    path.write_text(path.read_text().replace('"weight_decay": 0.0002', '"weight_decay": 0.0005'))
    said: list[str] = []
    plan = made(definitions, ["small"], open_store(said), seeds=1)
    assert plan.in_state("done") == []
    assert "other defaults" in said[0]


def test_files_that_are_no_results_are_passed_over(open_store: OpenStore, tmp_path: Path) -> None:
    (tmp_path / "results" / "deep").mkdir(parents=True)
    (tmp_path / "results" / "speed.json").write_text('{"peer": 1}')
    (tmp_path / "results" / "deep" / "broken.json").write_text("{")
    assert open_store().kept == {}


def test_two_files_of_one_run_count_once(open_store: OpenStore, write: Callable[..., Path]) -> None:
    path = write(RunSpec("cifar10", "step", 100, method="erm", evaluate_every=4), 0.6, 0.6)
    (path.parent / "copy.json").write_text(path.read_text())
    said: list[str] = []
    assert len(open_store(said).kept) == 1
    assert "the same run as" in said[0]


def test_a_run_that_has_begun_goes_on_in_its_folder(
    definitions: Definitions, open_store: OpenStore, tmp_path: Path
) -> None:
    config = canonical(RunSpec("cifar10", "step", 100, method="erm", evaluate_every=4))
    place = tmp_path / "runs" / "called-by-an-older-version"
    begun(config, place)
    (going_on,) = made(definitions, ["small"], open_store(), seeds=1).in_state("begun")
    assert going_on.config.run_dir == place
    assert going_on.config.hash == config.hash


def test_of_a_run_that_has_begun_the_rest_is_predicted(
    definitions: Definitions, open_store: OpenStore, tmp_path: Path
) -> None:
    config = canonical(RunSpec("cifar10", "step", 100, method="erm", evaluate_every=4))
    place = tmp_path / "runs" / config.slug
    begun(config, place)
    parts = definitions.parts(["small"], rows=["ERM"], columns=["step"])

    def text() -> str:
        plan = make_plan(definitions, parts, open_store(), seeds=1, absent=everywhere)
        return plan_text(plan, rate=1000.0, width=1, machine="NVIDIA H200").splitlines()[1]

    assert text().startswith("5.0 million images to train on, about 1 h 24 min here")  # no checkpoint: all of it
    save_checkpoint(place, 1, {}, vars(Position(epoch=150, step=99, records=150)))  # 99 of 198 steps
    assert text().startswith("1.2 million images to train on, about 20 min 50 s here")
    saved_states(place)[-1].write_bytes(b"{")
    assert text().startswith("5.0 million")  # what is wrong is said when the run is to go on


def test_failed_runs_are_not_tried_again_unless_asked(definitions: Definitions, open_store: OpenStore) -> None:
    store = open_store()
    failed = canonical(RunSpec("cifar10", "step", 100, method="erm", evaluate_every=4))
    store.note_failure(failed, "ERM: non-finite loss")
    plan = made(definitions, ["small"], store, seeds=1)
    assert [run.cells[0].row for run in plan.in_state("failed")] == ["ERM"]
    assert "ERM: non-finite loss" in plan_text(plan, rate=1.0, width=1, machine="cpu")
    assert made(definitions, ["small"], store, seeds=1, retry=True).in_state("failed") == []


def test_a_folder_that_is_not_there_is_left_out_and_the_rest_is_planned(
    tables: dict[str, Any], open_store: OpenStore, tmp_path: Path
) -> None:
    tables["tables"]["small"]["columns"].append("own")
    tables["columns"]["own"] = {"source": str(tmp_path / "gone")}
    definitions = read_definitions(tables, origin="test")
    plan = make_plan(definitions, definitions.parts(["small"]), open_store(), seeds=1, download=True)
    assert len(plan.runs) == 6
    (line,) = blocked_lines(plan)
    assert line.startswith("left out: 3 cells of small: there is no data set, file or folder ")
    assert str(tmp_path / "gone") in line


def test_data_that_are_not_here_are_left_out_unless_they_may_be_downloaded(
    definitions: Definitions, open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PROCRUSTEAN_DATA", raising=False)
    parts, store = definitions.parts(["small"]), open_store()
    plan = make_plan(definitions, parts, store, seeds=1)
    assert (plan.runs, [len(cells) for cells in plan.blocked.values()]) == ((), [6])
    assert "cifar-10-python.tar.gz" in next(iter(plan.blocked))
    assert len(make_plan(definitions, parts, store, seeds=1, download=True).runs) == 6
    (tmp_path / "cache" / "procrustean" / "cifar-10-batches-py").mkdir(parents=True)
    assert len(make_plan(definitions, parts, store, seeds=1).runs) == 6


def test_the_held_out_column_has_runs_of_its_own(definitions: Definitions, open_store: OpenStore) -> None:
    plan = made(definitions, ["small", "readings"], open_store(), seeds=1, held_out=True)
    small = [run for run in plan.runs if run.cells[0].table == "small"]
    assert len(small) == 12
    # Behind those on all images, which are the headline.
    assert [run.config.hold_out for run in small] == [0] * 6 + [50] * 6
    assert {run.config.hold_out_from for run in small[6:]} == {"source"}
    readings = [run for run in plan.runs if run.cells[0].table == "readings"]
    assert {run.config.hold_out for run in readings} == {500}


def test_held_out_variants() -> None:
    tail = RunSpec("cifar100", "long_tailed", 100, method="erm")
    assert held_out_variant(tail) == replace(tail, hold_out=5, hold_out_from="source")
    few = RunSpec("digits", "step", 20, method="erm")
    assert held_out_variant(few) == replace(few, hold_out=3, hold_out_from="source")  # as many as the paper holds out
    assert held_out_variant(replace(tail, hold_out=3)) is None
    assert held_out_variant(RunSpec("inaturalist18", method="erm")) is None


def test_seeds_are_at_least_one(definitions: Definitions, open_store: OpenStore) -> None:
    with pytest.raises(ConfigError, match="seeds = 0"):
        made(definitions, ["small"], open_store(), seeds=0)


def test_both_seeds_are_in_the_settings(definitions: Definitions, open_store: OpenStore) -> None:
    plan = made(definitions, ["small"], open_store(), seeds=2, data_seed=3)
    assert {(run.config.seed, run.config.data_seed) for run in plan.runs} == {(0, 3), (1, 3)}


def test_the_first_block_costs_what_it_is_said_to(open_store: OpenStore) -> None:
    definitions = paper_definitions()
    plan = made(definitions, ["rho100"], open_store(), seeds=3)
    per_epoch = 12406 + 25250
    # Five methods for 200 epochs, MFW twice and two controls for 300.
    assert sum(run.images for run in plan.runs) == 3 * (5 * 200 + 4 * 300) * per_epoch
    assert len(plan.runs) == 3 * 9 * 2


def test_the_plan_in_words(definitions: Definitions, open_store: OpenStore, write: Callable[..., Path]) -> None:
    write(RunSpec("cifar10", "step", 100, method="erm", evaluate_every=4), 0.6, 0.6)
    plan = made(definitions, ["small"], open_store(), seeds=2)
    text = plan_text(plan, rate=140_000.0, width=8, machine="NVIDIA H200")
    assert text.startswith("12 runs: 1 done, 0 begun, 11 to do\n")
    remaining = 2 * (2 * 300 + 200) * (12406 + 25250) - 200 * 25250
    assert f"{remaining / 1e6:.1f} million images" in text
    shown = [[cell.text for cell in row] for row in plan_table(plan).rows]
    assert ["small", "ERM", "step", "0 done, 1 to do", "5.0 million"] in shown


def test_what_can_be_trained_without_images_that_are_not_here(
    tables: dict[str, Any], open_store: OpenStore, tmp_path: Path
) -> None:
    tables["columns"]["step"] = {"source": "digits", "imbalance": "step", "rho": 10}
    definitions = read_definitions(tables, origin="mine.yaml")
    plan = made(definitions, ["small"], open_store(), seeds=1)
    *reasons, without = absence_lines(plan, tmp_path, rate=1000.0, width=1, machine="cpu")
    assert [reason.split()[0] for reason in reasons] == ["cifar10"]
    assert without.startswith("without cifar10: 3 of 6 runs, ")
    only = make_plan(
        definitions, definitions.parts(["small"], columns=["tail"]), open_store(), seeds=1, absent=everywhere
    )
    (reason,) = absence_lines(only, tmp_path, rate=1000.0, width=1, machine="cpu")
    assert reason == reasons[0]


def test_cells_that_share_their_runs_are_in_the_plan(definitions: Definitions, open_store: OpenStore) -> None:
    plan = made(definitions, ["small", "other", "readings"], open_store(), seeds=2)
    rows = {(row[0].text, row[1].text, row[2].text): row[3].text for row in plan_table(plan).rows}
    assert len(rows) == 6 + 2 + 6
    assert rows["other", "again", "tail"] == "same runs as small: MFW, tail"
    # On CIFAR-10 with step imbalance both standard deviations come to the same strengths.
    assert rows["readings", "geometric, 500 held out", "step"] == "0 to do, 1 to do"
    assert rows["readings", "arithmetic, 500 held out", "step"] == "same runs as geometric"
    single = made(definitions, ["small", "other"], open_store(), seeds=1)
    assert "same run as small: MFW, tail" in [row[3].text for row in plan_table(single).rows]


def test_the_title_of_a_plan_tells_the_order_of_training(definitions: Definitions, open_store: OpenStore) -> None:
    titles = [plan_table(made(definitions, ["small"], open_store(), seeds=seeds)).title for seeds in (1, 2)]
    assert titles == ["Plan, in the order of training", "Plan, within a table seed by seed, cells in this order"]


@pytest.mark.parametrize("suite", paper_definitions().suites)
def test_no_two_runs_of_a_plan_have_the_same_name(suite: str, open_store: OpenStore) -> None:
    plan = made(paper_definitions(), [suite], open_store(), seeds=2, held_out=True)
    names = [run.name for run in plan.runs]
    assert len(set(names)) == len(names)

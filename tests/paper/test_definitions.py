from __future__ import annotations

from typing import Any

import pytest

from procrustean.balance.mfw_module import strength_of
from procrustean.base import ConfigError
from procrustean.paper import Cell, Definitions, Part, check_cell, paper_definitions, read_definitions
from procrustean.paper.toy import METHODS, SETTING
from procrustean.records import RunSpec
from procrustean.runs.training_sizes import training_counts


def test_a_cell_has_the_settings_of_table_column_and_row() -> None:
    cell = next(
        c for c in paper_definitions().tables["fidelity-drw"].cells() if c.row == "by the batch size, mixing off"
    )
    assert cell.column == "cifar10-lt100"
    assert cell.config(seed=2, data_seed=7) == RunSpec(
        source="cifar10",
        imbalance="long_tailed",
        rho=100,
        method="mfw",
        drw=True,
        options={"reduction": "mean", "keep_mixing": False},
        hold_out=500,
        hold_out_from="source",
        evaluate_every=4,
        seed=2,
        data_seed=7,
    )


def test_the_tables_of_the_paper_are_all_there() -> None:
    wanted = "cifar layer alpha beta label-mixing large-rho densenet toy strong-augmentation tiny-imagenet"
    wanted += " tiered-imagenet imagenet-lt inaturalist18"
    assert set(wanted.split()) <= set(paper_definitions().tables)


def test_rows_of_the_paper_have_its_cells_and_no_others() -> None:
    cells = paper_definitions().tables["cifar"].cells(rows=["BBN"])
    assert [cell.column for cell in cells] == ["cifar10-lt100", "cifar10-lt10", "cifar100-lt100", "cifar100-lt10"]


def test_a_table_of_a_user_s_that_is_called_like_the_paper_s_has_its_own_cells() -> None:
    own = {"columns": {"digits": {"source": "digits"}}, "rows": {"ERM": {"method": "erm"}}}
    cells = read_definitions({"tables": {"cifar": own}}, origin="mine.yaml").tables["cifar"].cells()
    assert [(cell.row, cell.column) for cell in cells] == [("ERM", "digits")]


def test_rows_and_columns_by_pattern(definitions: Definitions) -> None:
    small = definitions.tables["small"]
    assert [(c.row, c.column) for c in small.cells(rows=["M*"], columns=["s*"])] == [("MFW", "step")]
    assert len(small.cells()) == 6


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        (["MWF"], [], r"no row of table 'small' called 'MWF'. Did you mean 'MFW'"),
        ([], ["stp"], r"no column of table 'small' called 'stp'. Did you mean 'step'"),
    ],
)
def test_names_that_match_nothing_are_refused(
    rows: list[str], columns: list[str], message: str, definitions: Definitions
) -> None:
    with pytest.raises(ConfigError, match=message):
        definitions.tables["small"].cells(rows, columns)


def test_rows_and_columns_of_several_tables_narrow_those_that_have_them(definitions: Definitions) -> None:
    names = ["small", "other"]
    assert definitions.parts(names, rows=["ERM", "new"]) == [
        Part("small", ("ERM",), ("tail", "step")),
        Part("other", ("new",), ("tail",)),
    ]
    assert definitions.parts(names, rows=["n*"], columns=["tail"]) == [Part("other", ("new",), ("tail",))]
    with pytest.raises(ConfigError, match=r"no row of any of 'small', 'other' called 'nwe'. Did you mean 'new'"):
        definitions.parts(names, rows=["nwe"])
    with pytest.raises(ConfigError, match="no table has a cell in both a row and a column of those received"):
        definitions.parts(names, rows=["new"], columns=["step"])


def test_a_row_that_is_not_made_for_a_column_shares_no_cell_with_it(tables: dict[str, Any]) -> None:
    tables["tables"]["small"]["rows"]["MFW"]["columns"] = ["tail"]
    definitions = read_definitions(tables, origin="mine.yaml")
    with pytest.raises(ConfigError, match="no table has a cell in both a row and a column of those received"):
        definitions.parts(["small"], rows=["MFW"], columns=["step"])
    assert definitions.parts(["small", "readings"], rows=["MFW", "batch"], columns=["step"]) == [
        Part("readings", ("batch",), ("step",))
    ]


def test_names_that_several_tables_share_are_listed_once(definitions: Definitions) -> None:
    names = ["small", "other", "readings"]
    with pytest.raises(ConfigError, match=r"called 'xyz'\. Known: tail, step\.$"):
        definitions.parts(names, columns=["xyz"])
    with pytest.raises(ConfigError, match=r"called '10'\. Known: ERM, MFW, long\.$"):
        definitions.parts(["small", "small"], rows=["10"])


def test_suites_stand_for_their_parts(definitions: Definitions) -> None:
    cells = definitions.cells(definitions.parts(["both"]))
    assert [c.place for c in cells] == [
        "other: again, tail",
        "other: new, tail",
        "small: ERM, tail",
        "small: ERM, step",
    ]
    with pytest.raises(ConfigError, match=r"no table or suite 'smal'. Did you mean 'small'"):
        definitions.parts(["smal"])


def test_rows_and_columns_narrow_suites_too(definitions: Definitions) -> None:
    cells = definitions.cells(definitions.parts(["both"], rows=["ERM", "again"], columns=["tail"]))
    assert [c.place for c in cells] == ["other: again, tail", "small: ERM, tail"]
    # MFW is a row of the table 'small', but not of this part of it
    with pytest.raises(ConfigError, match="no row of 'both' called 'MFW'"):
        definitions.parts(["both"], rows=["MFW"])


def test_a_name_with_brackets_stands_for_itself(tables: dict[str, Any]) -> None:
    own = {
        "rows": {"MFW [ours]": {"method": "mfw", "columns": ["tail [1]"]}},
        "columns": {"tail [1]": {"source": "digits"}},
    }
    spec = read_definitions({**tables, "tables": {"small": own}, "suites": {}}, origin="mine.yaml").tables["small"]
    assert [cell.row for cell in spec.cells(["MFW [ours]"], ["tail [1]"])] == ["MFW [ours]"]


@pytest.mark.parametrize("whose", ["base", "row"])
def test_a_column_may_take_everything_from_the_base_or_the_rows(whose: str) -> None:
    source = {"source": "digits"}
    base, row = (source, {}) if whose == "base" else ({}, source)
    own = {"base": {"epochs": 2, **base}, "columns": {"all": {}}, "rows": {"ERM": {"method": "erm", **row}}}
    (cell,) = read_definitions({"tables": {"mine": own}}, origin="mine.yaml").tables["mine"].cells()
    assert cell.column == "all"
    assert cell.config() == RunSpec("digits", method="erm", epochs=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colums": {}}, "mine.yaml: .* unknown field `colums`"),
        ({"tables": {"t": {"rows": {"ERM": {}}, "columns": ["tail"]}}}, "row 'ERM' has no method, whatever its name"),
        (
            {"tables": {"t": {"rows": {"r": {"method": "mfw", "alpha": 2}}, "columns": ["tail"]}}},
            r"row 'r' has an unknown setting 'alpha'. It is an option of mfw; write options: \{alpha: 2\}",
        ),
        (
            {"tables": {"t": {"base": {"method": "mfw"}, "rows": {"r": {"alpha": 2}}, "columns": ["tail"]}}},
            r"row 'r' has an unknown setting 'alpha'. It is an option of mfw; write options: \{alpha: 2\}",
        ),
        (
            {"tables": {"t": {"rows": {"r": {"method": ["mfw"], "alpha": 2}}, "columns": ["tail"]}}},
            "row 'r' has an unknown setting 'alpha'",
        ),
        ({"tables": {"t": {"rows": {}, "columns": ["tail"]}}}, "table 't' has no rows"),
        ({"tables": {"t": {"rows": {"r": {}}}}}, "table 't' has no columns"),
        (
            {"tables": {"t": {"base": {"source": "digits"}, "rows": {"r": {}}, "columns": ["nowhere"]}}},
            "column 'nowhere' without settings; give them, define the column",
        ),
        (
            {"tables": {"t": {"rows": {"r": {"method": "erm"}}, "columns": {"all": {}}}}},
            "column 'all' without settings; .* give the base a source",
        ),
        ({"tables": {"t": {"rows": {"r": {}}, "columns": ["tail"], "metrics": ["top3"]}}}, "'top3' - at `\\$.metrics"),
        ({"tables": {"t": {"rows": {"r": {}}, "columns": ["tail"], "titel": "x"}}}, "table 't': .*field `titel`"),
        (
            {"tables": {"t": {"rows": {"r": {"epoch": 3}}, "columns": ["tail"]}}},
            "mine.yaml, table 't', row 'r' has an unknown setting 'epoch'. Did you mean 'epochs'",
        ),
        (
            {"tables": {"t": {"rows": {"r": {}}, "base": {"epoch": 3}, "columns": ["tail"]}}},
            "table 't', base has an unknown setting 'epoch'",
        ),
        ({"columns": {"c": {"sourse": "digits"}}}, "mine.yaml, column 'c' has an unknown setting 'sourse'"),
        (
            {"tables": {"t": {"rows": {"r": {}}, "columns": {"c": {"rh": 3}}}}},
            "table 't', column 'c' has an unknown setting 'rh'",
        ),
        ({"tables": {"t": {"rows": {"r": "erm"}, "columns": ["tail"]}}}, "row 'r': Expected `object`, got `str`"),
        (
            {"tables": {"t": {"rows": {"r": {"columns": "tail"}}, "columns": ["tail"]}}},
            "row 'r', columns: Expected `array`, got `str`",
        ),
        (
            {"tables": {"t": {"rows": {"r": {"columns": ["tial"]}}, "columns": ["tail"]}}},
            "no column for .*table 't', row 'r' called 'tial'. Did you mean 'tail'",
        ),
        ({"tables": {"a/b": {"rows": {"r": {}}}}}, "table 'a/b': its results are kept in a folder of this name"),
        ({"tables": {"..": {"rows": {"r": {}}}}}, r"table '\.\.': its results are kept in a folder of this name"),
        ({"tables": {7: {}}}, "mine.yaml: Expected `str`, got `int`"),
        (
            {"tables": {"t": {"rows": {"r": {"options": 3}}, "columns": ["tail"]}}},
            "row 'r', options: Expected `object`",
        ),
        ({"suites": {"s": {"parts": []}}}, "suite 's': .* length >= 1 - at .*parts"),
        ({"suites": {"s": {"parts": [{"table": "smal"}]}}}, "suite 's' names the table 'smal'. Did you mean 'small'"),
        ({"suites": {"s": {"parts": [{"table": "small", "rows": ["x"]}]}}}, "no row of table 'small'"),
    ],
)
def test_mistakes_are_refused_by_name(change: dict[str, Any], message: str, tables: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=message):
        read_definitions({**tables, **change}, origin="mine.yaml")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"net": "resnet999"}, "there is no network 'resnet999'"),
        ({"recipe": "cold"}, "recipe 'cold'"),
        ({"method": "emr"}, "'emr'.*Did you mean 'erm'"),
        ({"lr": "fast"}, "lr = 'fast' received"),
        ({"epochs": -3}, "epochs"),
        ({"imbalance": "step"}, "needs its ratio"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_their_place(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=f"^table 't', row 'r', column 'c': .*{message}"):
        check_cell(Cell("t", "r", "c", {"source": "digits", **settings}))


def test_a_row_may_have_its_method_from_its_own_columns(tables: dict[str, Any]) -> None:
    columns = {"a": {"source": "digits", "method": "erm"}, "b": {"source": "digits"}}
    own = {"columns": columns, "rows": {"r": {"columns": ["a"]}, "s": {"method": "mfw"}}}
    spec = read_definitions({**tables, "tables": {"t": own}, "suites": {}}, origin="mine.yaml").tables["t"]
    assert [(cell.row, cell.column, cell.config().method) for cell in spec.cells()] == [
        ("r", "a", "erm"),
        ("s", "a", "mfw"),
        ("s", "b", "mfw"),
    ]


@pytest.mark.parametrize("name", ["seed", "data_seed", "run_dir", "data_dir"])
def test_what_the_command_decides_is_no_setting_of_a_table(name: str, tables: dict[str, Any]) -> None:
    tables["columns"]["tail"][name] = 5
    with pytest.raises(ConfigError, match=f"column 'tail' has the setting '{name}', which no table decides: .*--"):
        read_definitions(tables, origin="mine.yaml")


def test_every_cell_of_the_papers_tables_can_be_trained() -> None:
    for spec in paper_definitions().tables.values():
        for cell in spec.cells():
            check_cell(cell)


def test_on_cifar10_the_geometric_strengths_are_the_same_for_every_beta() -> None:
    """Why the table of beta has one row for all of them there."""
    for column in ("cifar10-lt100", "cifar10-step100"):
        (cell,) = paper_definitions().tables["beta"].cells(["geometric, the default beta"], [column])
        counts = training_counts(cell.config())
        assert counts is not None
        strengths = [strength_of(counts, beta=beta) for beta in (0.01, 0.1, 0.5, 1, 2, 5)]
        assert max(abs(a - b) for s in strengths for a, b in zip(s, strengths[0], strict=True)) < 0.005


def test_the_toy_of_the_table_is_that_of_its_command() -> None:
    cells = paper_definitions().tables["toy"].cells()
    assert [cell.row for cell in cells] == ["ERM", "MFW"]
    for cell, method in zip(cells, METHODS, strict=True):
        wanted = RunSpec.from_json({**SETTING, **method, "evaluate_every": 4})
        assert cell.config().to_json() == wanted.to_json()

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from procrustean.records import group_results
from procrustean.records.groups import by_options
from procrustean.records.run_record import Result

Make = Callable[..., Result]


def test_runs_of_one_label_stand_by_their_options(result: Make) -> None:
    def mfw(alpha: Any, **fields: Any) -> Result:
        return result(label="MFW", method="mfw", options={"alpha": alpha}, **fields)

    given = [mfw(10.0), result(label="ERM"), mfw(None), mfw(0.5), mfw(2.0, rho=100.0), mfw(1.0, rho=100.0), mfw("x")]
    found = [
        (group.label, group.data.rho, group.results[0].record.method.options.get("alpha"))
        for group in by_options(group_results(given))
    ]
    assert found == [
        ("MFW", 50.0, None),
        ("ERM", 50.0, None),
        ("MFW", 50.0, 0.5),
        ("MFW", 50.0, 10.0),
        ("MFW", 100.0, 1.0),
        ("MFW", 100.0, 2.0),
        ("MFW", 50.0, "x"),
    ]

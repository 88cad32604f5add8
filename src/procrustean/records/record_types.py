"""Whether the values of a record are of the kinds that tables and figures compute with."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from procrustean.base.errors import RunError
from procrustean.base.json_files import is_number, is_whole

Test = Callable[[Any], bool]

#: By so much a mean of shares may lie outside of 0 and 1.
ROUNDING = 1e-6


def check_types(record: dict[str, Any], place: str) -> None:
    """Refuse a record in which something else stands where a number, a text or a list has to be.

    Accuracies are shares: one that is none, 7.3 or -0.2, would be the best or the worst of a table.

    Args:
        record: the content of a result.json whose parts are all there.
        place: where it came from, for the message.
    """
    for part in ("config", "recipe", "data", "method", "selections", "curves"):
        _require(record, part, _mapping, place)
    data = record["data"]
    _require(data, "classes", _list_of(_text), place)
    _require(data, "counts", _list_of(is_whole, len(data["classes"])), place)
    _require(record["recipe"], "epochs", is_whole, place)
    config, method = record["config"], record["method"]
    for mapping, name, test in (
        (config, "seed", is_whole),
        (config, "data_seed", is_whole),
        (config, "options", _mapping),
        (config, "hold_out", is_number),
        (data, "source", _text),
        (data, "rho", is_number),
        (data, "kind", _text),
        (method, "name", _text),
        (method, "options", _mapping),
        (method, "stages", _list_of(lambda stage: _mapping(stage) and is_whole(stage.get("epochs")))),
        (method, "finish", _mapping),
        (method, "parameters", is_whole),
        (record, "probes", _mapping),
        (record, "calibration", lambda kept: _mapping(kept) and _mapping_of_numbers(kept.get("test", {}))),
        (record, "environment", _mapping),
        (record, "finished_at", _time),
        (record, "seconds", _mapping_of_numbers),
        (record, "images_per_second", is_number),
    ):
        if mapping.get(name) is not None:
            _require(mapping, name, test, place)
    for selection in record["selections"].values():
        if selection is not None:
            _require(selection, "epoch", is_whole, place)
            _check_metrics(selection["metrics"], len(data["classes"]), place)
    _check_curves(record["curves"], len(data["classes"]), place)
    if record.get("probes") is not None:
        _check_probes(record["probes"], len(data["classes"]), place)


def _check_curves(curves: dict[str, Any], classes: int, place: str) -> None:
    per_class = _list_of(_share_or_nothing, classes)
    for name in curves:
        if name == "evaluated":
            _require(curves, name, _list_of(is_whole), place)
        elif name.endswith("_recall") and curves[name] is not None:
            _require_share(curves, name, _list_of(lambda value: value is None or per_class(value)), place)
        elif name.endswith("accuracy") and curves[name] is not None:
            _require_share(curves, name, _list_of(_share_or_nothing), place)
        elif curves[name] is not None:
            _require(curves, name, _list_of(_number_or_nothing), place)


def _check_probes(probes: dict[str, Any], classes: int, place: str) -> None:
    _require(probes, "epochs", _list_of(is_whole), place)
    per_class = _list_of(_number_or_nothing, classes)
    for name in probes:
        if name == "layer":
            names = _list_of(lambda value: value is None or isinstance(value, str), len(probes["epochs"]))
            _require(probes, name, names, place)
        elif name != "epochs":
            values = _list_of(lambda value: value is None or per_class(value), len(probes["epochs"]))
            _require(probes, name, values, place)


def _check_metrics(metrics: dict[str, Any], classes: int, place: str) -> None:
    _require(metrics, "headline", ("accuracy", "balanced_accuracy").__contains__, place)
    _require_share(metrics, metrics["headline"], _share, place)
    for name in ("accuracy", "balanced_accuracy", "macro_f1", "top5"):
        _require_share(metrics, name, _share_or_nothing, place)
    _require_share(metrics, "recall", _list_of(_share_or_nothing, classes), place)
    if metrics.get("precision") is not None:
        _require_share(metrics, "precision", _list_of(_share_or_nothing, classes), place)
    if metrics.get("confusion") is not None:
        _require(metrics, "confusion", _list_of(_list_of(is_whole, classes), classes), place)
    _require(metrics, "groups", _mapping, place)
    for name in metrics["groups"]:
        _require_share(metrics["groups"], name, _share_or_nothing, place)


def _time(value: object) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return isinstance(value, str)


def _require_share(mapping: dict[str, Any], name: str, test: Test, place: str) -> None:
    _require(mapping, name, test, place, expected="; it has to be from 0 to 1")


def _require(mapping: dict[str, Any], name: str, test: Test, place: str, *, expected: str = "") -> None:
    if not test(mapping.get(name)):
        raise RunError(
            f"{place} is damaged: {name} = {mapping.get(name)!r:.60}{expected}. Restore it, or run the training again."
        )


def _mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _mapping_of_numbers(value: Any) -> bool:
    return _mapping(value) and all(map(is_number, value.values()))


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number_or_nothing(value: Any) -> bool:
    return value is None or is_number(value)


def _share(value: Any) -> bool:
    return is_number(value) and -ROUNDING <= value <= 1 + ROUNDING


def _share_or_nothing(value: Any) -> bool:
    return value is None or _share(value)


def _list_of(test: Test, length: int | None = None) -> Test:
    def all_pass(values: Any) -> bool:
        return isinstance(values, list) and length in (None, len(values)) and all(test(value) for value in values)

    return all_pass

"""Accuracy along any option of a method that is a number, also of methods of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from procrustean.base.errors import ConfigError, RunError, did_you_mean
from procrustean.records.groups import Group, Result, data_parts, group_results
from procrustean.records.identity import setting_of
from procrustean.report.figures.along import Line, Number, accuracies, lines_along, points_alone
from procrustean.report.figures.panels import KINDS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def along_option(results: Sequence[Result], option: str) -> Figure:
    """Test accuracy of the last epoch along the option; a row of panels per data set and imbalance."""
    return accuracies(_number(option), lines_along_option(results, option))


def remarks(results: Sequence[Result], option: str) -> list[str]:
    """What is missing for lines, in a sentence for all that lack the same."""
    alone = points_alone(_number(option), lines_along_option(results, option))
    return [f"{said}; train with other values too: --options {option}=..." for said in alone.values()]


def lines_along_option(results: Sequence[Result], option: str) -> list[Line]:
    """The runs as lines along the option, each of settings that differ in nothing else.

    Raises:
        RunError: if a run has no number there, or there are several choices of images at one point.
    """
    # Where one has the option, but no number, that says more than that another has no such option.
    for result in sorted(results, key=lambda result: option not in _options(result)):
        if why := lack_of(result, option):
            raise RunError(f"there is no run to draw along {option}: {why}. {_known(option, results)}")
    return lines_along(_number(option), group_results(results, setting=lambda result: _setting(result, option)))


def option_to_draw(option: str | None, results: Sequence[Result]) -> str:
    """The option that was asked for.

    Raises:
        ConfigError: if none was.
    """
    if option:
        return option
    raise ConfigError(
        f"the figure `option` is drawn along an option of a method; name it: --over NAME. {_known('', results)}"
    )


def lack_of(result: Result, option: str) -> str:
    """Why a run has no place along an option; empty where it has one."""
    options = _options(result)
    if _value(result, option) is not None:
        return ""
    if option not in options:
        return f"{result.label} has no option {option!r}"
    if options[option] is None:
        return (
            f"{option} of {result.label} was left to its default, which is no number; give it: --options {option}=..."
        )
    return f"{option} of {result.label} is {options[option]!r}, not a number"


def _known(option: str, results: Sequence[Result]) -> str:
    """The options along which these runs could be drawn; those of a name like it, if it is no option of theirs."""
    known = sorted({name for result in results for name in _options(result) if _value(result, name) is not None})
    if not known:
        return "None of their options is a number."
    return did_you_mean("" if any(option in _options(result) for result in results) else option, known)


def _options(result: Result) -> dict[str, Any]:
    return dict(result.record["method"].get("options") or {})


def _value(result: Result, option: str) -> float | None:
    value = _options(result).get(option)
    if value is None and result.record["method"]["name"] == "mfw":
        from procrustean.methods.mfw import usual_value

        return usual_value(option, str(result.data["source"]), str(result.data["kind"]))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _setting(result: Result, option: str) -> dict[str, Any]:
    """The setting of a run with the value of the option, whether it was given or is the default."""
    setting = setting_of(result)
    return {**setting, "options": {**setting["options"], option: _value(result, option)}}


def _number(option: str) -> Number:
    def of(group: Group) -> float:
        value = _value(group.results[0], option)
        assert value is not None
        return value

    def common(group: Group) -> dict[str, Any]:
        # Without the label, which may name the option.
        setting = {name: value for name, value in setting_of(group.results[0]).items() if name != "label"}
        return {**setting, "options": {name: v for name, v in setting["options"].items() if name != option}}

    return Number(name=option, setting=option, of=of, common=common, row=_row)


def _row(group: Group) -> tuple[str, str]:
    parts, kind = data_parts(group), str(group.data["kind"])
    return parts["source"], " ".join(filter(None, (KINDS.get(kind, kind), parts.get("rho"))))

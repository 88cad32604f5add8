"""The accuracy of MFW along alpha or beta: which runs make a line, and where on it each of them stands."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import asdict

from procrustean.base.errors import RunError
from procrustean.data.sets.data_set_table import known
from procrustean.data.sources import is_named
from procrustean.records.groups import Group, group_results
from procrustean.records.identity import comparable, data_setting
from procrustean.records.run_labels import named_settings
from procrustean.records.run_record import Result

if TYPE_CHECKING:
    from procrustean.balance.count_facts import Spread
    from procrustean.methods.mfw import StrengthSetting

Option = Literal["alpha", "beta"]
OPTIONS: tuple[Option, ...] = ("alpha", "beta")
SPREADS: tuple[Spread, ...] = ("geometric", "arithmetic", "log")
#: Settings that do not bear on what a run has learned at the end, or number the repeats.
NO_MATTER = ("evaluate_every", "data_seed")


@dataclass(frozen=True)
class Point:
    """The accuracy in % at one value of the option."""

    value: float
    mean: float
    sd: float | None  # sample standard deviation over the seeds
    group: Group
    trained: bool  # with this very value, not with another one that gives the classes the same strengths


@dataclass(frozen=True)
class Line:
    """The accuracies along one option, of one data setting and standard deviation."""

    source: str
    kind: str
    rho: float | None
    std: Spread
    counts: tuple[int, ...]
    points: tuple[Point, ...]

    @property
    def name(self) -> str:
        source = known(self.source).title if is_named(self.source) else self.source
        return f"{source}, {self.kind.replace('_', '-')}"

    @property
    def settings(self) -> int:
        """How many different settings were trained for it."""
        return len({id(point.group) for point in self.points})

    @property
    def is_one_setting(self) -> bool:
        """Whether it is flat, because every value gives the classes the same strengths."""
        return len(self.points) > 1 and self.settings == 1

    @property
    def best(self) -> tuple[float, ...]:
        """The values of the best accuracy: several where they are of one setting."""
        best = max(self.points, key=lambda point: point.mean).group
        return tuple(point.value for point in self.points if point.group is best)


@dataclass(frozen=True)
class Family:
    """Settings of MFW on the same data that differ in nothing but one option, its std and their seeds."""

    option: Option
    groups: tuple[Group, ...]

    @property
    def varies(self) -> bool:
        """Whether any of its runs were given a value of the option."""
        return any(names(result, self.option) for group in self.groups for result in group.results)

    @cached_property
    def trained(self) -> dict[StrengthSetting, Group]:
        """The settings by std and value of the option; of several choices of images, that of most runs."""
        found: dict[StrengthSetting, Group] = {}
        for group in sorted(self.groups, key=lambda group: -len(group.results)):
            found.setdefault(_position(group, self.option), group)
        return found


def names(result: Result, option: Option) -> bool:
    """Whether the option was given a value instead of left to its default."""
    return result.record.method.options.get(option) is not None


def settings_of(result: Result) -> dict[str, Any]:
    """All in which runs of MFW can differ and that bears on what they learn, with the defaults that apply."""
    from procrustean.methods.make import option_defaults

    settings = {**option_defaults("mfw"), **named_settings(Group((result,))), **asdict(data_setting(result))}
    settings |= {option: _value_of(result, option) for option in OPTIONS}
    return {name: value for name, value in settings.items() if name not in NO_MATTER}


def families(results: Iterable[Result], option: Option) -> list[Family]:
    """The runs of MFW among the results, those together that make lines, in the order of first appearance."""
    found: dict[str, list[Group]] = {}
    mfw = (result for result in results if result.record.method.name == "mfw")
    for group in group_results(mfw, setting=settings_of):
        found.setdefault(comparable(_common(group, option)), []).append(group)
    return [Family(option, tuple(groups)) for groups in found.values()]


def values_of(made: Iterable[Family]) -> set[float]:
    """The values at which a run may stand for its strengths: of beta those of any run, and the defaults."""
    from procrustean.balance.mfw_module import DEFAULT_BETA

    found = {value for family in made if family.option == "beta" for _, value in family.trained}
    return found | set(DEFAULT_BETA.values()) if found else found


def lines_of(family: Family, values: Collection[float] = ()) -> list[Line]:
    """The lines of a family, one for each standard deviation that a run of it was trained with.

    Args:
        family: settings that differ in one option.
        values: further values at which a line has a point, if a run gives the classes the strengths they have there.
    """
    data, counts = family.groups[0].data, family.groups[0].counts
    lines = []
    for std in SPREADS:
        own = {value for own_std, value in family.trained if own_std == std}
        if not own:
            continue
        stands = {value: _standing_at((std, value), family.trained, counts) for value in own.union(values)}
        points = tuple(
            _point(value, group, trained=value in own) for value, group in sorted(stands.items()) if group is not None
        )
        lines.append(Line(data.source, data.kind, data.rho, std, counts, points))
    return lines


def lines_along(results: Sequence[Result], option: Option) -> list[Line]:
    """The runs of MFW among the results as lines along `alpha` or `beta`, one for each setting of the data and std.

    A run has a point wherever the classes of its data have the strengths that they have in the run.

    Raises:
        RunError: if runs differ in anything else: a line would then mix two effects.
    """
    made = families(results, option)
    if not made:
        raise RunError(f"there is no run of MFW among the results; train some with different --options {option}=...")
    of_data: dict[tuple[Any, ...], list[Family]] = {}
    for family in made:
        data = family.groups[0].data
        of_data.setdefault((data.source, data.kind, data.rho), []).append(family)
    for own in of_data.values():
        if len(own) > 1:
            raise _mixture(own)
        _refuse_choices_of_images(own[0])
    values = values_of(made)
    return [line for family in made for line in lines_of(family, values)]


def _standing_at(
    at: StrengthSetting, trained: Mapping[StrengthSetting, Group], counts: tuple[int, ...]
) -> Group | None:
    """The runs of a position: those trained there, or else those that give the classes the same strengths.

    Of several those with the same standard deviation are taken, and of these the ones whose strengths are nearest.
    """
    if at in trained:
        return trained[at]
    from procrustean.methods.mfw import SAME_POINT, furthest_apart

    apart = {own: furthest_apart(counts, own, at) for own in trained}
    near = [own for own in trained if apart[own] < SAME_POINT]
    ordered = sorted(near, key=lambda own: (own[0] != at[0], apart[own], abs(math.log(own[1] / at[1]))))
    return trained[ordered[0]] if ordered else None


def _point(value: float, group: Group, *, trained: bool) -> Point:
    accuracy = group.statistic("headline")
    assert accuracy is not None
    return Point(value, 100 * accuracy.mean, None if accuracy.sd is None else 100 * accuracy.sd, group, trained)


def _position(group: Group, option: Option) -> StrengthSetting:
    settings = settings_of(group.results[0])
    if settings[option] is None:
        source = group.data.source
        raise RunError(f"a run on {source} left {option} to the counts; give it in --options {option}=...")
    return settings["std"], settings[option]


def _common(group: Group, option: Option) -> dict[str, Any]:
    """What the settings of one line have in common."""
    return {name: value for name, value in settings_of(group.results[0]).items() if name not in (option, "std")}


def _mixture(made: Sequence[Family]) -> RunError:
    """Says what keeps the runs on the same data from being a line."""
    option, data = made[0].option, made[0].groups[0].data
    settings = [_common(family.groups[0], option) for family in made]
    names = [name for name in settings[0] if len({comparable(own[name]) for own in settings}) > 1]
    runs = " and ".join(family.groups[0].results[0].place for family in made[:2])
    return RunError(
        f"runs of MFW on {data.source}, {data.kind} differ in more than {option}, std and their seeds, and a line "
        f"would mix two effects: {runs} differ in {', '.join(names)}. Give only runs that share them"
    )


def _refuse_choices_of_images(family: Family) -> None:
    for group in family.groups:
        at = _position(group, family.option)
        other = family.trained[at]
        if other is not group:
            raise RunError(
                f"MFW with {family.option} = {at[1]:g} was trained on several choices of images, each with several "
                f"seeds: {group.results[0].place} has data seed {group.data_seeds}, "
                f"{other.results[0].place} {other.data_seeds}. Give the runs of one data seed"
            )


def _value_of(result: Result, option: Option) -> float | None:
    """The value of an option, given or by default; None where that depends on counts that were found as they are."""
    if names(result, option):
        return float(result.record.method.options[option])
    from procrustean.methods.mfw import usual_value

    return usual_value(option, result.data.source, result.data.kind)

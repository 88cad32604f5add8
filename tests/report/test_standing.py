"""Whether means of a few seeds are told apart, against SciPy's tests of the numbers themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from procrustean.records.best_of_many import LEVEL, RULE, Mean, about_bold, above, behind, doubts, rule_of
from procrustean.records.groups import summarise


def mean(values: list[float]) -> Mean:
    statistic = summarise(values)
    assert statistic is not None
    return Mean.of(statistic)


def test_two_means_are_told_apart_by_welch_s_test() -> None:
    draws = np.random.default_rng(0)
    verdicts = set()
    for trial in range(300):
        first = draws.normal(0.70, 0.005, 2 + trial % 4).tolist()
        second = draws.normal(0.71, 0.02, 2 + trial % 3).tolist()
        p = stats.ttest_ind(first, second, equal_var=False).pvalue
        assert mean(first).p_value(mean(second)) == pytest.approx(p, rel=1e-9)
        apart = bool(p < LEVEL)
        assert mean(first).told_apart(mean(second)) is apart
        assert mean(second).told_apart(mean(first)) is apart
        verdicts.add(apart)
    assert verdicts == {True, False}


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_equal_methods_are_seldom_told_apart(seeds: int) -> None:
    draws = np.random.default_rng(1).normal(0.75, 0.01, (1500, 2, seeds))
    apart = [mean(first.tolist()).told_apart(mean(second.tolist())) for first, second in draws]
    assert np.mean(apart) < LEVEL + 3 * math.sqrt(LEVEL * (1 - LEVEL) / 1500)


def test_over_several_settings_the_errors_add_up() -> None:
    settings = [[0.60, 0.62, 0.61], [0.80, 0.83, 0.84]]
    together = Mean.over([mean(values) for values in settings])
    variances = [np.var(values, ddof=1) / 3 for values in settings]
    assert together.value == pytest.approx(np.mean(settings))
    assert together.error == pytest.approx(math.sqrt(sum(variances)) / 2)
    # The mean over two settings is half of their sum: as many degrees of freedom as Welch gives their difference.
    assert together.freedom == pytest.approx(stats.ttest_ind(*settings, equal_var=False).df)


def test_one_setting_with_a_single_run_leaves_no_error() -> None:
    together = Mean.over([mean([0.6, 0.7]), mean([0.8])])
    assert together.error is None
    assert together.told_apart(mean([0.1, 0.2])) is None


def test_seeds_that_all_agree_do_not_tell_apart() -> None:
    """Two seeds that agree on a small test set say nothing about how far others would lie."""
    low, high = mean([0.5, 0.5]), mean([0.6, 0.6, 0.6])
    assert low.told_apart(high) is None
    assert low.p_value(high) is None
    assert low.told_apart(mean([0.5, 0.5])) is False
    assert low.told_apart(mean([0.60, 0.61])) is True  # a spread of one of them is enough for the test
    assert doubts(high, {"low": low}) == "Too few seeds to say whether it is really ahead of: low (-10.0)."
    assert behind(high, {"low": low}) == ""
    assert "Told apart" not in about_bold({"": {"high": high, "low": low}}, "Last")


def test_equal_results_of_other_numbers_of_seeds_are_equal() -> None:
    once, six, seven = (mean([0.998] * seeds) for seeds in (1, 6, 7))
    assert len({once.value, six.value, seven.value}) > 1  # in the last digit
    assert six.told_apart(seven) is False
    assert above(six, {"once": once}) == ""
    assert doubts(six, {"once": once}) == "Too few seeds to say whether it is really ahead of: once (+0.0)."


def test_what_is_said_of_the_others() -> None:
    best = mean([0.80, 0.81, 0.82])
    others = {"close": mean([0.79, 0.80, 0.82]), "far": mean([0.70, 0.71, 0.72]), "once": mean([0.78])}
    assert doubts(best, others) == (
        "Not told apart from it by these seeds: close (-0.7, p=0.57). Too few seeds to say whether it is really "
        "ahead of: once (-3.0)."
    )
    assert behind(best, others) == "Behind by more than the seeds explain: far (-10.0)."


def test_what_bold_says_of_repeated_runs() -> None:
    means = {"A": mean([0.90, 0.91]), "B": mean([0.80, 0.96]), "C": mean([0.10, 0.11])}
    assert about_bold({"": means}, "Last epoch") == (
        "Bold: the best mean of its column. Last epoch: best is A, 90.5. Not told apart from it by these seeds: "
        "B (-2.5, p=0.81)."
    )
    assert rule_of({"": means}) == RULE
    del means["B"]
    assert about_bold({"": means}, "Last") == (
        "Bold: the best mean of its column. Last: best is A, 90.5. Told apart from all others (p<0.001)."
    )
    means["D"] = mean([0.80, 0.82])
    assert about_bold({"": means}, "Last").endswith("Told apart from all others (largest p=0.032).")


def test_what_bold_says_where_some_are_single_runs() -> None:
    means = {"A": mean([0.90, 0.91]), "B": mean([0.95]), "C": mean([0.10])}
    assert about_bold({"": means}, "Last").endswith(
        "Last: best of those with several seeds is A, 90.5. Above it by a single run: B (+4.5). Too few seeds to say "
        "whether it is really ahead of: C (-80.5)."
    )
    assert rule_of({"": means}) == ""


def test_single_runs_do_not_rank() -> None:
    single, repeated = {"A": mean([0.9]), "B": mean([0.8])}, {"A": mean([0.9, 0.91]), "B": mean([0.1, 0.11])}
    assert about_bold({"": single}, "Last") == "Bold: the best mean of its column. Single runs do not rank."
    assert rule_of({"": single}) == ""
    assert about_bold({"digits": single, "cifar": repeated, "stripes": single}, "Last") == (
        "Bold: the best mean of its column among rows on the same images. Last, cifar: best is A, 90.5. Told apart "
        "from all others on the same images (p<0.001). Single runs do not rank: digits; stripes."
    )


@pytest.mark.parametrize("means", [{}, {"A": mean([0.9, 0.91])}, {"A": mean([0.9, 0.91]), "B": mean([0.905, 0.905])}])
def test_without_anything_in_bold_nothing_is_said(means: dict[str, Mean]) -> None:
    assert about_bold({"": means}, "Last") == rule_of({"": means}) == ""

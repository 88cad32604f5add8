from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from made_records import changed
from probed_runs import make_record
from procrustean.records.run_record import RunRecord
from procrustean.runs.choosing import Score, choose, options_text, score_of, standard_error, voting_counts


def scored(last: float, tail: float | None = None, **options: Any) -> Score:
    return Score(options, last, last if tail is None else tail, 1)


def record(*curve: float) -> RunRecord:
    return changed(make_record(), curves__held_out_balanced_accuracy=list(curve))


def test_the_last_epoch_decides_not_the_best_one() -> None:
    score = score_of({"alpha": 1.0}, [record(0.2, 0.9, 0.5), record(0.2, 0.1, 0.7)])
    assert score.last == pytest.approx(0.6)
    assert (score.seeds, score.name) == (2, "alpha=1")


def test_the_last_tenth_of_the_evaluations() -> None:
    curve = [0.0] * 18 + [0.4, 0.8]
    assert score_of({}, [record(*curve)]).tail == pytest.approx(0.6)


def test_the_highest_is_chosen_and_the_noise_is_said() -> None:
    scores = [scored(0.50, alpha=0.1), scored(0.80, alpha=1.0), scored(0.75, alpha=5.0)]
    choice = choose(scores, [3] * 10)
    assert choice.best is scores[1]
    assert choice.error == pytest.approx(math.sqrt(0.8 * 0.2 / 30))
    assert [score.name for score in choice.close] == ["alpha=5"]
    assert choice.ties == ()
    text = choice.text()
    assert text.startswith("Chosen: alpha=1, 80.0 % on 30 held-out images.")
    assert "is up to 7.3 points" in text
    assert "Within it, too: alpha=5." in text
    assert "cannot tell them apart" in text


def test_more_images_tell_more_apart() -> None:
    choice = choose([scored(0.80, alpha=1.0), scored(0.75, alpha=5.0)], [300] * 10)
    assert choice.close == ()
    assert "cannot tell" not in choice.text()


def test_a_small_class_carries_most_of_the_error() -> None:
    """The recalls of four classes drawn again and again, and what their mean spreads by."""
    draws, counts, p = np.random.default_rng(0), [400, 200, 10, 4], 0.7
    means = np.mean([draws.binomial(count, p, 40_000) / count for count in counts], axis=0)
    assert standard_error(p, counts) == pytest.approx(means.std(), rel=0.02)
    choice = choose([scored(0.80, alpha=1.0), scored(0.76, alpha=5.0)], counts)
    assert [score.name for score in choice.close] == ["alpha=5"]  # on 614 equal images they would be told apart
    assert choose([scored(0.80, alpha=1.0), scored(0.76, alpha=5.0)], [614 / 4] * 4).close == ()


def test_all_right_on_a_few_images_is_not_certain() -> None:
    # Half an image of each class is taken to be wrong: one that is would cost 17 points of the class of 6.
    assert standard_error(1.0, [66, 10, 6]) == pytest.approx(0.0442, abs=1e-4)
    assert standard_error(0.997, [200, 30, 12]) == pytest.approx(0.0208, abs=1e-4)
    assert 0 < standard_error(1.0, [1, 1]) < 1
    assert standard_error(0.0, [5, 5]) == pytest.approx(standard_error(1.0, [5, 5]))
    choice = choose([scored(1.0, alpha=1.0), scored(0.99, alpha=5.0)], [66, 10, 6])
    assert [score.name for score in choice.close] == ["alpha=5"]


def test_classes_without_a_held_out_image_have_no_vote() -> None:
    data = changed(make_record(), data__held_out=30, data__held_out_counts=[20, 10, 0, 0]).data
    assert voting_counts(data) == [20, 10]


def test_ties_go_to_the_last_evaluations_and_are_said() -> None:
    scores = [scored(0.7, 0.60, alpha=0.1), scored(0.7, 0.65, alpha=1.0), scored(0.1, alpha=5.0)]
    choice = choose(scores, [3] * 10)
    assert choice.best is scores[1]
    assert [score.name for score in choice.ties] == ["alpha=0.1"]
    assert "Tied with it in the last epoch: alpha=0.1; it was taken for its mean over the last tenth" in choice.text()


def test_equals_in_everything_go_to_the_first() -> None:
    scores = [scored(0.7, 0.6, alpha=0.1), scored(0.7, 0.6, alpha=1.0)]
    choice = choose(scores, [3] * 10)
    assert choice.best is scores[0]
    assert "it was taken because it was tried first of those with the same mean over the last tenth" in choice.text()


def test_the_advice_on_ties_is_more_images() -> None:
    text = choose([scored(0.7, alpha=0.1), scored(0.7, alpha=1.0)], [3] * 10).text()
    assert "These images cannot tell them apart, only more held-out images can; more training seeds average out" in text


def test_nothing_to_choose_from() -> None:
    assert choose([scored(0.5)], [5, 5]).text().startswith("Chosen: as it is, 50.0 % on 10")
    assert options_text({"draw": "batch", "alpha": 0.25, "drw": True}) == "draw=batch, alpha=0.25, drw=True"

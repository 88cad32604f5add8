"""MFW inside the trainer: the same mixing on numbers drawn ahead; settings that are as good as one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from procrustean.balance import MFW, Batch, Classify, Clock, Problem, effective_number
from procrustean.balance.mfw_module import DEFAULT_BETA
from procrustean.balance.mixing import inverse_permutation
from procrustean.base import ConfigError
from procrustean.methods import make_method
from procrustean.methods.mfw import SAME_POINT, SAME_RUN, Weakening, furthest_apart
from procrustean.paper.table_files import paper_definitions
from procrustean.records import RunSpec
from procrustean.runs.training_sizes import training_counts

COUNTS = [500, 400, 20, 10]


def made_batch(size: int = 9) -> Batch:
    generator = torch.Generator().manual_seed(0)
    partner = torch.randperm(size, generator=generator)
    assert not torch.equal(partner, inverse_permutation(partner))
    return Batch(
        x=torch.randn(size, 3),
        y=torch.randint(4, (size,), generator=generator),
        partner=partner,
        inverse=inverse_permutation(partner),
        u={"mfw": torch.rand(size, generator=generator)},
    )


def test_it_mixes_with_the_partners_of_the_plan() -> None:
    mfw, batch = MFW(COUNTS), made_batch()
    mixture = Weakening(mfw, "group2")(batch)
    (mix,) = mixture.mixes
    assert mix.partner is batch.partner
    assert mix.inverse is batch.inverse
    assert torch.equal(mix.weight, mfw.share(batch.y, batch.u["mfw"]))
    assert mix.weight.max() > 0


def test_labels_stay() -> None:
    assert Weakening(MFW(COUNTS), "group2")(made_batch()).label_weight is None


def test_one_draw_per_batch() -> None:
    batch = made_batch()
    mfw = MFW(COUNTS, strength=[0.5, 0.4, 0.3, 0.2], draw="batch")
    (mix,) = Weakening(mfw, "group2")(batch).mixes
    ratio = mix.weight / mfw.strength[batch.y]
    torch.testing.assert_close(ratio, ratio[:1].expand(9))
    assert torch.equal(mix.weight, mfw.share(batch.y, batch.u["mfw"][:1]))


def test_what_it_needs_drawn_and_where_it_mixes() -> None:
    mixer = Weakening(MFW(COUNTS), "group3")
    assert dict(mixer.draws) == {"mfw": ()}
    assert mixer.at == ("group3",)
    assert list(mixer.state_dict()) == []


def test_nothing_is_drawn_from_a_generator() -> None:
    batch = made_batch()
    state = torch.get_rng_state()
    Weakening(MFW(COUNTS), "group2")(batch)
    assert torch.equal(torch.get_rng_state(), state)


# While the classes are weighted (DRW)


class Linear(nn.Module):
    """Scores from the mixed layer itself, so that the mixing shows in the loss."""

    groups = ("group2",)

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.group2, self.head = nn.Identity(), nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.group2(x))
        return scores


def loss_at(epoch: int, **options: object) -> Tensor:
    problem = Problem(tuple(COUNTS), "step", layers=("group2",))
    objective = make_method("mfw", problem, {"alpha": 1.0, **options}).stages[0].objective
    net, generator = Linear(), torch.Generator().manual_seed(3)
    objective.bind(net)
    batch = made_batch()._replace(x=torch.randn(9, 3, generator=generator))
    loss: Tensor = objective(net, batch, Clock(torch.tensor(epoch), torch.tensor(0.1), 10))
    objective.unbind()
    return loss.detach()


def weighted(epoch: int) -> Tensor:
    """Cross-entropy without mixing, with the deferred weights from epoch 8 of 10 on."""
    generator = torch.Generator().manual_seed(3)
    x, y = torch.randn(9, 3, generator=generator), made_batch().y
    weights = effective_number(COUNTS) if epoch >= 8 else torch.ones(4)
    return nn.functional.cross_entropy(Linear()(x), y, weight=weights).detach()


def test_the_mixing_goes_on_or_ends_when_the_weights_set_in() -> None:
    assert torch.equal(loss_at(7, drw=True), loss_at(7, drw=True, keep_mixing=False))
    on, off = loss_at(8, drw=True), loss_at(8, drw=True, keep_mixing=False)
    assert not torch.isclose(on, off)
    torch.testing.assert_close(off, weighted(8))
    assert not torch.isclose(loss_at(7, drw=True), weighted(7))


def test_the_weighted_loss_may_be_divided_by_the_batch_size() -> None:
    weights = effective_number(COUNTS)[made_batch().y]
    for keep_mixing in (True, False):
        by_weights = loss_at(8, drw=True, keep_mixing=keep_mixing)
        by_size = loss_at(8, drw=True, keep_mixing=keep_mixing, reduction="mean")
        torch.testing.assert_close(by_size, by_weights * weights.sum() / 9)
        assert not torch.isclose(by_size, by_weights)


@pytest.mark.parametrize(("epoch", "mixes"), [(7, True), (8, False)])
def test_the_objective_tells_how_a_batch_is_mixed_at_a_time(epoch: int, mixes: bool) -> None:
    problem = Problem(tuple(COUNTS), "step", layers=("group2",))
    objective = make_method("mfw", problem, {"drw": True, "keep_mixing": False}).stages[0].objective
    assert isinstance(objective, Classify)
    mixture = objective.mixture(made_batch(), Clock(torch.tensor(epoch), torch.tensor(0.1), 10))
    assert mixture is not None
    assert bool(mixture.mixes[0].weight.any()) == mixes


def test_mixing_that_would_never_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="keep_mixing = False received without drw"):
        make_method("mfw", Problem(tuple(COUNTS), "step"), {"keep_mixing": False})


def test_ending_the_mixing_compiles_to_one_graph_that_stays_valid() -> None:
    problem = Problem(tuple(COUNTS), "step", layers=("group2",))
    objective = make_method("mfw", problem, {"drw": True, "keep_mixing": False}).stages[0].objective
    objective.bind(net := Linear())
    compiled, batch = torch.compile(objective, fullgraph=True, backend="aot_eager"), made_batch()
    clocks = [Clock(torch.tensor(epoch), torch.tensor(0.1), 10) for epoch in (7, 8)]
    torch.testing.assert_close(compiled(net, batch, clocks[0]), objective(net, batch, clocks[0]))
    with torch.compiler.set_stance("fail_on_recompile"):
        torch.testing.assert_close(compiled(net, batch, clocks[1]), objective(net, batch, clocks[1]))


def test_the_distance_is_that_of_the_class_that_differs_most() -> None:
    # The standard deviation is 90, the geometric mean 43.6. The class of 190 goes from 0.4179 to 0.4814, 0.25 * (1 +
    # tanh(0.5 * 146.4 / 90)) and 0.25 * (1 + tanh(146.4 / 90)); that of 10 from 0.2039 to 0.1608.
    apart = furthest_apart((190, 10), ("arithmetic", 1.0), ("arithmetic", 0.5))
    assert apart == pytest.approx(0.0635, abs=1e-4)
    assert furthest_apart((190, 10), ("geometric", 1.0), ("geometric", 1.0)) == 0


@pytest.mark.parametrize("kind", ["long_tailed", "step"])
@pytest.mark.parametrize("held_out", [0, 500])
def test_one_row_of_the_table_of_beta_stands_for_all_of_cifar10(kind: str, held_out: int) -> None:
    """What the note of the table says, and why it has no other rows there."""
    config = RunSpec("cifar10", kind, 100, hold_out=held_out, hold_out_from="source")  # type: ignore[arg-type]
    counts = training_counts(config)
    assert counts is not None
    default = DEFAULT_BETA[kind]  # type: ignore[index]
    for beta in (0.01, 0.1, 0.5, 1, 2, 5):
        assert furthest_apart(counts, ("geometric", beta), ("geometric", default)) < SAME_POINT
    assert furthest_apart(counts, ("geometric", 10), ("geometric", default)) > SAME_POINT
    table = paper_definitions().tables["beta"]
    assert f"the same to {SAME_POINT:g}" in table.note
    geometric = [cell.row for cell in table.cells(columns=["cifar10-*"]) if cell.row.startswith("geometric")]
    assert set(geometric) == {"geometric, the default beta"}


def test_tables_ask_more_of_one_run_than_curves_of_one_point() -> None:
    assert SAME_RUN < SAME_POINT

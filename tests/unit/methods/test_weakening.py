"""MFW inside the trainer: the same mixing on numbers drawn ahead."""

from __future__ import annotations

import torch

from procrustean.methods.mfw import Weakening
from procrustean.mfw import MFW
from procrustean.mixing import inverse_permutation
from procrustean.types import Batch

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

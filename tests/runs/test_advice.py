from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from procrustean.base import ConfigError
from procrustean.data import ImageSet, Splits
from procrustean.data.recipe import Tune
from procrustean.records import RunSpec
from procrustean.records.run_spec import ADVISED, AUTO
from procrustean.runs import advice as planning
from procrustean.runs.advice import HOLD_OUT, planned
from procrustean.runs.cost import Machine
from procrustean.runs.preparing import recipe_of
from procrustean.runs.training_advice import FEWEST_EPOCHS

CPU = Machine("cpu", 2, 120.0)


def splits(counts: tuple[int, ...] = (60, 6, 6), side: int = 8, val: bool = False) -> Splits:
    random = np.random.default_rng(0)

    def made(sizes: tuple[int, ...]) -> ImageSet:
        labels = np.repeat(np.arange(len(sizes)), sizes)
        names = tuple(f"c{n}" for n in range(len(sizes)))
        return ImageSet(random.integers(0, 256, (len(labels), side, side, 3), np.uint8), labels, names)

    four = (4,) * len(counts)
    return Splits("mine", made(counts), made(four), made(four) if val else None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    for name, count in (("cat", 20), ("dog", 5)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(count):
            size = (90 + number, 120, 3)
            Image.fromarray(random.integers(0, 256, size, np.uint8)).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def test_a_known_data_set_stays_as_it_was() -> None:
    plan = planned(RunSpec("digits", method=ADVISED), machine=CPU)
    assert plan.config == RunSpec("digits", method="mfw")
    assert plan.splits is None
    named = RunSpec("cifar10", method="ldam", drw=True)
    assert planned(named, machine=CPU).config is named


def test_everything_left_open_is_filled(folder: Path) -> None:
    plan = planned(RunSpec(str(folder), method=ADVISED), machine=CPU)
    config = plan.config
    assert plan.splits is not None
    assert plan.splits.train.images.shape[1:] == (48, 48, 3)
    assert (config.image_size, config.net, config.recipe) == (48, "convnet", "photographs")
    assert (config.method, config.drw, config.hold_out) == ("balanced_softmax", False, HOLD_OUT)
    assert None not in (config.epochs, config.batch_size, config.evaluate_every)
    assert any("it gained 3.1 ± 1.1 points" in line for line in plan.why)
    assert any("images made smaller, from usually 97 pixels to 48" in line for line in plan.why)
    again = planned(config, machine=CPU)
    assert again.config == config
    assert again.why == ()


def test_what_was_given_stays(folder: Path) -> None:
    given = RunSpec(
        str(folder), method="mfw", net="small", epochs=7, batch_size=8, lr=0.3, image_size=16, evaluate_every=2
    )
    plan = planned(given, machine=CPU)
    assert plan.config == replace(given, hold_out=HOLD_OUT)
    assert plan.splits is not None
    assert plan.splits.train.images.shape[1] == 16


@pytest.mark.parametrize("given", [{"net": "resnet32"}, {"net": "small", "image_size": 120}])
def test_who_names_a_network_gets_epochs_enough_and_the_expected_time(folder: Path, given: dict[str, object]) -> None:
    slow = Machine("cpu", 1, 0.5)
    plan = planned(replace(RunSpec(str(folder), method="erm"), **given), machine=slow)  # type: ignore[arg-type]
    assert (plan.config.epochs, plan.config.evaluate_every) == (FEWEST_EPOCHS, 1)
    assert plan.why[-1].startswith(f"{plan.config.net} on images of")
    assert "30 epochs in batches" in plan.why[-1]
    assert plan.why[-1].endswith("reckoned at half the usual speed; --epochs for fewer")
    fewer = planned(replace(RunSpec(str(folder), method="erm", epochs=2), **given), machine=slow)  # type: ignore[arg-type]
    assert fewer.config.epochs == 2
    assert "--epochs" not in fewer.why[-1]


def test_another_recipe_is_not_touched() -> None:
    plan = planned(RunSpec("mine", method="mfw", recipe="cifar"), splits=splits(), machine=CPU)
    assert (plan.config.net, plan.config.epochs) == (None, None)


@pytest.mark.parametrize("tune", ["head", "lora"])
def test_heads_and_adapters_keep_the_numbers_of_their_recipes(tune: Tune) -> None:
    named = RunSpec("mine", method="mfw", net="efficientnet_lite0", pretrained="published", tune=tune)
    plan = planned(named, splits=splits((300, 9)), machine=CPU)
    assert plan.config == replace(named, hold_out=HOLD_OUT)
    numbers = {"head": (60, 0.03, "sgd"), "lora": (20, 1e-3, "adamw")}[tune]
    recipe = recipe_of(plan.config)
    assert (recipe.epochs, recipe.lr, recipe.optimizer) == numbers


def test_a_validation_set_is_held_out_enough() -> None:
    plan = planned(RunSpec("mine", method=ADVISED), splits=splits(val=True), machine=CPU)
    assert plan.config.hold_out == 0
    assert planned(RunSpec("mine", method=AUTO), splits=splits(), machine=CPU).config.hold_out == HOLD_OUT


def test_none_is_held_out_where_that_is_asked_for() -> None:
    plan = planned(RunSpec("mine", method=ADVISED, hold_out=0), splits=splits(), machine=CPU)
    assert plan.config.hold_out == 0
    assert not any("held out" in why for why in plan.why)
    compared = RunSpec("mine", method=AUTO, hold_out=0)
    assert planned(compared, splits=splits(val=True), machine=CPU).config.hold_out == 0
    for refused in (compared, replace(compared, source="digits")):
        with pytest.raises(
            ConfigError, match=r"hold_out = 0 received, but method 'auto' compares methods on images of"
        ):
            planned(refused, splits=splits() if refused is compared else None, machine=CPU)


def test_a_named_method_holds_out_as_much_as_an_advised_one() -> None:
    named = RunSpec("mine", method="erm")
    assert planned(named, splits=splits(), machine=CPU).config.hold_out == 0.15
    for asked, images in ((replace(named, hold_out=0), splits()), (named, splits(val=True))):
        plan = planned(asked, splits=images, machine=CPU)
        assert plan.config.hold_out == 0
        assert not any("held out" in why for why in plan.why)


def test_what_is_held_out_is_open_while_the_method_is() -> None:
    for method in (ADVISED, AUTO):
        settings = RunSpec("mine", method=method)
        assert settings.hold_out is None
        assert RunSpec.from_json(settings.to_json()) == settings
        assert settings.hash == RunSpec("mine", method=method, hold_out=0).hash
    assert RunSpec("mine", method="mfw").hold_out is None
    assert RunSpec("digits", method="mfw").hold_out == 0


def test_arrays_are_not_resized() -> None:
    plan = planned(RunSpec("mine", method=ADVISED), splits=splits((900, 50), side=70), machine=CPU)
    assert plan.config.image_size is None
    assert plan.config.net == "convnet"
    assert plan.splits is not None
    assert plan.splits.train.images.shape[1] == 70


def test_the_plan_does_not_depend_on_how_busy_the_machine_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "this_machine", lambda device: CPU)
    first, second = (planned(RunSpec(str(folder), method=ADVISED)).config for _ in range(2))
    assert first.hash == second.hash

"""A run that can start: settings resolved, data loaded, method built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from procrustean.balance.metrics import FEW_TO_JUDGE
from procrustean.base.progress import Reporter
from procrustean.data.describe import some_names
from procrustean.data.imageset import Splits
from procrustean.data.imbalance import Imbalanced
from procrustean.data.recipes import RECIPES, Recipe, recipe_label
from procrustean.engine.device import Placement
from procrustean.engine.engines import Engine
from procrustean.engine.frozen_features import FeatureStores
from procrustean.engine.image_stores import ImageStores, augmentation_of
from procrustean.engine.stage_order import stages_text
from procrustean.methods.method import Method
from procrustean.nets.build import build_net
from procrustean.nets.classifier import Classifier
from procrustean.nets.pretrained import Pretrained
from procrustean.records.run_spec import RunSpec


@dataclass(frozen=True)
class Prepared:
    """A run whose settings are resolved and whose data are loaded."""

    config: RunSpec
    data: Imbalanced
    splits: Splits
    method: Method
    options: dict[str, Any]
    recipe: Recipe
    placement: Placement
    engine: Engine
    pretrained: Pretrained | None = None
    built: list[Classifier] = field(default_factory=list)  # the network, if what looked at it has left it as it was

    @property
    def label(self) -> str:
        """What its method is called in messages."""
        return self.method.label

    @property
    def name(self) -> str:
        """The run in progress messages; the runs of a grid differ in it."""
        made = "" if self.config.rho is None else f", {self.config.imbalance.replace('_', '-')} {self.config.rho:g}"
        return f"{self.label}{made}, seed {self.config.seed}"

    def data_text(self) -> str:
        """What is trained and tested on, in one line, with a warning where a class is hardly tested."""
        counts, tested = self.data.counts, self.data.test.counts
        text = f"{self.splits.name}: {sum(counts)} training images ({max(counts)} to {min(counts)} per class)"
        if not self.splits.has_test:
            return text
        text += f", {len(self.data.test)} test images"
        # Of those without any, the linting says so.
        hardly = [name for name, count in zip(self.data.test.classes, tested, strict=True) if 0 < count < FEW_TO_JUDGE]
        if hardly:
            text += f"; fewer than {FEW_TO_JUDGE} test images of {some_names(hardly)}: their results say little"
        return text

    @property
    def source(self) -> str:
        """The data set, if it is a known one."""
        return known_source(self.splits.name, self.config)

    @property
    def recipe_name(self) -> str:
        """The recipe in records and tables."""
        return recipe_label(self.config.recipe, self.recipe, self.source)

    def recipe_text(self) -> str:
        """How training goes, in one line."""
        recipe, name = self.recipe, self.recipe.name
        whose = f"{name} as the method was published" if self.config.recipe == "own" else f"{name}, {RECIPES[name][1]}"
        stages = stages_text(self.method, recipe.epochs)
        return f"recipe {whose}: {recipe.text()}" + (f"; in stages: {stages}" if stages else "")

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of what the network is shown; refuses a crop that the images do not have."""
        return augmentation_of(self.recipe, self.data.train).size

    def stores(self) -> ImageStores:
        """What keeps the images of the run, on the device or beside it."""
        return ImageStores(self.recipe, self.placement, images=self.config.images, workers=self.config.workers)

    def training_stores(self, net: Classifier, reporter: Reporter) -> ImageStores | FeatureStores:
        """What keeps the images of the run while it trains `net`: their features, where the head alone is trained."""
        if not net.head_alone:
            return self.stores()
        assert self.pretrained is not None
        return FeatureStores(net, self.pretrained.sha256, self.recipe, self.config.data_dir, reporter)

    def build_net(self) -> Classifier:
        """The network with its initial weights."""
        if self.built:
            return self.built.pop()
        net = build_net(
            self.recipe.net,
            channels=self.data.train.images.shape[3],
            classes=len(self.data.train.classes),
            seed=self.config.seed,
            head=self.method.head,
            size=self.image_size,
            pretrained=self.pretrained,
            tune=self.config.tune,
        )
        if self.recipe.norm_momentum is not None:
            for module in net.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.momentum = self.recipe.norm_momentum
        return net


def known_source(name: str, config: RunSpec) -> str:
    """The data set of this name, if it is a known one; a folder of the user's called cifar10 is not CIFAR-10."""
    return name if name == config.source else ""

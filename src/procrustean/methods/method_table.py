"""The table of methods: what they are called in the paper, where they are from, what they cost.

Its order is the one in which methods are listed. Nothing here imports torch: tables and reports need the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Entry:
    """A line of the table: the file and function have the method's name."""

    rows: tuple[str, ...]  # the paper's row names that this method stands for; none for methods it does not have
    source: str  # publication
    cost: str = "1"  # training time relative to ERM at the same number of epochs, on an H200; what else is to be said
    refused: Mapping[str, str] = field(default_factory=dict)  # options one might expect -> why it has none
    on_images: str = ""  # why it cannot train a head on features that were computed beforehand

    @property
    def relative_cost(self) -> float:
        """The number of `cost`."""
        return float(self.cost.partition(" ")[0])


_COUNTED_TWICE = {
    "drw": "its loss corrects for the class sizes already, and class weights on top would count them twice"
}

_BALANCED_TWICE = {
    "drw": "it balances the classes by what it shows or by its last stage, and class weights would do so twice over"
}
_WEIGHTED_BY_META = {
    "drw": "a balanced set decides the weights of its samples, and class weights on top would overrule it"
}
_TAKEN_OUT_LATER = {
    "drw": "it trains without a correction for the class sizes and takes their effect out of the scores by tde when it "
    "predicts, and class weights would correct for them twice"
}
_DECOUPLING = "Kang et al., Decoupling representation and classifier for long-tailed recognition, ICLR 2020"

METHODS: dict[str, Entry] = {
    "erm": Entry(("ERM",), "empirical risk minimisation, the usual training"),
    "focal": Entry(("Focal",), "Lin et al., Focal loss for dense object detection, ICCV 2017"),
    "class_balanced": Entry(("CB",), "Cui et al., Class-balanced loss based on effective number of samples, CVPR 2019"),
    "ldam": Entry(("LDAM", "LDAM-DRW"), "Cao et al., Label-distribution-aware margin loss, NeurIPS 2019"),
    "cdt": Entry(("CDT",), "Ye et al., Identifying and compensating for feature deviation, arXiv:2001.01385, 2020"),
    "seql": Entry(("SEQL",), "Tan et al., Equalization loss for long-tailed object recognition, CVPR 2020"),
    "mixup": Entry(
        ("mixup",),
        "Zhang et al., mixup: Beyond empirical risk minimization, ICLR 2018",
        cost="1 (2 with its own 400 epochs)",
    ),
    "manifold_mixup": Entry(
        ("manifold mixup",),
        "Verma et al., Manifold mixup: Better representations by interpolating hidden states, ICML 2019",
        cost="1 (2 with its own 400 epochs)",
    ),
    "remix": Entry(("Remix", "Remix-DRW"), "Chou et al., Remix: Rebalanced mixup, ECCV workshops 2020"),
    "tau_norm": Entry(("tau-norm",), _DECOUPLING, cost="1", refused=_BALANCED_TWICE),
    "crt": Entry(("cRT",), _DECOUPLING, cost="1 (30 more epochs forward only)", refused=_BALANCED_TWICE),
    "lws": Entry(("LWS",), _DECOUPLING, cost="1 (30 more epochs forward only)", refused=_BALANCED_TWICE),
    "bbn": Entry(
        ("BBN",),
        "Zhou et al., BBN: Bilateral-branch network with cumulative learning, CVPR 2020",
        cost="2.1",
        refused=_BALANCED_TWICE,
        on_images="its branches are two copies of the last block of the network",
    ),
    "deconfound": Entry(
        ("De-confound", "De-confound-TDE"),
        "Tang et al., Long-tailed classification by keeping the good and removing the bad momentum, NeurIPS 2020",
        refused=_TAKEN_OUT_LATER,
    ),
    "oltr": Entry(
        ("OLTR",),
        "Liu et al., Large-scale long-tailed recognition in an open world, CVPR 2019",
        cost="1.1 (1.5 in the second stage; 30 % more epochs on CIFAR)",
        refused=_BALANCED_TWICE,
        on_images="its attention works on the last feature map",
    ),
    "meta_weight": Entry(
        ("Meta-Weight",),
        "Shu et al., Meta-Weight-Net: Learning an explicit mapping for sample weighting, NeurIPS 2019",
        cost="7.9 (about 4 passes, one of them on slower kernels)",
        refused=_WEIGHTED_BY_META,
    ),
    "domain_adaptation": Entry(
        ("DA",),
        "Jamal et al., Rethinking class-balanced methods from a domain adaptation perspective, CVPR 2020",
        cost="2.4 (1 in the first 80 % of the epochs, then 7.7)",
        refused=_WEIGHTED_BY_META,
    ),
    "m2m": Entry(
        ("M2m",),
        "Kim et al., M2m: Imbalanced classification via major-to-minor translation, CVPR 2020",
        cost="3.6 (7.2 with its 400 epochs, half of them for a first network)",
        refused=_BALANCED_TWICE,
        on_images="it changes the pixels of images",
    ),
    "mfw": Entry(
        ("MFW", "MFW-DRW"),
        "Ye, Zhan, Chao, Procrustean training for imbalanced deep learning, ICCV 2021",
        cost="1 (1.5 with the paper's 300 epochs)",
    ),
    "balanced_softmax": Entry(
        (),
        "Ren et al., Balanced meta-softmax for long-tailed visual recognition, NeurIPS 2020",
        refused=_COUNTED_TWICE,
    ),
    "logit_adjustment": Entry(
        (),
        "Menon et al., Long-tail learning via logit adjustment, ICLR 2021",
        cost="1 (6 to 7 with its own 1241 or 1419 epochs)",
        refused=_COUNTED_TWICE,
    ),
    "vs": Entry(
        (),
        "Kini et al., Label-imbalanced and group-sensitive classification under overparameterization, NeurIPS 2021",
        refused=_COUNTED_TWICE,
    ),
    "label_aware_smoothing": Entry(
        (), "Zhong et al., Improving calibration for long-tailed recognition (MiSLAS), CVPR 2021"
    ),
    "mislas": Entry(
        (),
        "Zhong et al., Improving calibration for long-tailed recognition, CVPR 2021",
        cost="1 (10 more epochs forward only)",
        refused=_BALANCED_TWICE,
    ),
    "cmo": Entry(
        (), "Park et al., The majority can help the minority, CVPR 2022", on_images="it pastes parts of images"
    ),
    "mamix": Entry((), "Cheng, Lin, From SMOTE to mixup for deep imbalanced classification, TAAI 2023"),
}

"""The golden cases: a line each, with every setting written out, so that no default can move one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: How every run is carried out, and what is switched off.
ALL: dict[str, Any] = {
    "drw": False, "pretrained": None, "lr": 0.05, "weight_decay": 0.0005, "seed": 1, "data_seed": 2, "hold_out": 0,
    "hold_out_from": "training", "on_bad_image": "error", "average": "none", "swa_from": "drw",
    "track_training": False, "probes": False, "probe_every": None, "features_at": [], "keep_weights_every": None,
    "device": "cpu", "precision": "fp32", "engine": "eager", "kernels": "off", "images": "resident", "workers": 1,
    "data_dir": None, "checkpoint_every": 1e6,
}  # fmt: skip
#: Four digits; two have a tenth of the images of the others.
DIGITS = {
    **ALL, "source": "digits", "imbalance": "step", "rho": 10.0, "classes": ["0", "1", "2", "3"], "recipe": "digits",
    "net": "small", "epochs": 5, "batch_size": 64, "augment": "pad_crop_flip", "image_size": None, "evaluate_every": 5,
}  # fmt: skip
LONG_TAILED = {**DIGITS, "imbalance": "long_tailed"}
#: Sixty images in a folder, in colour.
FOLDER = {
    **ALL, "source": "train", "imbalance": "natural", "rho": None, "classes": [], "recipe": "images", "net": "small",
    "epochs": 3, "batch_size": 16, "augment": "flip", "image_size": 12, "evaluate_every": 3,
}  # fmt: skip

#: Options that several lines share.
WEIGHTED = {"reduction": "weighted_mean", "drw": False}
MFW = {"alpha": 5.0, "beta": 0.01, "std": "geometric", "draw": "sample", "layer": "group2", "major_strength": None,
       "keep_mixing": True, **WEIGHTED}  # fmt: skip
MISLAS = {"alpha": 1.0, "head": 0.3, "tail": 0.05, "head_rate": 0.5, "bn_mode": "eval"}
DECONFOUND = {"tde": True, "alpha": 1.5, "heads": 2, "scale": 16.0, "gamma": 0.03125, "momentum": 0.9,
              "two_branches": False}  # fmt: skip
M2M = {"beta": 0.9, "gamma": 0.1, "lam": 0.5, "ldam": False}
CB = {"beta": 0.9999, "form": "softmax", "gamma": None, "reduction": "mean", "drw": False}
OWN = f"{Path(__file__).with_name('golden_method.py')}:smoothed"


@dataclass(frozen=True)
class Case:
    """A training: what is trained by which method, how it is begun, and how the network is exported."""

    name: str
    base: dict[str, Any]
    method: str
    options: dict[str, Any]
    changes: dict[str, Any] = field(default_factory=dict)
    export: str = "safetensors"
    trained: str = "fit"  # or "command", or "resume" after it was stopped
    slow: bool = False  # left to an explicit call

    def settings(self, images: Path) -> dict[str, Any]:
        """All settings, with the images of a folder where they are."""
        settings = {**self.base, "method": self.method, "options": self.options, **self.changes}
        return {**settings, "source": str(images / "train")} if self.base is FOLDER else settings

    def predicts(self, images: Path) -> Path:
        """The folder of the images that are predicted."""
        return images / ("predict-colours" if self.base is FOLDER else "predict-digits")


CASES = (
    # Every method, and what makes it another method.
    Case("erm", DIGITS, "erm", {"drw": False}, export="torch"),
    Case("erm-drw", LONG_TAILED, "erm", {"drw": True}),
    Case("focal", DIGITS, "focal", {"gamma": 1.5, "form": "softmax", "drw": False}),
    Case("focal-sigmoid", DIGITS, "focal", {"gamma": 1.5, "form": "sigmoid", "drw": False}),
    Case("class_balanced", DIGITS, "class_balanced", CB),
    Case("class_balanced-focal", DIGITS, "class_balanced", {**CB, "form": "focal", "gamma": 1.0}),
    Case("class_balanced-drw", DIGITS, "class_balanced", {**CB, "reduction": "weighted_mean", "drw": True}),
    Case("ldam", DIGITS, "ldam", {"max_margin": 0.5, "scale": 30.0, "drw": False}),
    Case("ldam-drw", DIGITS, "ldam", {"max_margin": 0.4, "scale": 20.0, "drw": True}, export="torch"),
    Case("cdt", DIGITS, "cdt", {"gamma": 0.2, "drw": False}),
    Case("seql", LONG_TAILED, "seql", {"gamma": 0.9, "lam": 0.15, "drw": False}),
    Case("mixup", DIGITS, "mixup", {"alpha": 1.0, **WEIGHTED}),
    Case("mixup-drw", DIGITS, "mixup", {"alpha": 0.4, "reduction": "mean", "drw": True}),
    Case("manifold_mixup", DIGITS, "manifold_mixup", {"alpha": 2.0, "layers": "input,group1,group2", **WEIGHTED}),
    Case("remix", DIGITS, "remix", {"alpha": 1.0, "kappa": 3.0, "tau": 0.5, **WEIGHTED}),
    Case("tau_norm", DIGITS, "tau_norm", {"tau": 0.7, "keep_bias": False}),
    Case("crt", DIGITS, "crt", {"bn_mode": "train"}),
    Case("lws", DIGITS, "lws", {"bn_mode": "eval"}),
    Case("bbn", DIGITS, "bbn", {}),
    Case("deconfound", DIGITS, "deconfound", {**DECONFOUND, "tde": False}),
    Case("deconfound-tde", DIGITS, "deconfound", DECONFOUND),
    Case("deconfound-branches", DIGITS, "deconfound", {**DECONFOUND, "two_branches": True}),
    Case("oltr", DIGITS, "oltr", {"plain_gradient": False}),
    Case("oltr-plain", DIGITS, "oltr", {"plain_gradient": True}, {"epochs": 2, "evaluate_every": 2}),
    Case("meta_weight", DIGITS, "meta_weight", {"norm": True}, {"epochs": 2, "evaluate_every": 2}),
    Case("meta_weight-plain", DIGITS, "meta_weight", {"norm": False}, {"epochs": 1, "evaluate_every": 1}),
    Case("domain_adaptation", DIGITS, "domain_adaptation", {"beta": 0.9999, "start": 0.6, "rate": 0.01}),
    Case("m2m", DIGITS, "m2m", M2M),
    Case("m2m-ldam", DIGITS, "m2m", {**M2M, "ldam": True}),
    Case("mfw", DIGITS, "mfw", MFW),
    Case("mfw-drw", DIGITS, "mfw", {**MFW, "drw": True, "keep_mixing": False}),
    Case("mfw-log", LONG_TAILED, "mfw", {**MFW, "alpha": 1.0, "beta": 2.0, "std": "log", "draw": "batch"}),
    Case("mfw-strength", DIGITS, "mfw", {**MFW, "major_strength": 0.5, "layer": "group1", "reduction": "mean"}),
    Case("balanced_softmax", DIGITS, "balanced_softmax", {}),
    Case("logit_adjustment", DIGITS, "logit_adjustment", {"tau": 1.5}),
    Case("vs", DIGITS, "vs", {"gamma": 0.2, "tau": 1.2}),
    Case("label_aware_smoothing", DIGITS, "label_aware_smoothing", {"head": 0.3, "tail": 0.05, "drw": False}),
    Case("mislas", DIGITS, "mislas", MISLAS),
    Case("cmo", DIGITS, "cmo", {"probability": 0.5, "loss": "cross_entropy", **WEIGHTED}, {"epochs": 10}),
    Case("mamix", DIGITS, "mamix", {"alpha": 1.0, "power": 0.25, **WEIGHTED}),
    # What a run can do beside its method.
    Case("drw-setting", DIGITS, "mfw", {**MFW, "drw": True}, {"drw": True}),
    Case("ema-swa", DIGITS, "erm", {"drw": True}, {"average": "both", "swa_from": "drw"}),
    Case("swa-early", DIGITS, "erm", {"drw": True}, {"average": "swa", "swa_from": "last_quarter"}),
    Case("held-out", LONG_TAILED, "mfw", MFW, {"hold_out": 5, "hold_out_from": "source", "evaluate_every": 1}),
    Case("held-out-tau", DIGITS, "tau_norm", {"tau": None, "keep_bias": True}, {"hold_out": 0.2, "evaluate_every": 2}),
    Case("own", DIGITS, OWN, {"smoothing": 0.2, "drw": True}),
    Case("own-resumed", DIGITS, OWN, {"smoothing": 0.2, "drw": True}, trained="resume"),
    # A folder of images.
    Case("folder", FOLDER, "erm", {"drw": False}),
    Case("folder-command", FOLDER, "erm", {"drw": False}, trained="command"),
    Case("folder-steps", FOLDER, "erm", {"drw": False}, {"recipe": "cifar-steps", "augment": "none"}),
    Case("folder-crops", FOLDER, "mfw", MFW, {"augment": "random_resized_crop"}),
    Case("folder-streamed", FOLDER, "mfw", MFW, {"augment": "random_resized_crop", "images": "streamed"}),
    Case("folder-strong", FOLDER, "erm", {"drw": True}, {"augment": "strong", "images": "streamed"}),
    Case("folder-two-stages", FOLDER, "crt", {"bn_mode": "eval"}, {"hold_out": 0.25}),
    Case("folder-mislas", FOLDER, "mislas", MISLAS, {"batch_size": 32, "image_size": 8}),
    # What takes longer: networks of many layers, and exports of networks that methods have changed.
    Case("resnet20", FOLDER, "erm", {"drw": False}, {"net": "resnet20", "lr": 0.001}, slow=True),
    Case("resnet20-gn", FOLDER, "mfw", MFW, {"net": "resnet20-gn", "lr": 0.01}, slow=True),
    Case("convnet-ln", FOLDER, "erm", {"drw": False}, {"net": "convnet-ln", "lr": 0.01}, slow=True),
    Case("onnx", FOLDER, "erm", {"drw": False}, export="onnx", slow=True),
    Case("tau_norm-torch", DIGITS, "tau_norm", {"tau": 1.0, "keep_bias": False}, export="torch", slow=True),
    Case("lws-torch", DIGITS, "lws", {"bn_mode": "train"}, export="torch", slow=True),
    Case("bbn-torch", DIGITS, "bbn", {}, export="torch", slow=True),
    Case("deconfound-torch", DIGITS, "deconfound", DECONFOUND, export="torch", slow=True),
    Case("oltr-torch", DIGITS, "oltr", {"plain_gradient": False}, export="torch", slow=True),
    Case("m2m-longer", DIGITS, "m2m", M2M, {"epochs": 10, "evaluate_every": 10}, slow=True),
)

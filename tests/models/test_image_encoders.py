"""Image encoders: sizes of the papers, grids, released weights, and running statistics that stay exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from seqwright.data.batch import Images
from seqwright.errors import ConfigError, ModelError
from seqwright.models import ENCODERS
from seqwright.models.building import build_model
from seqwright.models.encoders.bases.images import GridTransformer
from seqwright.models.encoders.bases.released import fitted_positions
from seqwright.nn.batch_norm import BatchNorm, tracking_statistics
from seqwright.runs.tensors import write_tensors
from seqwright.training.encoder_start import start_encoder

KINDS = ("cnn", "resnet", "patches", "hybrid")


def parameters(preset: str, **facts: Any) -> int:
    with torch.device("meta"):
        model = build_model(preset, **facts)
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("preset", "size", "classes", "count"),
    [
        ("resnet20", 32, 10, 269_722),  # He et al. 2016, table 6: 0.27 M
        ("resnet18", 224, 1000, 11_689_512),
        ("resnet34", 224, 1000, 21_797_672),
        ("resnet50", 224, 1000, 25_557_032),
        ("dosovitskiy2021-base", 224, 1000, 86_567_656),  # Dosovitskiy et al. 2021, table 1: 86 M
        ("dosovitskiy2021-tiny", 224, 1000, 5_717_416),
    ],
)
def test_presets_have_the_sizes_of_their_papers(preset, size, classes, count):
    assert parameters(preset, channels=3, image_size=size, classes=classes) == count


def built(kind: str, size: int, channels: int = 3, **options: Any) -> Any:
    torch.manual_seed(0)
    small = {"size": 16, **({"heads": 2, "layers": 1} if "heads" in ENCODERS.options(kind) else {})}
    return ENCODERS.build({"kind": kind, **small, **options}, channels=channels, image_size=size).eval()


@pytest.mark.parametrize(
    ("kind", "options", "size", "grid"),
    [
        ("cnn", {"layers": 3}, 30, (8, 8)),
        ("resnet", {}, 32, (8, 8)),
        ("resnet", {"stem": "large"}, 128, (8, 8)),
        ("patches", {"patch": 8}, 32, (4, 4)),
        ("patches", {"patch": 8, "class_token": True}, 30, (4, 4)),
        ("hybrid", {"halvings": 3}, 36, (5, 5)),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_cells_of_the_grid_are_the_last_places(kind, options, size, grid, channels):
    encoder = built(kind, size, channels, **options)
    encoded = encoder(encoder.sample([1, 1], [0, 1]))
    assert encoded.grid == grid
    extra = int(options.get("class_token", False))
    assert encoded.hidden.shape == (2, grid[0] * grid[1] + extra, encoder.size)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_sees_its_own_place(kind):
    """A change at the lower right changes that cell more than the one at the upper left."""
    encoder = built(kind, 32, **({"layers": 2} if kind in ("patches", "hybrid") else {}))
    images = encoder.sample([1], [3]).pixels
    other = images.clone()
    other[0, -4:, -4:] = 255 - other[0, -4:, -4:]
    with torch.no_grad():
        change = (encoder(Images(images)).hidden - encoder(Images(other)).hidden)[0].norm(dim=-1)
    assert change[-1] > 2 * change[0]


def test_sinusoidal_positions_tell_rows_from_columns():
    table = GridTransformer((3, 4), "sinusoidal", False, size=8, layers=1, heads=2).positions
    assert table is not None
    grid = table.view(3, 4, 8)
    assert_close(grid[1, 2, :4], grid[1, 0, :4])  # the row
    assert_close(grid[1, 2, 4:], grid[2, 2, 4:])  # the column
    assert len(torch.unique(table, dim=0)) == 12


def test_a_width_that_the_stages_cannot_divide_is_refused():
    with pytest.raises(ConfigError, match="3 stages need a multiple of 4: use 64"):
        ENCODERS.build({"kind": "resnet", "size": 63}, channels=3, image_size=32)


# Released weights ----------------------------------------------------------------------------------


def torchvision_weights(blocks: list[int], bottleneck: bool, width: int = 8) -> dict[str, Tensor]:
    """Random weights with the names and shapes of torchvision's resnet, `width` channels in the stem."""
    weights: dict[str, Tensor] = {}

    def convolution(name: str, inputs: int, outputs: int, kernel: int) -> None:
        weights[f"{name}.weight"] = torch.randn(outputs, inputs, kernel, kernel) / (inputs * kernel**2) ** 0.5

    def norm(name: str, size: int) -> None:
        weights[f"{name}.weight"] = torch.rand(size) + 0.5
        weights[f"{name}.bias"] = torch.randn(size)
        weights[f"{name}.running_mean"] = torch.randn(size)
        weights[f"{name}.running_var"] = torch.rand(size) + 0.5
        weights[f"{name}.num_batches_tracked"] = torch.tensor(7)

    convolution("conv1", 3, width, 7)
    norm("bn1", width)
    inputs, expansion = width, 4 if bottleneck else 1
    for stage, count in enumerate(blocks, start=1):
        inner = width << (stage - 1)
        for block in range(count):
            home, outputs = f"layer{stage}.{block}", inner * expansion
            shapes = [(inputs, inner, 1), (inner, inner, 3), (inner, outputs, 1)] if bottleneck else None
            for number, shape in enumerate(shapes or [(inputs, inner, 3), (inner, inner, 3)], start=1):
                convolution(f"{home}.conv{number}", *shape)
                norm(f"{home}.bn{number}", shape[1])
            if inputs != outputs or (stage > 1 and not block):
                convolution(f"{home}.downsample.0", inputs, outputs, 1)
                norm(f"{home}.downsample.1", outputs)
            inputs = outputs
    weights["fc.weight"], weights["fc.bias"] = torch.randn(10, inputs), torch.randn(10)
    return weights


def torchvision_features(
    weights: dict[str, Tensor], blocks: list[int], bottleneck: bool, x: Tensor
) -> Tensor:
    """The feature maps of torchvision's resnet before pooling, written from its definition."""

    def norm(x: Tensor, name: str) -> Tensor:
        mean, variance = weights[f"{name}.running_mean"], weights[f"{name}.running_var"]
        scaled = (x - mean[:, None, None]) / torch.sqrt(variance[:, None, None] + 1e-5)
        return scaled * weights[f"{name}.weight"][:, None, None] + weights[f"{name}.bias"][:, None, None]

    x = F.relu(norm(F.conv2d(x, weights["conv1.weight"], stride=2, padding=3), "bn1"))
    x = F.max_pool2d(x, 3, 2, 1)
    for stage, count in enumerate(blocks, start=1):
        for block in range(count):
            home, stride = f"layer{stage}.{block}", 2 if stage > 1 and not block else 1
            strides = (1, stride, 1) if bottleneck else (stride, 1)
            y = x
            for number, each in enumerate(strides, start=1):
                weight = weights[f"{home}.conv{number}.weight"]
                y = norm(
                    F.conv2d(y, weight, stride=each, padding=weight.shape[-1] // 2), f"{home}.bn{number}"
                )
                y = F.relu(y) if number < len(strides) else y
            if f"{home}.downsample.0.weight" in weights:
                shortcut = F.conv2d(x, weights[f"{home}.downsample.0.weight"], stride=stride)
                x = norm(shortcut, f"{home}.downsample.1")
            x = F.relu(x + y)
    return x


def saved(path: Path, weights: dict[str, Tensor]) -> str:
    with path.open("wb") as file:
        write_tensors(file, weights)
    return str(path)


@pytest.mark.parametrize(
    ("preset", "blocks", "size"),
    [("resnet18", [2, 2, 2, 2], 64), ("resnet34", [3, 4, 6, 3], 64), ("resnet50", [3, 4, 6, 3], 256)],
)
def test_weights_of_torchvision_give_its_features(preset, blocks, size, tmp_path):
    torch.manual_seed(1)
    bottleneck = preset == "resnet50"
    weights = torchvision_weights(blocks, bottleneck)
    start = saved(tmp_path / "w.safetensors", weights)
    description = {"preset": preset, "encoder": {"size": size, "start": start}}
    model = build_model(description, channels=3, image_size=64, classes=10).eval()
    start_encoder(model, description)
    pixels = torch.randint(256, (2, 64, 64, 3), dtype=torch.uint8)
    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = ((pixels / 255 - mean) / deviation).permute(0, 3, 1, 2)
    expected = torchvision_features(weights, blocks, bottleneck, x)
    with torch.no_grad():
        found = model.encoder(Images(pixels))
    assert found.grid == tuple(expected.shape[2:])
    assert_close(found.hidden, expected.flatten(2).transpose(1, 2), atol=1e-4, rtol=1e-4)


def timm_weights(size: int, layers: int, patch: int, cells: int) -> dict[str, Tensor]:
    shapes = {
        "cls_token": (1, 1, size),
        "pos_embed": (1, cells + 1, size),
        "patch_embed.proj.weight": (size, 3, patch, patch),
        "patch_embed.proj.bias": (size,),
        "norm.weight": (size,),
        "norm.bias": (size,),
        "head.weight": (10, size),
        "head.bias": (10,),
    }
    for i in range(layers):
        for name, outputs, inputs in (
            ("attn.qkv", 3 * size, size),
            ("attn.proj", size, size),
            ("mlp.fc1", 4 * size, size),
            ("mlp.fc2", size, 4 * size),
        ):
            shapes |= {f"blocks.{i}.{name}.weight": (outputs, inputs), f"blocks.{i}.{name}.bias": (outputs,)}
        for norm in ("norm1", "norm2"):
            shapes |= {f"blocks.{i}.{norm}.weight": (size,), f"blocks.{i}.{norm}.bias": (size,)}
    return {name: torch.randn(shape) * 0.2 for name, shape in shapes.items()}


def timm_features(weights: dict[str, Tensor], heads: int, x: Tensor) -> Tensor:
    """The output of timm's VisionTransformer after its last norm, with torch's own layers."""
    size = weights["norm.weight"].shape[0]
    norm = lambda x, name: F.layer_norm(  # noqa: E731
        x, (size,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-6
    )
    linear = lambda x, name: F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])  # noqa: E731
    kernel = weights["patch_embed.proj.weight"]
    x = F.conv2d(x, kernel, weights["patch_embed.proj.bias"], stride=kernel.shape[-1])
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([weights["cls_token"].expand(len(x), -1, -1), x], 1) + weights["pos_embed"]
    for i in range(sum(name.endswith("attn.qkv.bias") for name in weights)):
        home = f"blocks.{i}"
        attention = nn.MultiheadAttention(size, heads, batch_first=True)
        attention.in_proj_weight.data = weights[f"{home}.attn.qkv.weight"]
        attention.in_proj_bias.data = weights[f"{home}.attn.qkv.bias"]
        attention.out_proj.weight.data = weights[f"{home}.attn.proj.weight"]
        attention.out_proj.bias.data = weights[f"{home}.attn.proj.bias"]
        y = norm(x, f"{home}.norm1")
        x = x + attention(y, y, y, need_weights=False)[0]
        x = x + linear(F.gelu(linear(norm(x, f"{home}.norm2"), f"{home}.mlp.fc1")), f"{home}.mlp.fc2")
    return norm(x, "norm")


VIT = {"preset": "dosovitskiy2021-tiny", "size": 24, "hidden": 96, "layers": 2, "heads": 3}


def test_weights_of_timm_give_its_features(tmp_path):
    torch.manual_seed(1)
    weights = timm_weights(24, 2, 16, 9)
    start = saved(tmp_path / "w.safetensors", weights)
    description = {**VIT, "encoder": {"start": start}}
    model = build_model(description, channels=3, image_size=48, classes=10).eval()
    start_encoder(model, description)
    pixels = torch.randint(256, (2, 48, 48, 3), dtype=torch.uint8)
    x = ((pixels / 255 - 0.5) / 0.5).permute(0, 3, 1, 2)
    with torch.no_grad():
        assert_close(model.encoder(Images(pixels)).hidden, timm_features(weights, 3, x), atol=1e-4, rtol=1e-4)


def test_positions_of_another_grid_are_interpolated(tmp_path):
    start = saved(tmp_path / "w.safetensors", timm_weights(24, 2, 16, 9))
    description = {**VIT, "encoder": {"start": start}}
    model = build_model(description, channels=3, image_size=64, classes=10)
    start_encoder(model, description)
    assert model.encoder.transformer.positions.shape == (17, 24)
    ramp = torch.arange(9.0).view(3, 3)[..., None].expand(3, 3, 4).flatten(0, 1)
    finer = fitted_positions(ramp, torch.zeros(36, 4))[:, 0].view(6, 6)
    assert (finer[1:] > finer[:-1]).all()  # rows still rise
    assert (finer[:, 1:] > finer[:, :-1]).all()


def test_weights_that_do_not_fit_are_refused(tmp_path):
    junk = saved(tmp_path / "junk.safetensors", {"a.weight": torch.zeros(2)})
    other = saved(tmp_path / "other.safetensors", torchvision_weights([1, 1, 1, 1], False))
    for start, message in (
        (junk, "neither the layout"),
        (other, "another encoder"),
        ("none", "does not exist"),
    ):
        description = {"preset": "resnet18", "encoder": {"size": 64, "start": start}}
        model = build_model(description, channels=3, image_size=64, classes=10)
        with pytest.raises(ModelError, match=message):
            start_encoder(model, description)


# Batch statistics ----------------------------------------------------------------------------------


def test_batch_norm_is_that_of_torch():
    torch.manual_seed(0)
    ours, theirs = BatchNorm(4), nn.BatchNorm2d(4)
    x = torch.randn(6, 4, 3, 3)
    for _ in range(3):
        assert_close(ours(x), theirs(x))
    assert_close(ours.running_mean, theirs.running_mean)
    assert_close(ours.running_variance, theirs.running_var)
    assert_close(ours.eval()(x), theirs.eval()(x))


def test_untracked_statistics_stay_and_one_value_makes_no_nan():
    norm = BatchNorm(4)
    with tracking_statistics(False):
        norm(torch.randn(6, 4, 3, 3))
    assert not norm.running_mean.any()
    norm(torch.randn(6, 4, 3, 3))
    assert norm.running_mean.any()
    assert norm(torch.randn(1, 4, 1, 1)).isfinite().all()
